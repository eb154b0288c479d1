/*
 * The columns that several tables have, and tables that are small enough to be shown whole. A column takes its values
 * from the field that its id names, unless an option names another one; `cell` shows a value.
 */

function columnsOf(rows) {
  return {
    name: (id, label, longest) => ({
      id,
      label,
      value: (at) => rows[at][id],
      cell: (at) => named(rows[at][id], longest),
    }),
    figure: (id, label, { title, field = id, cell = count, low } = {}) => ({
      id,
      label,
      title,
      low,
      figure: true,
      value: (at) => rows[at][field],
      cell: (at) => cell(rows[at][field]),
    }),
    time: (id, label, low) => ({
      id,
      label,
      low,
      class: 'time',
      first: id === 'last' ? 'down' : null,
      value: (at) => instant(rows[at][id]),
      cell: (at) => when(rows[at][id]),
    }),
    keys: (error, low) => ({
      id: 'keys',
      low,
      label: 'Keys',
      title: 'Different routing keys, ' + (error === undefined ? 'approximately' : '± ' + percent(error)),
      figure: true,
      value: (at) => rows[at].distinct_keys,
      cell: (at) => about(rows[at].distinct_keys),
    }),
    /* Messages, and those that a random choice may have brought as well. */
    messages: (title) => ({
      id: 'messages',
      label: 'Messages',
      title,
      figure: true,
      value: (at) => rows[at].messages || rows[at].possible / 1e9,
      cell: (at) => [count(rows[at].messages), possibly(rows[at].possible)],
    }),
    destination: () => ({
      id: 'destination',
      label: 'Destination',
      value: (at) => rows[at].destination,
      cell: (at) => [
        rows[at].destination_type === 'exchange' ? el('span', { class: 'soft' }, 'exchange ') : null,
        named(rows[at].destination, 60),
      ],
    }),
  };
}

function possibly(messages) {
  return messages
    ? el('span', { class: 'soft', title: 'depending on a random choice' }, ' + ', count(messages), '?')
    : null;
}

/*
 * A table that is not sorted or searched. `heads` are its columns' labels: `>` begins one of figures, `-` one that a
 * narrow window has no room for; null leaves the column out of all rows.
 */
function smallTable(heads, rows) {
  const columns = [...heads.keys()].filter((at) => heads[at] !== null);
  const kind = (at) =>
    [heads[at].startsWith('>') ? 'figure' : '', /^>?-/.test(heads[at]) ? 'low2' : ''].join(' ').trim() || null;
  const label = (at) => heads[at].replace(/^>?-?/, '');
  const head = columns.map((at) => el('th', { scope: 'col', class: kind(at) }, label(at)));
  return el(
    'table',
    { class: 'small' },
    columns.some(label) ? el('thead', {}, el('tr', {}, head)) : null,
    el(
      'tbody',
      {},
      rows.map((row) =>
        el(
          'tr',
          {},
          columns.map((at) => el('td', { class: kind(at) }, row[at])),
        ),
      ),
    ),
  );
}
