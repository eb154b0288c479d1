/* The head: what was audited and the figures of it, beside the flow; below, the gates. */

function summary(report) {
  const { audited } = report;
  const topology = audited.topology;
  return el(
    'header',
    { class: 'head' },
    el(
      'h1',
      {},
      'Audit of ',
      el('bdi', { title: topology.source || null }, shortened(fileName(topology.source) || '(unnamed)', 70)),
      topology.vhost && topology.vhost !== '/' ? [', vhost ', el('bdi', {}, shortened(topology.vhost, 40))] : null,
    ),
    facts(report),
    caveatsOf(report.caveats),
  );
}

const CAVEATS = 1; // shown at once

function caveatsOf(caveats) {
  if (!caveats.length) return null;
  const list = (some) => some.map((caveat) => el('li', {}, visible(caveat)));
  const words = { class: 'caveats', 'aria-label': 'Before you read the figures' };
  return [
    el('ul', words, list(caveats.slice(0, CAVEATS))),
    caveats.length > CAVEATS
      ? el(
          'details',
          { class: 'more-caveats' },
          el('summary', {}, 'and ' + plural(caveats.length - CAVEATS, 'more caveat')),
          el('ul', words, list(caveats.slice(CAVEATS))),
        )
      : null,
  ];
}

/* The figures that a reader looks for first. */
function headline(report) {
  const { messages, bindings } = report.totals;
  const { records } = report.audited;
  const bad = sumBy(records.bad, 'records');
  const line = (id, number, words, href, alarming) =>
    el(
      'li',
      { 'data-figure': id, class: alarming && number ? 'alarming' : null },
      el('b', {}, count(number)),
      ' ',
      number && href ? el('a', { href }, words) : words,
    );
  const failed = report.gates.filter((gate) => !gate.passed).length;
  return el(
    'div',
    { class: 'headline' },
    report.gates.length
      ? el(
          'p',
          { class: 'verdict' + (failed ? ' failed' : '') },
          el(
            'a',
            { href: '#gates' },
            failed
              ? '✗ ' + count(failed) + ' of ' + plural(report.gates.length, 'gate') + ' failed'
              : '✓ ' + plural(report.gates.length, 'gate') + ' passed',
          ),
        )
      : null,
    bigFigure(
      'Message coverage',
      messages.coverage,
      'No message was counted.',
      [
        line('messages', messages.all, messages.all === 1 ? 'message' : 'messages', '#traffic'),
        line('routed', messages.routed, 'routed', '#queues'),
        el(
          'li',
          { class: 'soft', title: plural(report.totals.duplicates_avoided, 'duplicate') + ' avoided' },
          plural(report.totals.copies, 'copy', 'copies') + ' in queues',
        ),
        line('unroutable', messages.unroutable, 'unroutable', '#unroutable', true),
        messages.refused ? line('refused', messages.refused, 'refused by the broker', '#unroutable', true) : null,
        messages.undecided ? line('undecided', messages.undecided, 'undecided') : null,
      ],
      fateParts(messages),
      'Messages',
      limitOf(report, 'fail_under_messages'),
    ),
    bigFigure(
      'Binding coverage',
      bindings.coverage,
      'No binding can be hit.',
      [
        el(
          'li',
          { 'data-figure': 'covered' },
          el('b', {}, count(bindings.hit)),
          ' of ',
          el('a', { href: '#source' }, plural(bindings.eligible, 'binding') + ' covered'),
        ),
        stateParts(bindings.states)
          .filter(([, number]) => number)
          .map(([id, number, word]) =>
            el(
              'li',
              {},
              el('b', {}, count(number)),
              ' ',
              el('span', { class: 'sign is-' + id, 'aria-hidden': 'true' }, STATES.find(([each]) => each === id)[3]),
              ' ',
              el('a', { href: '#bindings?show=' + id }, word),
            ),
          ),
      ],
      stateParts(bindings.states),
      'Bindings',
      limitOf(report, 'fail_under'),
    ),
    el('ul', { class: 'figures' }, line('bad', bad, bad === 1 ? 'bad record' : 'bad records', '#trust', true)),
  );
}

function facts(report) {
  const { audited } = report;
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

function bigFigure(title, share, none, lines, parts, label, limit) {
  return el(
    'div',
    { class: 'total' },
    el('h2', {}, title),
    el('div', { class: 'big' }, percent(share)),
    meter(
      parts.filter(([id]) => !['ignored', 'dead_letters_only', 'not_eligible'].includes(id)),
      label,
      limit,
    ),
    share === null ? el('p', {}, none) : null,
    el('ul', { class: 'figures' }, lines),
  );
}

function gatesSection(report) {
  if (!report.gates.length) return null;
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
            el('td', { class: gate.passed ? 'pass' : 'fail' }, gate.passed ? '✓ passed' : '✗ failed'),
            el('td', {}, gate.scope ? [gate.of ? gate.of + ' ' : '', named(gate.scope)] : 'everything'),
            el('td', {}, visible(gate.message)),
          ),
        ),
      ),
    );
  return [
    list(shown.slice(0, 8)),
    shown.length > 8
      ? el('details', {}, el('summary', {}, 'and ' + count(shown.length - 8) + ' more'), list(shown.slice(8, 500)))
      : null,
  ];
}
