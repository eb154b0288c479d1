/* The head: what was audited, the two totals side by side, and what the gates say. */

function summary(report) {
  const { audited, totals } = report;
  const topology = audited.topology;
  return [
    el(
      'h1',
      {},
      'Audit of ',
      el('bdi', { title: topology.source || null }, shortened(fileName(topology.source) || '(unnamed)', 90)),
      topology.vhost && topology.vhost !== '/' ? [', vhost ', el('bdi', {}, shortened(topology.vhost))] : null,
    ),
    facts(report),
    verdict(report),
    el(
      'div',
      { class: 'totals' },
      bigFigure(
        'Binding coverage',
        totals.bindings.coverage,
        'No binding can be hit.',
        [
          el('b', {}, count(totals.bindings.hit)),
          ' of ',
          plural(totals.bindings.eligible, 'binding'),
          ' that can be hit were hit',
        ],
        stateParts(totals.bindings.states),
        'Bindings',
        limitOf(report, 'fail_under'),
      ),
      bigFigure(
        'Message coverage',
        totals.messages.coverage,
        'No message was counted.',
        [
          el('b', {}, count(totals.messages.routed)),
          ' of ',
          plural(totals.messages.all, 'message'),
          ' reached a queue',
        ],
        fateParts(totals.messages),
        'Messages',
        limitOf(report, 'fail_under_messages'),
      ),
    ),
    report.caveats.length
      ? el(
          'ul',
          { class: 'caveats', 'aria-label': 'Before you read the figures' },
          report.caveats.map((caveat) => el('li', {}, visible(caveat))),
        )
      : null,
  ];
}

function facts(report) {
  const { audited, totals } = report;
  const { window: span, records, selection } = audited;
  const [from, to] = [instant(span.first), instant(span.last)];
  const bad = sumBy(records.bad, 'records');
  const skipped = sumBy(records.skipped, 'records');
  const list = [
    [
      'archive',
      audited.archives.length
        ? audited.archives.map((archive, at) => [
            at ? ', ' : '',
            el('bdi', {}, shortened(archive.path, 70)),
            ' (' + archive.formats.join(', ') + ')',
          ])
        : audited.tallies.length
          ? plural(audited.tallies.length, 'merged tally', 'merged tallies')
          : 'unnamed',
    ],
    [
      'window',
      from === null
        ? 'no message has a time'
        : [when(span.first), ' – ', when(span.last), ' UTC, ', lasting(to - from)],
    ],
    selection.since || selection.until
      ? [
          'asked for',
          [
            selection.since ? ['since ', when(selection.since)] : null,
            selection.until ? [' until ', when(selection.until)] : null,
          ],
        ]
      : null,
    [
      'records',
      [
        count(records.read) + ' read',
        skipped ? ', ' + count(skipped) + ' skipped' : null,
        bad ? [', ', el('a', { href: '#trust', class: 'fail' }, count(bad) + ' bad')] : ', none bad',
      ],
    ],
    [
      'topology',
      [
        plural(audited.topology.exchanges, 'exchange'),
        ', ',
        plural(audited.topology.queues, 'queue'),
        ', ',
        plural(audited.topology.bindings, 'binding'),
      ],
    ],
    ['profile', audited.topology.profile],
    [
      'copies',
      [
        count(totals.copies),
        totals.duplicates_avoided ? ', ' + plural(totals.duplicates_avoided, 'duplicate') + ' avoided' : null,
      ],
    ],
    ['made', [when(report.made), ' UTC']],
  ];
  return el(
    'dl',
    { class: 'facts' },
    list.filter(Boolean).map(([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, value))),
  );
}

function sumBy(rows, name) {
  return rows.reduce((sum, row) => sum + row[name], 0);
}

function limitOf(report, name) {
  const gate = report.gates.find((each) => each.name === name && !each.scope);
  const limit = gate ? parseFloat(gate.limit) / 100 : NaN;
  return Number.isFinite(limit) ? limit : null;
}

function bigFigure(title, share, none, words, parts, label, limit) {
  return el(
    'div',
    { class: 'total' },
    el('h3', {}, title),
    el('div', { class: 'big' }, percent(share)),
    el('p', {}, share === null ? none : words),
    meter(
      parts.filter(([id]) => id !== 'ignored' && id !== 'not_eligible'),
      label,
      limit,
    ),
    legend(parts),
  );
}

function verdict(report) {
  if (!report.gates.length)
    return el(
      'p',
      { class: 'note' },
      'No gate was set: nothing here can fail. ',
      el('code', {}, '--fail-under'),
      ' sets one.',
    );
  const failed = report.gates.filter((gate) => !gate.passed);
  const shown = [...failed, ...report.gates.filter((gate) => gate.passed)];
  const list = (gates) =>
    el(
      'table',
      { class: 'gates' },
      el(
        'tbody',
        {},
        gates.map((gate) =>
          el(
            'tr',
            {},
            el('td', { class: gate.passed ? 'pass' : 'fail' }, gate.passed ? 'passed' : 'failed'),
            el('td', {}, gate.scope ? [gate.of ? gate.of + ' ' : '', named(gate.scope)] : 'everything'),
            el('td', {}, visible(gate.message)),
          ),
        ),
      ),
    );
  return [
    el(
      'p',
      { class: 'verdict' + (failed.length ? ' failed' : '') },
      failed.length
        ? count(failed.length) + ' of ' + plural(report.gates.length, 'gate') + ' failed'
        : plural(report.gates.length, 'gate') + ' passed',
    ),
    list(shown.slice(0, 8)),
    shown.length > 8
      ? el('details', {}, el('summary', {}, 'and ' + count(shown.length - 8) + ' more'), list(shown.slice(8, 500)))
      : null,
  ];
}
