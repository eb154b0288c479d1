/*
 * The flow picture: exchange -> binding -> queue, bands as wide as their messages; red what no queue got, grey and
 * dashed the bindings that no message took. It fits the first screen; a button draws it larger.
 */

const CHARACTER = 7.25; // width of a character of a label, in pixels
const PILL_CHARACTER = 6.65;
const MOST_HIGH = 6_000; // of the larger picture
const LEAST_HIGH = 300;
const NARROW = 560; // below it labels stand above what they name, and bindings are links alone

function flowPicture(report) {
  const holder = el('div', { class: 'chart', tabindex: '-1' });
  const below = el('div', { class: 'flow-below' });
  let large = false;
  const button = el('button', { type: 'button', class: 'plain', 'aria-pressed': 'false' }, 'All of it, larger');
  const paint = (width, high = large ? MOST_HIGH : firstScreen(holder)) => {
    const flow = flowFor(report, width, high);
    if (!flow.nodes.length) {
      holder.replaceChildren(el('p', { class: 'none' }, 'No message took any way here.'));
      return;
    }
    holder.replaceChildren(drawFlow(flow, width, high));
    const gathered = flow.gathered && (width >= NARROW || flow.nodes.some((node) => node.kind === 'others'));
    button.hidden = !large && !gathered && !flow.left;
    button.setAttribute('aria-pressed', String(large));
    below.replaceChildren(flowLegend(flow), button);
    const excess = below.getBoundingClientRect().bottom + scrollY - innerHeight + 6;
    // A long legend, or links that lead back, take room below.
    if (!large && excess > 0 && high - excess >= LEAST_HIGH) paint(width, high - excess);
  };
  let width = 0;
  button.addEventListener('click', () => {
    large = !large;
    paint(width);
  });
  whenSized(holder, (now) => {
    width = now;
    paint(now);
  });
  return [holder, below];
}

/* How high the picture may be, so that it ends where the window does. */
function firstScreen(holder) {
  const top = holder.getBoundingClientRect().top + scrollY;
  return Math.min(700, Math.max(LEAST_HIGH, innerHeight - top - 70));
}

/**
 * The flow with each binding, else with those that join the same ends together, else without: the first that fits. Names
 * of single bindings may take three quarters of the height, so that bands keep some width.
 */
function flowFor(report, width, high) {
  const queues = Math.max(6, Math.floor(high / 23));
  const room = { queues, exchanges: Math.min(queues, 40), idle: Math.floor(high / 12) };
  const ways = width < NARROW ? ['none'] : ['each', 'ends', 'none'];
  for (const bindings of ways) {
    if (bindings !== 'none' && pillsOf(report, bindings) > high / 6) continue; // more than two columns of them
    const flow = flowOf(report, { ...room, bindings });
    if (bindings === 'none' || fits(flow, width, high * (bindings === 'each' ? 0.75 : 1))) return flow;
  }
  return null;
}

function fits(flow, width, high) {
  const columns = intoColumns(connect(flow).nodes);
  const least = (column) => column.reduce((sum, node) => sum + (node.pill ? PILL_HEIGHT + PILL_GAP : 17), 24);
  return width / columns.length >= 125 && columns.every((column) => least(column) <= high);
}

function flowLegend(flow) {
  const part = (shown, swatch, text) => (shown ? el('li', {}, el('span', { class: 'swatch ' + swatch }), text) : null);
  const has = (test) => flow.nodes.some(test);
  return el(
    'ul',
    { class: 'legend', title: 'One message may leave an exchange by several bindings.' },
    part(true, 'flow-exchange', 'exchange'),
    part(
      has((node) => node.pill && !node.idle),
      'flow-binding',
      'binding',
    ),
    part(true, 'flow-queue', 'queue'),
    part(
      flow.links.some((link) => link.to === NOWHERE),
      'lost',
      'unroutable',
    ),
    part(
      has((node) => node.kind === 'others'),
      'flow-others',
      'several, drawn as one',
    ),
    part(
      flow.links.some((link) => link.kind === 'alternate'),
      'flow-alternate',
      'by an alternate exchange',
    ),
    part(leadsBack(flow), 'flow-back', 'leads back: a cycle'),
    part(
      flow.links.some((link) => !link.messages),
      'flow-idle',
      '✗ bound, no message came this way',
    ),
    flow.left
      ? el('li', {}, (leftOut.bindings ? 'at least ' : '') + plural(flow.left, 'way') + ' without a message not drawn')
      : null,
  );
}

/** Draws nodes and links; they may be of other kinds than those of `flowOf`. */
function drawFlow(flow, width, high) {
  const { nodes, links } = connect(flow);
  const narrow = width < NARROW;
  const size = { width, high, narrow, top: narrow ? 22 : 20, ...margins(nodes, width, narrow) };
  const { columns, height } = layOutFlow(nodes, links, size);
  const picture = draw('svg', {
    class: 'flow',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'group',
    'aria-label': 'Flow of messages from exchanges through bindings to queues',
  });
  const shown = new Map();
  for (const link of [...links].sort((a, b) => b.messages - a.messages)) {
    const kinds = [
      'link',
      link.kind,
      link.to === NOWHERE ? 'lost' : '',
      link.messages ? '' : 'idle',
      link.back ? 'back' : '',
    ];
    const band = draw('path', {
      class: kinds.filter(Boolean).join(' '),
      d: link.path,
      'stroke-width': link.back || !link.messages ? link.width : null,
    });
    shown.set(link, [band]);
    picture.append(band);
  }
  const mark = (parts) => {
    picture.classList.toggle('marking', Boolean(parts));
    for (const [part, shapes] of shown)
      for (const shape of shapes) shape.classList.toggle('on', Boolean(parts && parts.has(part)));
  };
  const attend = (shape, parts, tip) =>
    follow(
      shape,
      (x, y) => {
        mark(parts());
        showTip(tip(), x, y);
      },
      () => {
        mark(null);
        hideTip();
      },
    );
  const names = draw('g', { 'aria-hidden': 'true' }); // of exchanges between bindings, above all of these
  for (const node of nodes) {
    const group = draw(
      node.href ? 'a' : 'g',
      {
        class: 'node ' + node.kind + (node.idle ? ' idle' : '') + (node.pill ? ' pill' : ''),
        href: node.href,
        tabindex: 0,
        'aria-label': `${node.full || node.label}: ${plural(Math.round(node.messages), 'message')}`,
      },
      node.pill ? drawPill(node) : drawBarOf(node, columns, size),
    );
    shown.set(node, [group]);
    picture.append(group);
    attend(
      group,
      () => waysOf(node),
      () => nodeTip(node),
    );
    if (!node.pill && !node.last) {
      const name = draw('g', { class: 'node name-of' }, group.querySelector('text'));
      shown.get(node).push(name);
      names.append(name);
    }
  }
  picture.append(names);
  for (const link of links)
    attend(
      shown.get(link)[0],
      () => waysOfLink(link),
      () => linkTip(link),
    );
  return picture;
}

/* Room at the sides for the names of the first and the last column. */
function margins(nodes, width, narrow) {
  if (narrow) return { left: 0, right: 0 };
  const long = (node) => (node.label.length + (node.last ? figureOf(node).length + 1 : 0)) * CHARACTER + 14;
  const room = (some, most) => Math.min(most, Math.max(40, ...some.map(long)));
  const first = nodes.filter((node) => !node.last && !node.into.some((link) => !link.back));
  return {
    left: room(first, width * 0.2),
    right: room(
      nodes.filter((node) => node.last),
      width * 0.28,
    ),
  };
}

/* How much room there is between the columns on both sides of a node. */
function gapAround(node, columns) {
  const at = columns.findIndex((column) => column.includes(node));
  const before = columns[at - 1] ? Math.max(...columns[at - 1].map((each) => each.x + each.width)) : 0;
  const after = columns[at + 1] ? Math.min(...columns[at + 1].map((each) => each.x)) : Infinity;
  return Math.min(190, after - before + 8);
}

/* The figure beside a name: its messages, or, in a comparison, those that it loses and gains. */
function figureOf(node) {
  return node.figure || brief(node.messages);
}

/* A binding: its key, and how many messages it took. */
function drawPill(node) {
  const middle = node.y + node.height / 2 + 4;
  const figure = brief(node.messages);
  const room = Math.floor((node.width - 20) / PILL_CHARACTER) - figure.length;
  return [
    draw('rect', { x: node.x, y: node.y, width: node.width, height: node.height, rx: 3 }),
    draw(
      'text',
      { x: node.x + 6, y: middle },
      node.sign ? node.sign + ' ' : '',
      shortened(node.label, room - (node.sign ? 2 : 0)),
    ),
    draw('text', { class: 'figure', x: node.x + node.width - 6, y: middle, 'text-anchor': 'end' }, figure),
  ];
}

/* An exchange or a queue: a bar, and its name beside it; above it where there is no room beside. */
function drawBarOf(node, columns, size) {
  const first = columns[0].includes(node) && !node.last;
  const middle = node.y + node.height / 2 + 4;
  const beside = !size.narrow && (first || node.last);
  const [x, y, anchor, room] = !beside
    ? node.last
      ? [size.width, node.y - 5, 'end', size.width * 0.38]
      : first
        ? [0, node.y - 5, 'start', size.width * 0.38]
        : [
            node.x + node.width / 2,
            node.y - 5,
            'middle',
            size.narrow ? size.width / columns.length - 30 : gapAround(node, columns),
          ]
    : first
      ? [node.x - 6, middle, 'end', size.left - 8]
      : [node.x + node.width + 6, middle, 'start', size.right - 8];
  const figure = node.last || (first && size.narrow) ? figureOf(node) : '';
  const characters = Math.floor(room / CHARACTER) - (figure ? figure.length + 1 : 0);
  return [
    node.published && !first
      ? draw('path', { class: 'published', d: `M${node.x - 14} ${node.y + node.height / 2 - 5} l10 5 l-10 5z` })
      : '',
    draw('rect', {
      x: node.x,
      y: node.y,
      width: node.width,
      height: node.height,
      rx: node.kind === 'exchange' ? 3 : 0,
    }),
    draw(
      'text',
      { x, y, 'text-anchor': anchor },
      node.kind === 'others' && node.label.length > characters
        ? node.label.replace(/other .*/, 'others')
        : shortened(node.label, characters),
      figure ? draw('tspan', { class: 'figure', dx: 6 }, figure) : null,
    ),
  ];
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

const MOST_ROWS = 8; // of a tooltip

function nodeTip(node) {
  if (node.pill && node.bindings.length) return [el('p', { class: 'tip-head' }, node.full), bindingRows(node.bindings)];
  const rows = [];
  if (node.published) rows.push([null, 'published here', count(node.published)]);
  const list = (links, end, word) =>
    [...links]
      .sort((a, b) => b.messages - a.messages)
      .slice(0, MOST_ROWS)
      .forEach((link) => rows.push([null, word + ' ' + shortened(link[end].label, 50), count(link.messages)]));
  list(node.into, 'source', node.into.some((link) => link.source.pill) ? 'by' : 'from');
  list(node.out, 'target', node.out.some((link) => link.target.pill) ? 'by' : 'to');
  return [el('p', { class: 'tip-head' }, `${node.full || node.label}: ${count(node.messages)}`), tipRows(rows)];
}

function bindingRows(bindings) {
  const shown = [...bindings].sort((a, b) => b.messages - a.messages).slice(0, MOST_ROWS);
  const rows = shown.map((row) => [
    null,
    shortened(row.routing_key || argumentsText(row) || '""', 70),
    row.messages + row.possible ? count(row.messages + row.possible) : row.state === 'dead' ? '✗ never' : '0',
  ]);
  if (bindings.length > MOST_ROWS) rows.push([null, 'and ' + count(bindings.length - MOST_ROWS) + ' more', '']);
  return tipRows(rows);
}

const KINDS = {
  binding: 'by bindings',
  alternate: 'by the alternate exchange',
  default: 'by the queue’s own name',
  nowhere: 'nothing took them',
  'way-lost': '− no more',
  'way-gained': '+ new',
};

function linkTip(link) {
  return [
    el('p', { class: 'tip-head' }, shortened(link.source.label, 60) + ' → ' + shortened(link.target.label, 60)),
    link.bindings && link.bindings.length
      ? bindingRows(link.bindings)
      : tipRows([[null, KINDS[link.kind] || link.kind, count(link.messages)]]),
  ];
}
