/*
 * What the flow picture draws: exchanges, bindings and queues as nodes, and between them links with their messages.
 * Large topologies are bounded: while there is room each binding stands for itself, then those that join the same two
 * ends stand together, then they are the links alone; of exchanges and queues those with the most messages stand for
 * themselves, the others together, exchanges layer by layer.
 */

const NOWHERE = 'nowhere';

const nodeOf = (row) => (row.destination_type === 'queue' ? 'q' : 'x') + row.destination;

/**
 * room: numbers of { queues, exchanges, idle: links without messages } that are drawn at most, and how bindings are drawn:
 * `each`, those with the same `ends` together, or `none`.
 */
function flowOf(report, room) {
  const published = new Map(report.exchanges.map((row) => [row.exchange, row.published]));
  const { pills, links: flows } = linksOf(report, room.bindings);
  const weight = new Map();
  const add = (id, messages) => weight.set(id, (weight.get(id) || 0) + messages);
  const idle = flows.filter((flow) => !flow.messages && !flow.pill);
  const busy = flows.filter((flow) => flow.messages || flow.pill);
  const drawsIdle = idle.length <= room.idle && flows.length <= 2 * room.idle;
  const drawn = drawsIdle ? flows : busy;
  for (const flow of drawn) {
    add(flow.from, flow.messages);
    add(flow.to, flow.messages);
  }
  for (const [name, messages] of published) if (messages) add('x' + name, messages);

  const kept = new Set([NOWHERE, ...pills.keys()]);
  for (const [kind, most] of [
    ['x', room.exchanges],
    ['q', room.queues],
  ]) {
    const ids = [...weight.keys()]
      .filter((id) => id[0] === kind)
      .sort((a, b) => weight.get(b) - weight.get(a) || (a < b ? -1 : 1));
    ids.slice(0, ids.length > most + 1 ? most : ids.length).forEach((id) => kept.add(id));
  }
  const layers = layersOf(drawn);
  const layerOf = (id) => layers.get(id) || 0; // 0 too for what is published to and leads nowhere
  const lump = lumpsOf([...kept].filter((id) => id[0] === 'x').map(layerOf));
  const others = new Map();
  const groupOf = (id) => {
    if (kept.has(id)) return id;
    const all = 'others ' + id[0] + (id[0] === 'x' ? lump(layerOf(id)) : '');
    if (!others.has(all)) others.set(all, new Set());
    others.get(all).add(id);
    return all;
  };
  const links = new Map();
  for (const flow of drawn) {
    const [from, to] = [groupOf(flow.from), groupOf(flow.to)];
    if (from === to && others.has(from)) continue; // what the others pass among themselves
    const id = [from, to, flow.kind, Boolean(flow.messages)].join('\n\n');
    const link = links.get(id) || { from, to, kind: flow.kind, messages: 0, bindings: [] };
    link.messages += flow.messages;
    link.bindings.push(...flow.bindings);
    links.set(id, link);
  }
  const got = new Map(report.queues.map((row) => ['q' + row.queue, row.messages + row.possible]));
  for (const row of report.exchanges) got.set('x' + row.exchange, row.through);
  got.set(NOWHERE, report.totals.messages.unroutable + report.totals.messages.refused);
  const nodes = new Map();
  const node = (id) => {
    if (nodes.has(id)) return;
    if (pills.has(id)) {
      nodes.set(id, pills.get(id));
      return;
    }
    const kind = id === NOWHERE ? 'lost' : others.has(id) ? 'others' : id[0] === 'q' ? 'queue' : 'exchange';
    const all = others.has(id) ? [...others.get(id)] : [id];
    nodes.set(id, {
      id,
      kind,
      ...namesOf(id, kind, all),
      messages: all.reduce((sum, each) => sum + (got.get(each) || 0), 0),
      published: all.reduce((sum, each) => sum + (each[0] === 'x' ? published.get(each.slice(1)) || 0 : 0), 0),
      last: id === NOWHERE || id[0] === 'q' || id === 'others q',
      low: id === NOWHERE || kind === 'others',
    });
  };
  for (const link of links.values()) {
    node(link.from);
    node(link.to);
  }
  for (const [name, messages] of published) if (messages) node(groupOf('x' + name));
  return {
    nodes: [...nodes.values()],
    links: [...links.values()],
    left: drawsIdle ? 0 : idle.length,
    gathered: others.size > 0 || [...pills.values()].some((pill) => pill.bindings.length > 1) || pills.size === 0,
  };
}

function namesOf(id, kind, all) {
  if (kind === 'lost') return { label: 'no queue', full: 'Messages that no queue got', href: '#unroutable' };
  if (kind === 'others')
    return { label: plural(all.length, id[7] === 'q' ? 'other queue' : 'other exchange'), full: null };
  const name = id.slice(1);
  return {
    label: nameText(name, 80),
    full: kind + ' ' + (visible(name) || '(default)'),
    href: '#' + kind + 's?find=' + encodeURIComponent(name),
  };
}

/* The links from end to end: through a node for each binding, or for those that join the same ends, or none. */
function linksOf(report, drawn) {
  const groups = groupedBindings(report.bindings, drawn);
  const pills = new Map();
  const links = [];
  for (const group of groups) {
    const [first] = group;
    const messages = group.reduce((sum, row) => sum + row.messages + row.possible, 0);
    const ends = { from: 'x' + first.source, to: nodeOf(first), kind: 'binding', messages, bindings: group };
    if (drawn === 'none') {
      links.push(ends);
      continue;
    }
    const id = 'b' + first.number;
    pills.set(id, pillOf(id, group, messages));
    links.push({ ...ends, to: id, pill: true }, { ...ends, from: id, pill: true });
  }
  for (const flow of report.flow) {
    if (flow.kind === 'binding') continue;
    const to = flow.destination === null ? NOWHERE : nodeOf(flow);
    const messages = flow.messages + flow.possible;
    const link = { from: 'x' + flow.source, to, kind: flow.kind, messages, bindings: [] };
    if (drawn === 'none') {
      links.push(link);
      continue;
    }
    const id = ['b', flow.kind, flow.source, to].join('\n');
    pills.set(id, { id, pill: true, bindings: [], messages, ...WAYS[flow.kind] });
    links.push({ ...link, to: id, pill: true }, { ...link, from: id, pill: true });
  }
  return { pills, links };
}

/* Ways that are no binding, as nodes. */
const WAYS = {
  alternate: { kind: 'alternate', sign: '', label: 'alternate', full: 'by the alternate exchange' },
  default: {
    kind: 'binding',
    sign: '',
    label: 'by its name',
    full: 'from the default exchange, by the queue’s own name',
  },
  nowhere: { kind: 'lost', sign: '✗', label: 'no match', full: 'no binding took them', href: '#unroutable' },
};

function groupedBindings(rows, drawn) {
  if (drawn === 'each') return rows.map((row) => [row]);
  const byEnds = new Map();
  for (const row of rows) {
    const id = endsOf(row);
    if (!byEnds.has(id)) byEnds.set(id, []);
    byEnds.get(id).push(row);
  }
  return [...byEnds.values()];
}

/* What bindings have in common that are drawn together: both ends, and whether any message took them. */
function endsOf(row) {
  return [row.source, nodeOf(row), row.messages + row.possible > 0].join('\n');
}

/** Number of nodes for bindings, if they are drawn so. Where the page lacks some of them, none are drawn. */
function pillsOf(report, drawn) {
  if (leftOut.bindings) return Infinity;
  return drawn === 'each' ? report.bindings.length : new Set(report.bindings.map(endsOf)).size;
}

function pillOf(id, group, messages) {
  const [row] = group;
  const alone = group.length === 1;
  const able = group.some((each) => !['not_eligible', 'dead_letters_only', 'ignored'].includes(each.state));
  const text = row.routing_key || argumentsText(row) || '""';
  return {
    id,
    kind: 'binding',
    pill: true,
    idle: !messages,
    sign: messages ? '' : able ? '✗' : '–',
    label: alone ? visible(text) : plural(group.length, 'binding'),
    full: alone ? `binding ${visible(row.source)} → ${visible(row.destination)}` : plural(group.length, 'binding'),
    bindings: group,
    messages,
    href: alone ? placeOf(row) : '#bindings?find=' + encodeURIComponent(row.source + ' ' + row.destination),
  };
}
