/* The panel about what is looked at: an exchange, a queue, or the bindings between two. It answers "why not". */

const askPart = asker('part');
const askRows = asker('rows');
const askQueue = asker('explain');

/** Look at a part, or at null. */
function select(at) {
  state.at = samePart(at, state.at) ? null : at;
  changed('at');
}

async function showSelected() {
  const place = byId('selected');
  const at = state.at;
  if (!at) {
    place.replaceChildren(el('p', { class: 'soft' }, 'Click an exchange, a queue or a binding to see its bindings, and why the message takes them or not.'));
    return;
  }
  const message = currentMessage();
  const fields = { ...subject(), ...(message ? { message } : {}) };
  try {
    if (at.kind === 'queue') await showQueue(place, at, fields);
    else if (at.kind === 'exchange') await showExchange(place, at, fields);
    else await showBetween(place, at, fields);
  } catch (error) {
    place.replaceChildren(headOf('Selected'), faultOf(error.message));
  }
  if (samePart(at, state.at)) place.dataset.shown = JSON.stringify([at, message]);
}

async function showQueue(place, at, fields) {
  const [part, rows, why] = await Promise.all([
    askPart({ ...subject(), part: at }),
    askRows({ ...fields, destination: at }),
    fields.message ? askQueue({ ...fields, queue: at.name }).catch((error) => error) : null,
  ]);
  place.replaceChildren(
    headOf('Queue', named(at.name, 100)),
    factsOf(part),
    ...[whyOf(why, at.name), partFindings(at)].flat(Infinity).filter(Boolean),
    el('h3', {}, plural(part.bindings_to, 'binding'), ' lead here'.replace('lead', part.bindings_to === 1 ? 'leads' : 'lead')),
    ...[rowsTable(rows, 'destination')].flat().filter(Boolean),
    toolsOf(part, '- queue ' + bareName(at.name), bindLine(at)),
  );
}

/** Whether the queue gets the message; if not, the obstacles on the nearest way there, and the nearest key. */
function whyOf(why, queue) {
  if (!why) return [];
  if (why instanceof Error) return [faultOf(why.message)];
  const { asked } = why;
  if (asked.gets_it) return [el('p', { class: 'outcome routed' }, 'gets the message')];
  const obstacles = obstacleItems(asked.obstacles);
  return [
    why.undecided.length
      ? el('p', { class: 'outcome' }, 'undecided: what ', why.undecided.map((name) => nameText(name)).join(', '), ' does is not known here')
      : el('p', { class: 'outcome unroutable' }, 'does not get the message'),
    !asked.exists
      ? el('p', { class: 'reason' }, 'there is no such queue')
      : obstacles.length
        ? el('ul', { class: 'obstacles' }, obstacles)
        : el('p', { class: 'reason' }, 'no binding leads here from where the message is'),
    asked.exists ? nearestTo(queue) : null,
  ];
}

function obstacleItems(obstacles) {
  return obstacles.map((obstacle) =>
    el(
      'li',
      {},
      obstacle.binding
        ? ['the nearest binding is ', partLink('exchange', obstacle.exchange), ' ', bindingKey(obstacle.binding)]
        : partLink('exchange', obstacle.exchange),
      [' → ', named(obstacle.destination.name)],
      el('div', { class: 'reason' }, obstacle.reason),
    ),
  );
}

function nearestTo(queue) {
  const place = el('p', { class: 'nearest' }, 'looking for the nearest key …');
  showNearest(place, { queue });
  return place;
}

async function showExchange(place, at, fields) {
  const [part, rows] = await Promise.all([askPart({ ...subject(), part: at }), askRows({ ...fields, source: at.name })]);
  const alternates = (part.alternates || []).filter((name) => name !== null);
  place.replaceChildren(
    headOf('Exchange', named(at.name, 100)),
    factsOf(part),
    ...[
      alternates.length
        ? el('p', {}, 'alternate exchange: ', alternates.map((name, n) => [n ? ' or ' : null, partLink('exchange', name)]), part.alternates.length > 1 ? ', if the policy applies' : null)
        : null,
      partFindings(at),
      part.exists && !part.internal && state.exchange !== at.name
        ? el('p', {}, el('button', { type: 'button', class: 'plain', onclick: () => publishTo(at.name) }, 'Publish here'))
        : null,
      part.keys ? keysOf(part) : null,
    ]
      .flat(Infinity)
      .filter(Boolean),
    el('h3', {}, plural(part.bindings_from || 0, 'binding'), ' from here'),
    ...[rowsTable(rows, 'source')].flat().filter(Boolean),
    toolsOf(part, '- exchange ' + bareName(at.name), bareName(at.name) + ' -> '),
  );
}

/** Keys that the audit saw at an exchange. */
function keysOf(part) {
  const list = (title, keys) =>
    keys.length
      ? [
          el('h3', {}, title),
          el(
            'ul',
            { class: 'keys' },
            keys.map((each) =>
              el('li', {}, messageButton({ exchange: part.name, routing_key: each.key }), el('span', { class: 'soft' }, ' ', plural(each.messages, 'message'))),
            ),
          ),
        ]
      : null;
  return [list('Frequent keys of the audit', part.keys.hot), list('Keys of the audit that no queue got', part.keys.unroutable)];
}

async function showBetween(place, at, fields) {
  const rows = await askRows({ ...fields, source: at.source, destination: at.destination });
  place.replaceChildren(
    headOf('Bindings', [partLink('exchange', at.source, 60), ' → ', partLink(at.destination.kind, at.destination.name, 60)]),
    ...[rowsTable(rows, 'both')].flat().filter(Boolean),
    toolsOf(null, null, bareName(at.source) + ' -> ' + endOf(at.destination) + ': "'),
  );
}

function headOf(kind, name) {
  return el('header', {}, el('h2', {}, kind, ' ', name || null), el('button', { type: 'button', class: 'plain close', 'aria-label': 'Close', onclick: () => select(state.at) }, '×'));
}

function factsOf(part) {
  if (!part.exists) return el('p', { class: 'fault' }, 'does not exist: a binding or an exchange names it');
  const words = [part.type, part.internal ? 'internal' : null, part.durable ? null : 'transient', part.auto_delete ? 'auto-delete' : null];
  const rest = Object.entries(part.arguments).map(([name, value]) => name + ' = ' + JSON.stringify(value));
  return el(
    'p',
    { class: 'soft facts-of' },
    words.filter(Boolean).join(', '),
    part.partitioning ? [el('br'), 'partitioned ', part.partitioning] : null,
    rest.map((text) => [el('br'), shortened(text, 160)]),
    part.line ? [el('br'), 'line ' + part.line] : null,
    part.known === false ? [el('br'), 'the type is unknown here'] : null,
  );
}

function endOf(part) {
  return (part.kind === 'exchange' ? 'exchange ' : '') + bareName(part.name);
}

function bindLine(part) {
  return bareName(state.exchange || 'amq.topic') + ' -> ' + endOf(part) + ': "';
}

/** What can be done with the part in a draft: delete it, or bind it. */
function toolsOf(part, removal, binding) {
  return el(
    'p',
    { class: 'actions' },
    el('button', { type: 'button', class: 'plain', onclick: () => beginEdit(binding) }, 'Add a binding'),
    removal && part.exists ? el('button', { type: 'button', class: 'plain', onclick: () => addEdit(removal) }, 'Delete in a draft') : null,
  );
}
