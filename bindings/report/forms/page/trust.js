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
              archive.bias.map((bias) => el('li', {}, visible(bias.says))),
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
                Object.entries(leftOut).map(([table, rows], at) => [
                  at ? ', ' : '',
                  plural(rows, 'row') + ' of ' + table,
                ]),
                '. The full tables are in Parquet: ',
                el('code', {}, '--tables'),
                '.',
              )
            : null,
        ),
      ),
    ),
    el('h3', {}, 'Records'),
    smallTable(
      ['', '>'],
      [
        ['read', count(records.read)],
        ['counted', count(records.counted)],
        ...records.skipped.map((each) => [['skipped: ', visible(each.reason)], count(each.records)]),
        ...records.bad.map((each) => [
          [el('span', { class: 'fail' }, 'bad: '), visible(each.reason), samplesOf(each)],
          count(each.records),
        ]),
      ],
    ),
    ignored.length
      ? [
          el('h3', {}, 'Ignore list'),
          smallTable(
            ['source', 'key', 'destination', 'reason', 'until', '>-bindings', '>-hit'],
            ignored
              .slice(0, 500)
              .map((each) => [
                named(each.source),
                keyed(each.pattern),
                named(each.destination),
                visible(each.reason),
                [each.until, each.expired ? el('span', { class: 'fail' }, ' expired') : null],
                count(each.bindings),
                count(each.hit),
              ]),
          ),
        ]
      : null,
  ];
}

function samplesOf(bad) {
  return el(
    'ul',
    {},
    bad.samples.map((sample) =>
      el(
        'li',
        {},
        positionOf(sample.source, sample.offset),
        ' ',
        el('span', { class: 'sample' }, shortened(sample.sample, 200)),
      ),
    ),
  );
}
