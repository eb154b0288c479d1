/* The findings of `hashstar check`, with the evidence of the traffic. */

const EVIDENCE = {
  proved: ['proved', 'The traffic shows it', 'lost'],
  belied: ['belied', 'The traffic contradicts it', 'hit'],
  no_traffic: ['no traffic', 'No message could show it', 'ignored'],
};
const SEVERITIES = ['note', 'warning', 'error'];

function findingsSection(report) {
  const rows = report.findings;
  if (!rows.length) return el('p', { class: 'none' }, 'The check of the topology found nothing.');
  const column = columnsOf(rows);
  const filters = [
    ...Object.entries(EVIDENCE).map(([id, [word, meaning]]) => ({
      id,
      label: word,
      title: meaning,
      test: (at) => rows[at].evidence === id,
    })),
    ...['error', 'warning', 'note'].map((severity) => ({
      id: severity,
      label: severity + 's',
      test: (at) => rows[at].severity === severity,
    })),
  ].filter((filter) => rows.some((row, at) => filter.test(at)));
  return makeTable({
    id: 'findings',
    caption: 'findings',
    length: rows.length,
    filters,
    prompt: 'Search findings',
    foremost: 'the most severe before others',
    begin: { sort: 'severity' },
    text: (at) => rows[at].code + ' ' + rows[at].name + ' ' + rows[at].message,
    columns: [
      {
        id: 'severity',
        label: 'Severity',
        first: 'down',
        value: (at) => SEVERITIES.indexOf(rows[at].severity),
        cell: (at) => el('span', { class: 'severity-' + rows[at].severity }, rows[at].severity),
      },
      {
        id: 'code',
        label: 'Code',
        low: 2,
        value: (at) => rows[at].code,
        cell: (at) => [rows[at].code, el('div', { class: 'soft short' }, rows[at].name)],
      },
      {
        id: 'message',
        label: 'Finding',
        class: 'text',
        value: (at) => rows[at].message,
        cell: (at) => [
          rows[at].message.split('\n').map((line) => el('div', {}, visible(line.trim()))),
          rows[at].witness !== null
            ? [' ', el('span', { class: 'soft' }, 'Shown by the key '), keyed(rows[at].witness)]
            : null,
        ],
      },
      {
        id: 'evidence',
        label: 'Traffic',
        class: 'text',
        value: (at) => rows[at].evidence || '',
        cell: (at) => evidenceOf(rows[at]),
      },
      column.figure('messages', 'Messages', { title: 'That its part got', low: 2 }),
    ],
    detail: (at) => [
      el('p', {}, visible(rows[at].says)),
      el('p', {}, el('b', {}, 'Way out: '), visible(rows[at].way_out), '.'),
      rows[at].line
        ? el(
            'p',
            {},
            'In ',
            el('a', { href: sourceText ? '#L' + rows[at].line : null }, 'line ' + count(rows[at].line)),
            '.',
          )
        : null,
    ],
  });
}

function evidenceOf(row) {
  const known = EVIDENCE[row.evidence];
  return [
    known
      ? el('span', { class: 'tag', title: known[1] }, el('span', { class: 'swatch ' + known[2] }), known[0])
      : el('span', { class: 'none' }, 'no evidence'),
    row.traffic ? el('div', { class: 'soft' }, visible(row.traffic)) : null,
  ];
}
