/* What the figures rest on: archives and their bias, records that were skipped or bad, and what is approximate. */

function trustSection(report) {
  const { audited } = report;
  const records = audited.records;
  const ignored = report.ignored || [];
  return [
    el(
      'div',
      { class: 'columns' },
      el(
        'div',
        {},
        el('h3', {}, 'Archives'),
        audited.archives.map((archive) =>
          el(
            'div',
            {},
            el(
              'p',
              {},
              el('bdi', { class: 'name' }, shortened(archive.path, 200)),
              ': ' + archive.formats.join(', ') + ', ' + plural(archive.files, 'file'),
            ),
            el(
              'ul',
              {},
              archive.bias.map((bias) => el('li', {}, el('b', {}, bias.name), ': ', visible(bias.says))),
              archive.notes.map((note) => el('li', {}, visible(note))),
              archive.not_archives && archive.not_archives.files
                ? el(
                    'li',
                    {},
                    plural(archive.not_archives.files, 'file') +
                      ' that ' +
                      (archive.not_archives.files === 1 ? 'is' : 'are') +
                      ' no archive: ',
                    listed(archive.not_archives.some, 5),
                  )
                : null,
            ),
          ),
        ),
        audited.tallies.length
          ? el(
              'ul',
              {},
              audited.tallies
                .slice(0, 60)
                .map((path) => el('li', {}, 'tally ', el('bdi', { class: 'name' }, shortened(path, 200)))),
            )
          : null,
      ),
      el(
        'div',
        {},
        el('h3', {}, 'What is exact, and what is not'),
        el(
          'ul',
          {},
          el(
            'li',
            {},
            'Exact: all counts of messages, the two coverages, dead bindings, first and last times, partitions.',
          ),
          el(
            'li',
            {},
            'Approximate (≈): numbers of different keys, with a standard error of ' +
              percent(report.approximate.distinct_keys) +
              '; few keys are counted nearly exactly.',
          ),
          el(
            'li',
            {},
            'At least (≥): frequent keys and shapes of keys. A true count is up to the stated error higher; what is not listed may have up to that many.',
          ),
          el(
            'li',
            {},
            'A dead binding was matched by 0 of N messages. That bounds its share by 3 / N with 95 % confidence, for traffic like this; what comes seldom may not be in this window.',
          ),
          audited.window.messages_without_time
            ? el(
                'li',
                {},
                plural(audited.window.messages_without_time, 'message') +
                  ' without a time ' +
                  (audited.window.messages_without_time === 1 ? 'is' : 'are') +
                  ' counted, and not in the picture of traffic over time.',
              )
            : null,
          Object.keys(leftOut).length
            ? el(
                'li',
                {},
                'Not all rows are in this page: ',
                Object.entries(leftOut).map(([table, rows], at) => [at ? ', ' : '', plural(rows, 'row') + ' of ' + table]),
                '. The full tables are in Parquet: ',
                el('code', {}, '--tables'),
                '.',
              )
            : null,
        ),
      ),
    ),
    el('h3', {}, 'Records'),
    el(
      'table',
      { class: 'small' },
      el(
        'tbody',
        {},
        el('tr', {}, el('td', {}, 'read'), el('td', { class: 'figure' }, count(records.read))),
        el('tr', {}, el('td', {}, 'counted'), el('td', { class: 'figure' }, count(records.counted))),
        records.skipped.map((each) =>
          el(
            'tr',
            {},
            el('td', {}, 'skipped: ', visible(each.reason)),
            el('td', { class: 'figure' }, count(each.records)),
          ),
        ),
        records.bad.map((each) =>
          el(
            'tr',
            {},
            el(
              'td',
              {},
              el('span', { class: 'fail' }, 'bad: '),
              visible(each.reason),
              el(
                'ul',
                {},
                each.samples.map((bad) =>
                  el(
                    'li',
                    {},
                    place(bad.source, bad.offset),
                    ' ',
                    el('span', { class: 'sample' }, shortened(bad.sample, 200)),
                  ),
                ),
              ),
            ),
            el('td', { class: 'figure' }, count(each.records)),
          ),
        ),
      ),
    ),
    ignored.length
      ? [
          el('h3', {}, 'Ignore list'),
          el(
            'table',
            { class: 'small' },
            el(
              'thead',
              {},
              el(
                'tr',
                {},
                ['source', 'key', 'destination', 'reason', 'until', 'bindings', 'hit'].map((word, at) =>
                  el('th', { scope: 'col', class: at > 4 ? 'figure' : null }, word),
                ),
              ),
            ),
            el(
              'tbody',
              {},
              ignored
                .slice(0, 500)
                .map((each) =>
                  el(
                    'tr',
                    {},
                    el('td', {}, named(each.source)),
                    el('td', {}, keyed(each.pattern)),
                    el('td', {}, named(each.destination)),
                    el('td', {}, visible(each.reason)),
                    el('td', {}, each.until, each.expired ? el('span', { class: 'fail' }, ' expired') : null),
                    el('td', { class: 'figure' }, count(each.bindings)),
                    el('td', { class: 'figure' }, count(each.hit)),
                  ),
                ),
            ),
          ),
        ]
      : null,
  ];
}
