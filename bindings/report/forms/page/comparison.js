/* The same messages in another topology. */

function comparisonSection(report) {
  const comparison = report.comparison;
  if (!comparison) return null;
  const totals = comparison.totals;
  const parts = [
    ['hit', totals.messages - totals.elsewhere, 'go where they went'],
    ['lost', totals.lose, '− lose a queue'],
    ['gained', totals.elsewhere - totals.lose - totals.unsure, '+ only gain one'],
    ['undecided', totals.unsure, 'may go elsewhere'],
  ];
  return [
    el(
      'p',
      {},
      'In ',
      el('bdi', { class: 'name' }, shortened(comparison.topology.source, 80)),
      ', ',
      el('b', {}, count(totals.elsewhere)),
      ' of ',
      plural(totals.messages, 'message'),
      ' would go elsewhere; ',
      totals.become_unroutable
        ? el('b', { class: 'fail' }, count(totals.become_unroutable) + ' would become unroutable')
        : 'none would become unroutable',
      totals.no_longer_unroutable ? ', ' + count(totals.no_longer_unroutable) + ' would no longer be' : null,
      totals.repartitioned ? '; ' + count(totals.repartitioned) + ' would change their partition' : null,
      '.',
    ),
    meter(parts, 'Messages'),
    legend(parts),
    changedWays(comparison.rerouted),
    changedQueues(comparison.queues),
    reroutedKeys(comparison.rerouted),
    changedBindings(comparison.bindings),
    movedPartitions(comparison.partitions),
  ];
}

const MOST_WAYS = 40;

/* The ways from exchanges to queues that messages lose, red, and gain, green. */
function changedWays(rerouted) {
  const links = new Map();
  const add = (row, to, kind) => {
    const id = [row.exchange, to, kind].join('\n');
    if (!links.has(id)) links.set(id, { from: 'x' + row.exchange, to, kind, messages: 0 });
    links.get(id).messages += row.messages;
  };
  for (const row of rerouted) {
    for (const queue of row.lost) add(row, 'q' + queue, 'way-lost');
    for (const queue of row.gained) add(row, 'q' + queue, 'way-gained');
    if (row.becomes_unroutable) add(row, NOWHERE, 'way-none');
  }
  if (!links.size) return null;
  const all = [...links.values()].sort((a, b) => b.messages - a.messages);
  const shown = all.slice(0, MOST_WAYS);
  const nodes = new Map();
  for (const link of shown) {
    for (const id of [link.from, link.to]) {
      const kind = id === NOWHERE ? 'lost' : id[0] === 'q' ? 'queue' : 'exchange';
      if (!nodes.has(id))
        nodes.set(id, { id, kind, ...namesOf(id, kind, [id]), last: kind !== 'exchange', low: kind === 'lost' });
    }
  }
  // A queue may lose some messages and gain others, so both figures stand beside it, with signs.
  for (const node of nodes.values()) {
    const end = node.kind === 'exchange' ? 'from' : 'to';
    const sum = (kind) =>
      sumBy(
        shown.filter((link) => link[end] === node.id && link.kind === kind),
        'messages',
      );
    const [lost, gained] = [sum('way-lost'), sum('way-gained') + (end === 'to' ? sum('way-none') : 0)];
    node.messages = lost + gained;
    node.figure = [lost ? '−' + brief(lost) : '', gained ? '+' + brief(gained) : ''].filter(Boolean).join(' ') || ' ';
  }
  const holder = el('div', { class: 'chart' });
  whenSized(holder, (width) =>
    holder.replaceChildren(
      drawFlow({ nodes: [...nodes.values()], links: shown }, width, Math.min(420, 60 + 24 * nodes.size)),
    ),
  );
  return [
    el('h3', {}, 'Ways that change'),
    el(
      'ul',
      { class: 'legend' },
      el('li', {}, el('span', { class: 'swatch lost' }), '− no more by this way'),
      el('li', {}, el('span', { class: 'swatch gained' }), '+ new by this way'),
    ),
    holder,
    all.length > shown.length
      ? el('p', { class: 'note' }, 'and ' + plural(all.length - shown.length, 'way') + ' of fewer messages.')
      : null,
  ];
}

function changedQueues(all) {
  const rows = all.filter((row) => row.lost || row.gained || row.unsure || row.status !== 'kept');
  if (!rows.length) return null;
  const column = columnsOf(rows);
  return [
    el('h3', {}, 'By queue'),
    makeTable({
      id: 'changed-queues',
      caption: 'queues that gain or lose',
      length: rows.length,
      begin: { sort: 'lost' },
      text: (at) => rows[at].queue,
      columns: [
        {
          id: 'queue',
          label: 'Queue',
          value: (at) => rows[at].queue,
          cell: (at) => [
            named(rows[at].queue),
            rows[at].status === 'kept' ? null : [' ', el('span', { class: 'soft' }, rows[at].status)],
          ],
        },
        column.figure('before', 'Gets now', { low: 2 }),
        {
          id: 'lost',
          label: 'Loses',
          figure: true,
          value: (at) => rows[at].lost,
          cell: (at) => (rows[at].lost ? el('span', { class: 'fail' }, '−' + count(rows[at].lost)) : ''),
        },
        {
          id: 'gained',
          label: 'Gains',
          figure: true,
          value: (at) => rows[at].gained,
          cell: (at) => (rows[at].gained ? el('span', { class: 'pass' }, '+' + count(rows[at].gained)) : ''),
        },
        {
          id: 'unsure',
          label: 'Unsure',
          title: 'May get before or after, and not as before',
          figure: true,
          low: 2,
          value: (at) => rows[at].unsure,
          cell: (at) => (rows[at].unsure ? count(rows[at].unsure) : ''),
        },
        column.figure('after', 'Would get'),
      ],
    }),
  ];
}

/* Messages that lose and gain the same queues: a row for each shape of key, or one row if there are no shapes. */
function reroutedKeys(changes) {
  const rows = changes.flatMap((change) =>
    change.shapes.length
      ? change.shapes.slice(0, 100).map((shape) => ({ change, ...shape }))
      : [{ change, shape: null, messages: change.messages }],
  );
  if (!rows.length) return null;
  return [
    el('h3', {}, 'By the shape of the key'),
    makeTable({
      id: 'rerouted',
      caption: 'keys that go elsewhere',
      length: rows.length,
      begin: { sort: 'messages' },
      prompt: 'Search keys and queues',
      text: (at) =>
        [
          rows[at].change.exchange,
          rows[at].shape || '',
          rows[at].example || '',
          ...rows[at].change.lost,
          ...rows[at].change.gained,
        ].join(' '),
      columns: [
        {
          id: 'exchange',
          label: 'Exchange',
          low: 2,
          value: (at) => rows[at].change.exchange,
          cell: (at) => named(rows[at].change.exchange, 50),
        },
        {
          id: 'shape',
          label: 'Keys like',
          class: 'shape',
          title: '* stands for a word that no binding names',
          value: (at) => rows[at].shape || '',
          cell: (at) => (rows[at].shape === null ? el('span', { class: 'none' }, 'any') : pattern(rows[at].shape)),
        },
        {
          id: 'messages',
          label: 'Messages',
          figure: true,
          value: (at) => rows[at].messages,
          cell: (at) => atLeast(rows[at].messages, rows[at].shape === null ? 0 : rows[at].change.shapes_error),
        },
        {
          id: 'change',
          label: 'Change',
          class: 'text',
          value: (at) => rows[at].change.lost.join(),
          cell: (at) => changeOf(rows[at].change),
        },
        {
          id: 'example',
          label: 'Witness',
          title: 'A message that shows it; the details have more, and where they were read',
          value: (at) => exampleOf(rows[at]),
          cell: (at) => (exampleOf(rows[at]) === null ? '' : keyed(exampleOf(rows[at]), 70)),
        },
      ],
      detail: (at) => [
        el('p', {}, visible(rows[at].change.says || '')),
        pairs([
          ['in all', plural(rows[at].change.messages, 'message'), ' go this way'],
          ['first', when(rows[at].change.first)],
          ['last', when(rows[at].change.last)],
        ]),
        witnesses(rows[at].change.witnesses),
      ],
    }),
  ];
}

function exampleOf(row) {
  if (row.example) return row.example;
  return row.change.witnesses.length ? row.change.witnesses[0].message.routing_key : null;
}

function changeOf(change) {
  return [
    change.lost.length ? el('div', {}, el('span', { class: 'fail' }, '− no more to '), listed(change.lost)) : null,
    change.gained.length ? el('div', {}, el('span', { class: 'pass' }, '+ now to '), listed(change.gained)) : null,
    names(change.unsure).length
      ? el('div', {}, el('span', { class: 'soft' }, '~ perhaps elsewhere to '), listed(change.unsure))
      : null,
    change.before === change.after || !change.after
      ? null
      : el('div', { class: 'soft' }, 'was ', change.before, ', would be ', change.after),
    change.refused_after ? el('code', {}, change.refused_after) : null,
  ];
}

function changedBindings(rows) {
  if (!rows.length) return null;
  const column = columnsOf(rows);
  return [
    el('h3', {}, 'By binding'),
    makeTable({
      id: 'changed-bindings',
      caption: 'bindings of one topology only',
      length: rows.length,
      begin: { sort: 'elsewhere' },
      text: (at) => rows[at].source + ' ' + rows[at].routing_key + ' ' + rows[at].destination,
      columns: [
        {
          id: 'change',
          label: 'Change',
          value: (at) => rows[at].change,
          cell: (at) =>
            el(
              'span',
              { class: rows[at].change === 'added' ? 'pass' : 'fail' },
              (rows[at].change === 'added' ? '+ ' : '− ') + rows[at].change,
            ),
        },
        { ...column.name('source', 'Source', 90), low: 2 },
        {
          id: 'key',
          label: 'Binding key',
          value: (at) => rows[at].routing_key,
          cell: (at) => pattern(rows[at].routing_key, 90),
        },
        column.destination(),
        column.figure('messages', 'Messages', { title: 'That match it' }),
        column.figure('elsewhere', 'Go elsewhere', { title: 'Of these: with none the binding makes no difference' }),
      ],
    }),
  ];
}

function movedPartitions(rows) {
  if (!rows.length) return null;
  return [
    el('h3', {}, 'Partitions'),
    el(
      'div',
      { class: 'cards' },
      rows
        .slice(0, MOST_CARDS)
        .map((row) =>
          el(
            'div',
            { class: 'card' },
            el('h3', {}, named(row.queue)),
            el(
              'p',
              { class: 'note' },
              visible(row.before || 'not partitioned'),
              ' → ',
              visible(row.after || 'not partitioned'),
            ),
            el(
              'p',
              {},
              count(row.moved) + ' of ' + plural(row.messages, 'message') + ' change their partition',
              row.share === null ? '' : ' (' + percent(row.share) + ' of those with a decided one)',
              '.',
            ),
            movesTable(row.flows),
          ),
        ),
    ),
  ];
}

function movesTable(flows) {
  const moves = flows.filter((flow) => flow.before !== flow.after).sort((a, b) => b.messages - a.messages);
  if (!moves.length) return null;
  return [
    smallTable(
      ['>from', '>to', '>messages'],
      moves
        .slice(0, 8)
        .map((move) => [
          ...[move.before, move.after].map((name) => (name === null ? '–' : nameText(name, 40))),
          count(move.messages),
        ]),
    ),
    moves.length > 8 ? el('p', { class: 'note' }, 'and ' + plural(moves.length - 8, 'smaller move') + '.') : null,
  ];
}
