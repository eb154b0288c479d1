/* Bindings as rows: whether the message takes each, why not, its messages in the audit, and what can be done with it. */

const STATES = { true: ['✓', 'taken'], false: ['✗', 'not taken'], null: ['?', 'not known'] };

function rowsTable(answer, open) {
  if (!answer.rows.length) return el('p', { class: 'soft' }, 'no bindings');
  return [
    el('ul', { class: 'rows' }, answer.rows.map((row) => rowItem(row, open))),
    answer.more ? el('p', { class: 'soft' }, 'and ', plural(answer.more, 'more binding')) : null,
  ];
}

/* `open` names the end that is not shown, as the panel is about it: 'source' or 'destination'. */
function rowItem(row, open) {
  const [sign, says] = row.matched === undefined ? ['', ''] : STATES[row.matched];
  const isMiss = row.matched === false || row.matched === null;
  return el(
    'li',
    { class: row.matched === true ? 'taken' : null },
    el('span', { class: 'sign', title: says }, sign),
    el(
      'div',
      {},
      el(
        'div',
        { class: 'what' },
        open === 'source' ? null : [partLink('exchange', row.source, 50), ' '],
        row.routing_key === '' && row.condition ? null : pattern(row.routing_key, 120),
        row.condition ? [' ', el('code', { class: 'soft' }, shortened(row.condition, 200))] : null,
        open === 'destination' ? null : [' → ', partLink(row.destination_type, row.destination, 50)],
      ),
      row.reason ? el('div', { class: 'reason' }, row.reason) : null,
      findingsOf(row).map((finding) => findingText(finding)),
      el(
        'div',
        { class: 'doing' },
        row.traffic ? el('span', { class: row.traffic.state === 'dead' ? 'is-dead' : 'soft' }, trafficOf(row.traffic)) : null,
        row.line ? el('span', { class: 'soft' }, 'line ' + row.line) : null,
        isMiss ? nearestButton(row) : null,
        copyButton('Copy line', () => row.text),
        el('button', { type: 'button', class: 'plain', onclick: () => addEdit('- ' + row.text) }, 'Remove'),
      ),
    ),
  );
}

function trafficOf(traffic) {
  const possible = traffic.possible ? ' + ' + count(traffic.possible) + '?' : '';
  return plural(traffic.messages, 'message') + possible + (traffic.state === 'hit' ? '' : ', ' + traffic.state.replaceAll('_', ' '));
}

/** A button that shows in its place the nearest message which takes a binding. */
function nearestButton(row) {
  const place = el('span', { class: 'nearest' });
  place.append(el('button', { type: 'button', class: 'plain', onclick: () => showNearest(place, { binding: row }) }, 'Nearest key'));
  return place;
}

/** Show the nearest message that reaches a queue or takes a binding. */
async function showNearest(place, goal) {
  const message = currentMessage();
  if (!message) return;
  try {
    place.replaceChildren(...[nearestOf(await ask('nearest', { ...subject(), message, ...goal }), goal)].flat());
  } catch (error) {
    place.replaceChildren(faultText(error));
  }
}

function nearestOf(answer, goal) {
  if (answer.message) return messageButton(answer.message, 'nearest:');
  const entries = answer.entries.map((name) =>
    el('button', { type: 'button', class: 'part exchange', onclick: () => publishTo(name) }, named(name, 40)),
  );
  return [
    el('span', { class: answer.proved ? 'impossible' : 'soft' }, answer.why_not, answer.proved ? '' : ' (not proved)'),
    entries.length ? [' From: ', entries.map((entry, at) => [at ? ', ' : null, entry])] : null,
    !entries.length && goal.queue ? [' ', messageButton({ exchange: '', routing_key: goal.queue }, 'by its name, over the default exchange:')] : null,
  ].flat(Infinity).filter((child) => child !== null).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
}

function publishTo(exchange) {
  state.exchange = exchange;
  fillForm();
  changed('message');
}

function faultText(error) {
  return el('span', { class: 'fault' }, error.message);
}
