/* Light up the way of the message in the picture: exchanges and bindings passed, queues reached, alternates taken. */

function edgeId(source, kind, name, alternate) {
  return JSON.stringify([source, kind, name, Boolean(alternate)]);
}

/** What a route passes: `parts` as "kind:name", `edges` by id. */
function wayOf(route) {
  const parts = new Set(route.queues.map((name) => 'queue:' + name));
  const edges = new Set();
  for (const hop of route.hops) {
    parts.add('exchange:' + hop.exchange);
    for (const binding of hop.matched) {
      if (binding.outcome !== 'missing') edges.add(edgeId(hop.exchange, binding.destination_type, binding.destination));
    }
    if (hop.alternate && hop.alternate.taken) edges.add(edgeId(hop.exchange, 'exchange', hop.alternate.name, true));
  }
  return { parts, edges };
}

/** Light up a route; null puts all lights out. */
function light(route) {
  if (!shown) return;
  const way = route ? wayOf(route) : { parts: new Set(), edges: new Set() };
  shown.svg.classList.toggle('asked', Boolean(route));
  for (const badge of shown.svg.querySelectorAll('.badge')) badge.remove();
  for (const node of shown.nodes) {
    const isLit = way.parts.has(node.kind + ':' + node.name);
    node.element.classList.toggle('lit', isLit);
    node.element.classList.toggle('start', Boolean(route) && node.kind === 'exchange' && node.name === route.exchange);
    node.element.classList.toggle('stuck', isLit && Boolean(route) && route.unroutable === true);
    const placement = route && node.kind === 'queue' && isLit && route.placements.find((each) => each.queue === node.name);
    if (placement) node.element.append(badgeOf(node, placement));
  }
  for (const edge of shown.edges) {
    const isLit = !edge.dead_letters && way.edges.has(edgeId(edge.source, edge.destination_type, edge.destination, edge.alternate));
    edge.element.classList.toggle('lit', isLit);
    if (isLit) lift(edge.element);
  }
}

/** Draw an edge over all others. */
function lift(element) {
  const edges = element.parentNode.querySelectorAll(':scope > .edge');
  const last = edges[edges.length - 1];
  if (last !== element) last.after(element);
}

/** The partition that was chosen, at the upper right corner of its queue. */
function badgeOf(node, placement) {
  const text = placement.name === null ? 'some partition' : 'partition ' + shortened(placement.name, 20);
  const width = 6.2 * text.length + 10;
  const right = node.element.getBBox().width - 6;
  return draw(
    'g',
    { class: 'badge', transform: `translate(${right - width} -13)` },
    draw('rect', { width, height: 15, rx: 7 }),
    draw('text', { x: 5, y: 11 }, text),
  );
}

let revealed = ''; // what was scrolled to, so that the reader can scroll away from it

/** Scroll to what was clicked, else to where the message is published, if it is out of sight. */
function reveal() {
  if (!shown) return;
  const wanted = state.at && state.at.kind ? state.at : { kind: 'exchange', name: state.exchange };
  const node = shown.nodes.find((each) => samePart({ kind: each.kind, name: each.name }, wanted));
  const identity = JSON.stringify([wanted, shown.nodes.length]);
  if (!node || identity === revealed) return;
  revealed = identity;
  const place = byId('picture');
  const frame = place.getBoundingClientRect();
  const box = node.element.getBoundingClientRect();
  if (box.left < frame.left || box.right > frame.right) place.scrollLeft += box.left - frame.left - (frame.width - box.width) / 2;
  if (box.top < frame.top || box.bottom > frame.bottom) place.scrollTop += box.top - frame.top - (frame.height - box.height) / 2;
}

/** Mark what is looked at. */
function mark(at) {
  if (!shown) return;
  let tabbable = shown.nodes[0];
  for (const node of shown.nodes) {
    const isChosen = Boolean(at) && at.kind === node.kind && at.name === node.name;
    node.element.classList.toggle('chosen', isChosen);
    node.element.setAttribute('aria-pressed', String(isChosen));
    if (isChosen) tabbable = node;
  }
  for (const edge of shown.edges) {
    const isChosen = Boolean(at) && at.source === edge.source && samePart(at.destination, { kind: edge.destination_type, name: edge.destination }) && !edge.alternate && !edge.dead_letters;
    edge.element.classList.toggle('chosen', isChosen);
  }
  makeTabbable(tabbable);
}
