/* Where the message goes, in words: the queues, then each exchange that it passes. */

const OUTCOMES = {
  queued: 'queued',
  'queued already': 'has it already: one copy is enough',
  followed: 'followed',
  'seen already': 'not followed again: it has been or will be visited',
  missing: 'does not exist',
};

const MOST_SHOWN = 100; // queues and bindings of one exchange: a fanout may have many thousands

function andMore(list, noun) {
  return list.length > MOST_SHOWN ? el('li', { class: 'soft' }, 'and ', plural(list.length - MOST_SHOWN, 'more ' + noun)) : null;
}

function partLink(kind, name, longest) {
  const open = () => select({ kind, name });
  return el('button', { type: 'button', class: 'part ' + kind, onclick: open }, named(name, longest || 60));
}

/** Fill the element with a route; `before` is the route of the same message without the draft, or null. */
function showRoute(place, route, before) {
  place.replaceChildren(
    verdictOf(route),
    ...unreadOf(route),
    el('ul', { class: 'queues' }, route.queues.slice(0, MOST_SHOWN).map((name) => queueItem(name, route, before)), andMore(route.queues, 'queue')),
    ...lostTo(route, before),
    el('ol', { class: 'hops' }, route.hops.slice(0, MOST_SHOWN).map((hop) => hopItem(hop)), andMore(route.hops, 'exchange')),
    ...deadLettersOf(route),
  );
  place.dataset.queues = JSON.stringify(route.queues);
}

function verdictOf(route) {
  const more = route.undecided.length ? ', and perhaps more: ' + route.undecided.map((name) => nameText(name)).join(', ') : '';
  if (route.queues.length) {
    return el('p', { class: 'outcome routed' }, 'Routed to ', plural(route.queues.length, 'queue'), more);
  }
  if (route.unroutable === null) {
    const names = route.undecided.map((name) => nameText(name)).join(', ');
    return el('p', { class: 'outcome' }, 'Undecided: what ', names, ' does is not known here');
  }
  return el('p', { class: 'outcome unroutable' }, 'Unroutable: dropped, or returned to a publisher that set mandatory');
}

/** Which parts of the topology were not read: by them the message may go elsewhere, too. */
function unreadOf(route) {
  const parts = route.unread || [];
  if (!parts.length) return [];
  return [
    el(
      'details',
      { class: 'unread' },
      el('summary', {}, 'Not proved: ' + plural(parts.length, 'part') + (parts.length === 1 ? ' was' : ' were') + ' not read'),
      el('ul', {}, parts.slice(0, MOST_SHOWN).map((each) => el('li', {}, each.where + ': ' + each.text)), andMore(parts, 'part')),
    ),
  ];
}

function queueItem(name, route, before) {
  const placement = route.placements.find((each) => each.queue === name);
  const isNew = before && !before.queues.includes(name);
  return el(
    'li',
    { class: isNew ? 'gained' : null },
    partLink('queue', name),
    isNew ? el('span', { class: 'soft' }, ' new') : null,
    placement ? placementOf(placement) : null,
  );
}

function placementOf(placement) {
  const where = placement.name === null ? 'some partition' : 'partition ' + placement.name;
  const hash = placement.hash === null ? '' : ', hash ' + placement.hash;
  const key = typeof placement.key === 'string' ? placement.key : JSON.stringify(placement.key);
  return el(
    'div',
    { class: 'placement' },
    el('strong', {}, where),
    ' ',
    el('span', { class: 'soft' }, placement.partitioning),
    el('div', { class: 'soft' }, 'key ', keyed(key, 60), hash, ': ', placement.rule),
  );
}

function lostTo(route, before) {
  const kept = new Set(route.queues);
  const lost = before ? before.queues.filter((name) => !kept.has(name)) : [];
  if (!lost.length) return [];
  const names = lost.slice(0, MOST_SHOWN).map((name, at) => [at ? ', ' : null, partLink('queue', name)]);
  return [el('p', { class: 'lost' }, 'no longer: ', names, lost.length > MOST_SHOWN ? ' and ' + count(lost.length - MOST_SHOWN) + ' more' : null)];
}

function hopItem(hop) {
  const isUnknown = hop.undecided && !hop.unsure; // its type, or which policy sets its alternate exchange
  const none = !hop.matched.length && !hop.unsure && !isUnknown;
  return el(
    'li',
    {},
    partLink('exchange', hop.exchange),
    el('span', { class: 'soft' }, ' ', hop.type || 'direct', hop.came_from === null ? '' : ', from ' + nameText(hop.came_from, 40)),
    el('ul', {}, hop.matched.slice(0, MOST_SHOWN).map((binding) => matchedItem(binding)), andMore(hop.matched, 'binding')),
    none ? el('div', { class: 'soft' }, 'no binding matches') : null,
    hop.chosen_by ? el('div', { class: 'soft' }, hop.chosen_by) : null,
    isUnknown ? el('div', {}, 'what it does is not known here') : null,
    hop.unsure ? el('div', {}, 'more bindings may match: ', hop.unsure) : null,
    hop.alternate ? alternateOf(hop.alternate) : null,
  );
}

function matchedItem(binding) {
  const by = binding.matched_header ? [' by ', binding.matched_header, ' ', keyed(binding.matched_key || '', 40)] : null;
  return el(
    'li',
    {},
    binding.routing_key === '' && !Object.keys(binding.arguments).length ? null : [bindingKey(binding), ' '],
    '→ ',
    partLink(binding.destination_type, binding.destination, 50),
    binding.outcome === 'queued' || binding.outcome === 'followed' ? null : el('span', { class: 'soft' }, ' ', OUTCOMES[binding.outcome]),
    by,
    binding.refused ? el('div', { class: 'soft' }, 'RabbitMQ refuses to make this binding: ', binding.refused) : null,
  );
}

/** The key of a binding and its arguments, which decide where they are headers. */
function bindingKey(binding) {
  const hasArguments = Object.keys(binding.arguments).length > 0;
  return [
    binding.routing_key === '' && hasArguments ? null : pattern(binding.routing_key, 60),
    hasArguments ? el('code', { class: 'soft' }, ' ', shortened(JSON.stringify(binding.arguments), 80)) : null,
  ];
}

function alternateOf(alternate) {
  const origin = alternate.from_policy === null ? '' : ' (policy ' + nameText(alternate.from_policy) + ')';
  return el(
    'div',
    { class: alternate.taken ? 'taken' : 'soft' },
    'alternate exchange ',
    partLink('exchange', alternate.name),
    origin,
    alternate.taken ? ': taken, ' + OUTCOMES[alternate.outcome] : ': not taken, since a binding matches',
  );
}

/** What becomes of the message where a queue does not keep it, from queue to queue. */
function deadLettersOf(route) {
  const hops = route.dead_letters;
  if (!hops.length) return [];
  return [
    el('div', { class: 'hops' }, 'If rejected, expired or over the limit:'),
    el('ul', { class: 'letters' }, hops.slice(0, MOST_SHOWN).map((hop) => el('li', {}, partLink('queue', hop.queue, 50), ...wayOfLetter(hop)))),
  ];
}

function wayOfLetter(hop) {
  if (hop.outcome === 'dropped') return [': dropped'];
  if (hop.outcome === 'unknown') return [': it is not known which policy is in force'];
  const exchange = hop.exchange === '' ? 'the default exchange' : partLink('exchange', hop.exchange, 50);
  const way = [' → ', exchange, ' with the key ', keyed(hop.with_key, 60)];
  if (hop.outcome === 'missing') return [...way, el('span', { class: 'lost' }, ': lost, as there is no such exchange')];
  if (hop.outcome === 'unroutable') return [...way, el('span', { class: 'lost' }, ': lost, as no queue gets it')];
  const queues = hop.queues.slice(0, MOST_SHOWN).map((name, at) => [at ? ', ' : ' → ', partLink('queue', name, 50)]);
  return [...way, ...queues, hop.outcome === 'undecided' ? ' and perhaps more' : null];
}
