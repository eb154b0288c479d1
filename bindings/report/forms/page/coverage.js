/* Coverage by exchange, and every binding with what it did. */

function exchangesSection(report) {
  const rows = report.exchanges.filter(
    (row) => row.published || row.through || row.bindings.all || (!/^amq\./.test(row.exchange) && row.exchange !== ''),
  );
  if (!rows.length) return null;
  const column = columnsOf(rows);
  const table = makeTable({
    id: 'exchanges',
    caption: 'exchanges',
    length: rows.length,
    prompt: 'Search exchanges',
    begin: { sort: 'through' },
    text: (at) => rows[at].exchange + ' ' + rows[at].type,
    columns: [
      {
        id: 'exchange',
        label: 'Exchange',
        value: (at) => rows[at].exchange,
        cell: (at) => [
          named(rows[at].exchange, 120),
          ' ',
          el('span', { class: rows[at].exists ? 'soft' : 'fail' }, rows[at].exists ? rows[at].type : 'does not exist'),
        ],
      },
      {
        id: 'covered',
        label: 'Binding coverage',
        class: 'wide',
        low: 2,
        first: 'down',
        value: (at) => rows[at].bindings.coverage,
        cell: (at) =>
          rows[at].bindings.all
            ? meter(stateParts(rows[at].bindings.states), 'Bindings')
            : el('span', { class: 'none' }, 'no bindings'),
      },
      {
        id: 'hit',
        label: 'Hit',
        title: 'Bindings hit, of those that can be',
        figure: true,
        value: (at) => rows[at].bindings.coverage,
        cell: (at) =>
          rows[at].bindings.eligible ? [count(rows[at].bindings.hit), ' of ', count(rows[at].bindings.eligible)] : '–',
      },
      {
        id: 'fates',
        label: 'Message coverage',
        class: 'wide',
        low: 2,
        first: 'down',
        value: (at) => rows[at].message_coverage,
        cell: (at) =>
          rows[at].published
            ? meter(fateParts(rows[at]), 'Messages published')
            : el('span', { class: 'none' }, 'nothing published'),
      },
      column.figure('routed', 'Routed', {
        title: 'Of the messages published here, those that a queue got',
        field: 'message_coverage',
        cell: percent,
      }),
      column.figure('published', 'Published', { low: 2 }),
      column.figure('through', 'Through', { title: 'Published here, or come from other exchanges' }),
      column.keys(undefined, 1),
    ],
    detail: (at) => exchangeDetail(report, rows[at]),
  });
  const others = report.audited.topology.exchanges - rows.length;
  return [
    legend(stateParts(report.totals.bindings.states)),
    table,
    others > 0
      ? el('p', { class: 'note' }, `${plural(others, 'more exchange')}: RabbitMQ’s own, without bindings and messages.`)
      : null,
  ];
}

function exchangeDetail(report, row) {
  const alternates = report.alternates.filter((each) => each.exchange === row.exchange);
  return el(
    'div',
    { class: 'columns' },
    el(
      'div',
      {},
      pairs([
        ['published', count(row.published)],
        ['different keys', about(row.distinct_keys)],
        row.line && sourceText ? ['line', el('a', { href: '#L' + row.line }, count(row.line))] : null,
      ]),
      el('h3', {}, 'Fan-out: queues that one message reaches'),
      fanOut(row),
      alternates.map((each) =>
        el('p', {}, 'Its alternate exchange ', named(each.alternate), ' took ', plural(each.messages, 'message'), '.'),
      ),
    ),
    hotKeys(row.hot, row.published),
  );
}

/* How many queues the messages of an exchange reach: one bar for each number. */
function fanOut(row) {
  if (!row.fan_out.length) return el('p', { class: 'none' }, 'Nothing was published here.');
  const all = sumBy(row.fan_out, 'messages');
  const shown = row.fan_out.slice(0, 12);
  const rest = row.fan_out.slice(12);
  const line = (label, messages, lost) => [
    label,
    el('span', {
      class: lost ? 'lost' : 'routed',
      style: { display: 'block', height: '9px', width: Math.max(0.5, (100 * messages) / all) + '%' },
    }),
    count(messages),
    percent(messages / all),
  ];
  const lines = shown.map((each) => line(count(each.queues), each.messages, each.queues === 0));
  if (rest.length) lines.push(line('more', sumBy(rest, 'messages'), false));
  const table = smallTable(['>queues', '', '>messages', '>share'], lines);
  for (const row of table.tBodies[0].rows) row.cells[1].style.width = '60%';
  return table;
}

let written = {}; // number of a binding -> its arguments in the notation of .bindings files

function argumentsText(row) {
  return written[row.number] || '';
}

const TRIAGE = ['dead', 'stale', 'possible', 'hit', 'ignored', 'dead_letters_only', 'not_eligible'];

function bindingsSection(report, begin) {
  const rows = report.bindings;
  const column = columnsOf(rows);
  const error = report.approximate.distinct_keys;
  const is = (state) => (at) => rows[at].state === state;
  const findings = new Map();
  for (const finding of report.findings)
    for (const number of finding.bindings) findings.set(number, [...(findings.get(number) || []), finding]);
  const filters = TRIAGE
    .map((id) => STATES.find((state) => state[0] === id))
    .map(([id, word, meaning]) => ({
      id,
      label: word,
      title: meaning,
      test: is(id),
      all: leftOut.bindings ? report.totals.bindings.states[id] : 0,
    }))
    .filter((filter) => (report.totals.bindings.states[filter.id] || 0) > 0);
  const table = makeTable({
    id: 'bindings',
    caption: 'bindings',
    length: rows.length,
    filters,
    prompt: 'Search source, key or destination',
    begin: Object.assign({ sort: 'state', down: false }, begin), // why a reader comes is first: the dead ones
    size: 50,
    changed: (state) => remember('bindings', state),
    text: (at) =>
      rows[at].source + ' ' + rows[at].routing_key + ' ' + rows[at].destination + ' ' + argumentsText(rows[at]),
    columns: [
      { ...column.name('source', 'Source', 90), low: 2 },
      {
        id: 'key',
        label: 'Binding key',
        class: 'keys',
        value: (at) => rows[at].routing_key,
        cell: (at) => [
          pattern(rows[at].routing_key, 120),
          argumentsText(rows[at]) ? el('div', { class: 'soft name' }, shortened(argumentsText(rows[at]), 120)) : null,
        ],
      },
      column.destination(),
      sourceText
        ? {
            id: 'line',
            label: 'Line',
            title: 'Of ' + fileName(report.audited.topology.source),
            figure: true,
            low: 2,
            first: 'up',
            value: (at) => rows[at].line,
            cell: (at) => (rows[at].line ? el('a', { href: '#L' + rows[at].line }, count(rows[at].line)) : ''),
          }
        : null,
      {
        id: 'state',
        label: 'State',
        value: (at) => TRIAGE.indexOf(rows[at].state),
        cell: (at) => stateTag(rows[at].state),
      },
      column.messages('That matched it'),
      column.figure('only', 'Only by it', {
        title: 'Messages that would not have reached its destination without it',
        low: 2,
      }),
      column.figure('share', 'Share', { title: 'Of all that its destination got', cell: shareBar, low: 1 }),
      column.figure('exposure', 'Exposure', {
        title: 'Messages that went through its source, and so could have matched it',
        low: 2,
      }),
      column.time('last', 'Last seen', 1),
    ].filter(Boolean),
    detail: (at) => bindingDetail(rows[at], findings.get(rows[at].number) || [], error),
  });
  const places = new Map(rows.map((row, at) => [row.number, at]));
  table.toBinding = (number) => places.has(number) && table.reveal(places.get(number), true);
  return table;
}

/* Bounds are small: percent() would round them away. */
function bounded(share) {
  return share >= 0.001 ? percent(share) : THREE.format(share * 100) + ' %';
}

function bindingDetail(row, findings, error) {
  const sentence =
    row.state === 'dead'
      ? row.exposure
        ? `None of ${plural(row.exposure, 'message')} that went through its source matched it. With 95 % confidence it takes at most ${bounded(row.bound)} of them, if traffic goes on as it was; what comes seldom, as a monthly job does, may still need it.`
        : 'No message went through its source, so this archive shows nothing about it.'
      : null;
  return [
    sentence ? el('p', {}, sentence) : null,
    pairs([
      [
        'declared',
        row.line && sourceText
          ? el('a', { href: placeOf(row) }, 'line ' + count(row.line))
          : el('a', { href: placeOf(row) }, 'among its exchange’s bindings'),
      ],
      ['source', named(row.source, 255)],
      [
        'share',
        percent(row.share),
        ' of what its destination got; ',
        plural(row.exposure, 'message'),
        ' went through its source',
        row.bound === null ? null : [', at most ', bounded(row.bound), ' of such match it'],
      ],
      ['first seen', when(row.first, 19)],
      ['last seen', when(row.last, 19)],
      [
        'messages',
        count(row.messages),
        row.possible ? ' and up to ' + count(row.possible) + ' more, depending on a random choice' : null,
      ],
      [
        'only by it',
        count(row.only),
        row.messages
          ? ' (' + percent(row.only / row.messages) + '); the others would have come by another way too'
          : null,
      ],
      ['different keys', about(row.distinct_keys), row.distinct_keys ? ' ± ' + percent(error) : null],
      argumentsText(row) ? ['arguments', el('code', {}, argumentsText(row))] : null,
      row.ignored ? ['ignored', visible(row.ignored.reason), ', until ', row.ignored.until] : null,
    ]),
    findings
      .slice(0, 10)
      .map((finding) =>
        el('p', {}, el('span', { class: 'severity-' + finding.severity }, finding.code), ' ', visible(finding.message)),
      ),
  ];
}
