/* What the broker did, where the archive has recorded it: what agrees with the topology, and the differences. */

function verificationSection(report) {
  const verification = report.verification;
  if (!verification) return null;
  const rows = verification.differences || [];
  const column = columnsOf(rows);
  if (!verification.compared) {
    return [el('p', {}, 'Nothing could be compared: of no message does the archive know where the broker put it.')];
  }
  const parts = [
    ['hit', verification.agreed, 'as predicted'],
    ['possible', verification.possible, 'possible, depending on a random choice'],
    ['undecided', verification.undecided, 'undecided'],
    ['lost', verification.different, 'went elsewhere'],
  ];
  return [
    meter(parts, 'Messages compared'),
    legend(parts),
    verification.unknown
      ? el(
          'p',
          { class: 'note' },
          'Of ' +
            plural(verification.unknown, 'more message') +
            ' the archive does not know where the broker put them.',
        )
      : null,
    rows.length
      ? makeTable({
          id: 'differences',
          caption: 'differences',
          length: rows.length,
          prompt: 'Search differences',
          begin: { sort: 'messages' },
          text: (at) =>
            [rows[at].exchange, ...names(rows[at].missing), ...names(rows[at].extra), ...names(rows[at].unknown)].join(
              ' ',
            ),
          columns: [
            column.name('exchange', 'Exchange'),
            {
              id: 'what',
              label: 'What the broker did',
              class: 'text',
              value: (at) => names(rows[at].missing).length,
              cell: (at) => difference(rows[at]),
            },
            column.figure('messages', 'Messages'),
            column.time('first', 'First', 1),
            column.time('last', 'Last', 2),
            {
              id: 'witness',
              label: 'Witness',
              title: 'A message that shows it; the details have more, and where they were read',
              value: (at) => firstKey(rows[at].witnesses),
              cell: (at) => (names(rows[at].witnesses).length ? keyed(firstKey(rows[at].witnesses)) : ''),
            },
          ],
          detail: (at) => witnesses(rows[at].witnesses),
        })
      : el('p', {}, 'The broker did what the topology says.'),
    verification.more
      ? el(
          'p',
          { class: 'note' },
          plural(verification.more, 'message') +
            ' more differ in other ways, of which there are about ' +
            count(verification.sorts) +
            ' in all; those listed have exact counts.',
        )
      : null,
    strangers(verification.strangers.queues, verification.strangers.error),
  ];
}

function names(list) {
  return list || [];
}

function firstKey(list) {
  return list && list.length ? list[0].message.routing_key : '';
}

function listed(list, most) {
  const shown = list.slice(0, most || 6).map((name, at) => [at ? ', ' : '', named(name, 60)]);
  return list.length > (most || 6) ? [shown, ' and ' + count(list.length - (most || 6)) + ' more'] : shown;
}

function difference(row) {
  return [
    names(row.missing).length ? el('div', {}, el('span', { class: 'fail' }, '− not in '), listed(row.missing)) : null,
    names(row.extra).length ? el('div', {}, el('span', { class: 'pass' }, '+ but in '), listed(row.extra)) : null,
    names(row.none_of).length
      ? el('div', {}, el('span', { class: 'fail' }, '− in none of '), listed(row.none_of))
      : null,
    names(row.unknown).length
      ? el(
          'div',
          {},
          el('span', { class: 'pass' }, '+ in queues that the topology does not have: '),
          listed(row.unknown),
        )
      : null,
    row.refused
      ? el('div', {}, 'took what the topology says it refuses: ', el('code', {}, visible(row.refused)))
      : null,
  ];
}

function witnesses(list) {
  return smallTable(
    ['routing key', '-headers', 'the broker put it in', '-position'],
    names(list).map((each) => [
      keyed(each.message.routing_key),
      el('code', {}, each.message.headers ? shortened(JSON.stringify(each.message.headers), 200) : ''),
      each.routed_queues ? listed(each.routed_queues, 4) : '',
      positionOf(each.source, each.offset),
    ]),
  );
}

function positionOf(source, offset) {
  return [
    el('bdi', { class: 'name' }, shortened(source || '', 120)),
    offset === null || offset === undefined ? null : [el('span', { class: 'soft' }, ' at '), count(offset)],
  ];
}

function strangers(list, error) {
  if (!list || !list.length) return null;
  return el(
    'details',
    {},
    el('summary', {}, 'Queues that the topology does not have'),
    smallTable(
      ['', '>'],
      list.map((each) => [named(each.queue), atLeast(each.messages, error)]),
    ),
  );
}
