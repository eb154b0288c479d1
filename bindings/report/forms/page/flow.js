/*
 * The flow picture: exchange -> exchange -> queue, bands as wide as their messages. Large topologies are bounded: the
 * exchanges and queues with the most messages stand for themselves, the others stand together, exchanges layer by layer.
 */

const MOST_EXCHANGES = 16;
const MOST_QUEUES = 24;
const MOST_IDLE = 40;
const NOWHERE = 'nowhere';

/** What to draw of the report: nodes and links with the others gathered, and what was left out. */
function flowOf(report) {
  const published = new Map(report.exchanges.map((row) => [row.exchange, row.published]));
  const weight = new Map();
  const add = (id, messages) => weight.set(id, (weight.get(id) || 0) + messages);
  const flows = report.flow.map((flow) => ({
    from: 'x' + flow.source,
    to: flow.destination === null ? NOWHERE : (flow.destination_type === 'queue' ? 'q' : 'x') + flow.destination,
    kind: flow.kind,
    messages: flow.messages + flow.possible,
  }));
  const known = new Set(flows.map((flow) => flow.from + '\n' + flow.to));
  const idle = new Map();
  for (const binding of report.bindings) {
    const flow = {
      from: 'x' + binding.source,
      to: (binding.destination_type === 'queue' ? 'q' : 'x') + binding.destination,
      kind: 'binding',
      messages: 0,
    };
    const id = flow.from + '\n' + flow.to;
    if (!known.has(id)) idle.set(id, flow);
  }
  const drawsIdle = idle.size > 0 && idle.size <= MOST_IDLE && flows.length + idle.size <= 2 * MOST_IDLE;
  if (drawsIdle) flows.push(...idle.values());
  for (const flow of flows) {
    add(flow.from, flow.messages);
    add(flow.to, flow.messages);
  }
  for (const [name, messages] of published) if (messages) add('x' + name, messages);

  const kept = new Set([NOWHERE]);
  for (const [kind, most] of [
    ['x', MOST_EXCHANGES],
    ['q', MOST_QUEUES],
  ]) {
    const ids = [...weight.keys()]
      .filter((id) => id[0] === kind && id !== NOWHERE)
      .sort((a, b) => weight.get(b) - weight.get(a) || (a < b ? -1 : 1));
    ids.slice(0, ids.length > most + 1 ? most : ids.length).forEach((id) => kept.add(id));
  }
  const layers = layersOf(flows);
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
  for (const flow of flows) {
    const [from, to] = [groupOf(flow.from), groupOf(flow.to)];
    if (from === to && others.has(from)) continue; // what the others pass among themselves
    const id = from + '\n' + to + '\n' + flow.kind;
    const link = links.get(id) || { from, to, kind: flow.kind, messages: 0 };
    link.messages += flow.messages;
    links.set(id, link);
  }
  const nodes = new Map();
  const node = (id) => {
    if (nodes.has(id)) return;
    const kind = id === NOWHERE ? 'lost' : others.has(id) ? 'others' : id[0] === 'q' ? 'queue' : 'exchange';
    const all = others.has(id) ? [...others.get(id)] : [id];
    nodes.set(id, {
      id,
      kind,
      label:
        id === NOWHERE
          ? 'no queue'
          : kind === 'others'
            ? plural(all.length, id[7] === 'q' ? 'other queue' : 'other exchange')
            : nameText(id.slice(1), 34),
      full:
        id === NOWHERE
          ? 'Messages that no queue got'
          : kind === 'others'
            ? null
            : (kind === 'queue' ? 'queue ' : 'exchange ') + (visible(id.slice(1)) || '(default)'),
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
  return { nodes: [...nodes.values()], links: [...links.values()], idle: drawsIdle ? 0 : idle.size, drawsIdle };
}

function flowPicture(report) {
  const flow = flowOf(report);
  if (!flow.nodes.length) return el('p', { class: 'none' }, 'No message took any way here.');
  const holder = el('div', { class: 'chart wide', tabindex: '-1' });
  whenSized(holder, (width) => holder.replaceChildren(drawFlow(flow, Math.max(width, 640))));
  return el(
    'div',
    {},
    el(
      'ul',
      { class: 'legend' },
      el('li', {}, el('span', { class: 'swatch flow-exchange' }), 'exchange'),
      el('li', {}, el('span', { class: 'swatch flow-queue' }), 'queue'),
      flow.nodes.some((node) => node.kind === 'others')
        ? el('li', {}, el('span', { class: 'swatch flow-others' }), 'several, drawn as one')
        : null,
      flow.links.some((link) => link.kind === 'alternate')
        ? el('li', {}, el('span', { class: 'swatch flow-alternate' }), 'by an alternate exchange')
        : null,
      flow.links.some((link) => link.to === NOWHERE)
        ? el('li', {}, el('span', { class: 'swatch lost' }), 'no queue')
        : null,
      leadsBack(flow)
        ? el('li', {}, el('span', { class: 'swatch flow-back' }), 'leads back: a cycle')
        : null,
      flow.drawsIdle
        ? el('li', {}, el('span', { class: 'swatch flow-idle' }), 'bound, no message came this way')
        : null,
    ),
    holder,
    el(
      'p',
      { class: 'note' },
      'Bands are as wide as the messages they carry; one message may leave an exchange by several. Point at a part, or move to it with the Tab key, to follow its ways.',
      flow.idle
        ? (leftOut.bindings ? ' At least ' : ' ') +
            plural(flow.idle, 'connection') +
            ' without a message ' +
            (flow.idle === 1 ? 'is' : 'are') +
            ' not drawn.'
        : null,
    ),
  );
}

function drawFlow(flow, width) {
  const { nodes, links } = connect(flow);
  const longest = (nodes) => Math.min(width * 0.28, Math.max(40, ...nodes.map((node) => node.label.length * 7 + 12)));
  const starts = nodes.filter((node) => !node.last);
  const size = {
    width,
    left: longest(starts),
    right: longest(nodes.filter((node) => node.last)) + 46,
    top: 20,
    least: 160,
    most: 1100,
    gap: 16,
  };
  const { columns, height } = layOutFlow(nodes, links, size);
  const step = columns.length > 1 ? columns[1][0].x - columns[0][0].x : width;
  const picture = draw('svg', {
    class: 'flow',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'group',
    'aria-label': 'Flow of messages from exchanges to queues',
  });
  const shown = new Map();
  for (const link of [...links].sort((a, b) => b.messages - a.messages)) {
    const band = draw('path', {
      class: [
        'link',
        link.kind,
        link.to === NOWHERE ? 'lost' : '',
        link.messages ? '' : 'idle',
        link.back ? 'back' : '',
      ].join(' '),
      d: link.path,
      'stroke-width': link.width,
      fill: 'none',
    });
    shown.set(link, band);
    picture.append(band);
  }
  const mark = (parts) => {
    picture.classList.toggle('marking', Boolean(parts));
    for (const [part, shape] of shown) shape.classList.toggle('on', Boolean(parts && parts.has(part)));
  };
  for (const node of nodes) {
    const group = draw('g', {
      class: 'node ' + node.kind,
      tabindex: 0,
      role: 'img',
      'aria-label': `${node.full || node.label}: ${plural(Math.round(node.value), 'message')}`,
    });
    const first = columns[0].includes(node) && !node.last;
    const at = node.last
      ? [node.x + NODE_WIDTH + 6, node.y + node.height / 2 + 4, 'start']
      : first
        ? [node.x - 6, node.y + node.height / 2 + 4, 'end']
        : [node.x + NODE_WIDTH / 2, node.y - 4, 'middle'];
    group.append(
      node.published && !first
        ? draw('path', { class: 'published', d: `M${node.x - 14} ${node.y + node.height / 2 - 5} l10 5 l-10 5z` })
        : '',
      draw('rect', {
        x: node.x,
        y: node.y,
        width: NODE_WIDTH,
        height: node.height,
        rx: node.kind === 'exchange' ? 3 : 0,
      }),
      draw(
        'text',
        { x: at[0], y: at[1], 'text-anchor': at[2] },
        first || node.last ? node.label : fitted(node, Math.max(6, Math.floor(step / 7.4) - 1)),
        node.last ? draw('tspan', { class: 'figure', dx: 6 }, brief(node.value)) : null,
      ),
    );
    shown.set(node, group);
    picture.append(group);
    const tell = (x, y) => {
      mark(waysOf(node));
      showTip(nodeTip(node), x, y);
    };
    follow(group, tell, () => {
      mark(null);
      hideTip();
    });
  }
  for (const link of links) {
    const tell = (x, y) => {
      mark(waysOfLink(link));
      showTip(linkTip(link), x, y);
    };
    follow(shown.get(link), tell, () => {
      mark(null);
      hideTip();
    });
  }
  return picture;
}

/* A label of limited length. Names often differ at their ends, so the middle is left out. */
function fitted(node, most) {
  const label = node.label;
  if (label.length <= most) return label;
  if (node.kind === 'others') return label.replace(/other .*/, 'others');
  const head = Math.floor((most - 1) / 3);
  return label.slice(0, head) + '…' + label.slice(label.length - (most - 1 - head));
}

function follow(shape, tell, leave) {
  shape.addEventListener('pointermove', (event) => tell(event.clientX, event.clientY));
  shape.addEventListener('pointerleave', leave);
  shape.addEventListener('focus', () => {
    const box = shape.getBoundingClientRect();
    tell(box.right, box.top);
  });
  shape.addEventListener('blur', leave);
}

/* All nodes and links on a way to the node or from it. */
function waysOf(node) {
  return new Set([node, ...reach([node], 'into', 'source'), ...reach([node], 'out', 'target')]);
}

function waysOfLink(link) {
  return new Set([
    link,
    link.source,
    link.target,
    ...reach([link.source], 'into', 'source'),
    ...reach([link.target], 'out', 'target'),
  ]);
}

function reach(from, side, end) {
  const seen = new Set();
  const pending = [...from];
  while (pending.length) {
    for (const link of pending.pop()[side]) {
      if (seen.has(link)) continue;
      seen.add(link);
      if (!seen.has(link[end])) {
        seen.add(link[end]);
        pending.push(link[end]);
      }
    }
  }
  return seen;
}

function nodeTip(node) {
  const rows = [];
  if (node.published) rows.push([null, 'published here', count(node.published)]);
  const list = (links, end, word) =>
    [...links]
      .sort((a, b) => b.messages - a.messages)
      .slice(0, 8)
      .forEach((link) => rows.push([null, word + ' ' + link[end].label, count(link.messages)]));
  list(node.into, 'source', 'from');
  list(node.out, 'target', 'to');
  return [el('p', { class: 'tip-head' }, node.full || node.label), tipRows(rows)];
}

const KINDS = {
  binding: 'by bindings',
  alternate: 'by the alternate exchange',
  default: 'by the queue’s own name',
  nowhere: 'nothing took them',
};

function linkTip(link) {
  return [
    el('p', { class: 'tip-head' }, link.source.label + ' → ' + link.target.label),
    tipRows([[null, KINDS[link.kind] || link.kind, count(link.messages)]]),
  ];
}
