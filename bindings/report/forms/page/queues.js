/* Queues: what each got; and how evenly the partitioned ones are filled. */

function queuesSection(report) {
  const rows = report.queues;
  if (!rows.length) return null;
  const column = columnsOf(rows);
  return makeTable({
    id: 'queues',
    caption: 'queues',
    length: rows.length,
    prompt: 'Search queues',
    begin: { sort: 'messages' },
    filters: [
      { id: 'empty', label: 'without messages', test: (at) => !rows[at].messages && !rows[at].possible },
      { id: 'partitioned', label: 'partitioned', test: (at) => rows[at].partitioning !== null },
    ].filter((filter) => rows.some((row, at) => filter.test(at))),
    text: (at) => rows[at].queue + ' ' + rows[at].type + ' ' + (rows[at].partitioning || ''),
    columns: [
      {
        id: 'queue',
        label: 'Queue',
        value: (at) => rows[at].queue,
        cell: (at) => [named(rows[at].queue, 120), ' ', el('span', { class: 'soft' }, rows[at].type)],
      },
      column.messages(),
      column.figure('share', 'Share of all', { title: 'Of all messages, those it got', cell: shareBar, low: 2 }),
      column.keys(undefined, 1),
      column.figure('avoided', 'Duplicates', {
        low: 1,
        title: 'Copies it did not get, because the message was there already by another binding',
        field: 'duplicates_avoided',
      }),
      {
        id: 'skew',
        label: 'Max / mean',
        low: 2,
        title: 'Messages in the fullest of its partitions, divided by the mean of all: 1 is even',
        figure: true,
        value: (at) => (rows[at].skew ? rows[at].skew.max_to_mean : null),
        cell: (at) => (rows[at].skew ? THREE.format(rows[at].skew.max_to_mean) : ''),
      },
      column.time('first', 'First seen', 1),
      column.time('last', 'Last seen', 2),
    ],
    detail: (at) => queueDetail(report, rows[at]),
  });
}

function queueDetail(report, row) {
  const into = report.bindings
    .filter((binding) => binding.destination_type === 'queue' && binding.destination === row.queue)
    .sort((a, b) => b.messages - a.messages);
  return el(
    'div',
    { class: 'columns' },
    el(
      'div',
      {},
      pairs([
        ['different keys', about(row.distinct_keys)],
        ['duplicates', count(row.duplicates_avoided) + ' avoided'],
        ['seen', when(row.first), ' to ', when(row.last)],
        row.line && sourceText ? ['line', el('a', { href: '#L' + row.line }, count(row.line))] : null,
      ]),
      into.length
        ? smallTable(
            ['by', 'binding key', '>messages', '', ''],
            into
              .slice(0, 12)
              .map((binding) => [
                named(binding.source, 40),
                pattern(binding.routing_key, 60),
                count(binding.messages),
                stateTag(binding.state),
                el('a', { href: '#b' + binding.number, 'aria-label': 'This binding in the table' }, '→'),
              ]),
          )
        : el('p', { class: 'none' }, 'No binding leads here.'),
      into.length > 12
        ? el(
            'p',
            { class: 'note' },
            'and ',
            el(
              'a',
              { href: '#bindings?find=' + encodeURIComponent(row.queue) },
              plural(into.length - 12, 'more binding'),
            ),
            '.',
          )
        : null,
    ),
    hotKeys(row.hot, row.messages),
  );
}

const MOST_CARDS = 24;

function partitionsSection(report) {
  const rows = report.queues
    .filter((row) => row.skew)
    .sort((a, b) => b.skew.max_to_mean - a.skew.max_to_mean || b.messages - a.messages);
  if (!rows.length) return null;
  return [
    el(
      'p',
      { class: 'note' },
      'The most uneven first. The dashed line is the mean, and what has more than twice the mean is marked by its colour; a consumer of the fullest partition has max / mean times the work of the average one.',
    ),
    el('div', { class: 'cards' }, rows.slice(0, MOST_CARDS).map(skewCard)),
    rows.length > MOST_CARDS
      ? el(
          'p',
          { class: 'note' },
          'and ' +
            plural(rows.length - MOST_CARDS, 'queue') +
            ' that ' +
            (rows.length - MOST_CARDS === 1 ? 'is' : 'are') +
            ' more even: see the table of queues.',
        )
      : null,
  ];
}

function skewCard(row) {
  const skew = row.skew;
  const holder = el('div', { class: 'chart' });
  const decided = row.partitions.filter((each) => each.partition !== null);
  const open = row.partitions.filter((each) => each.partition === null);
  whenSized(holder, (width) => holder.replaceChildren(drawPartitions(row, decided, width)));
  return el(
    'div',
    { class: 'card' },
    el('h3', {}, named(row.queue)),
    el('p', { class: 'note' }, visible(row.partitioning)),
    el(
      'p',
      {},
      el('b', {}, THREE.format(skew.max_to_mean)),
      ' max / mean, the fullest has ',
      el('b', {}, percent(skew.top_share)),
      '; Gini ',
      THREE.format(skew.gini),
      ', variation ',
      THREE.format(skew.variation),
    ),
    holder,
    open.length && sumBy(open, 'messages')
      ? el(
          'p',
          { class: 'note' },
          'Of ' + plural(sumBy(open, 'messages'), 'more message') + ' the key does not decide the partition.',
        )
      : null,
    hotKeys(Object.assign({}, row.hot, { keys: row.hot.keys.slice(0, 5) }), row.messages),
  );
}

/* A bar for each partition; of very many, for neighbours together, as high as the fullest of them. */
function drawPartitions(row, partitions, width) {
  const high = 110;
  const room = width - 54;
  const size = Math.ceil(partitions.length / Math.max(1, Math.floor(room / 3)));
  const bars = [];
  for (let at = 0; at < partitions.length; at += size) bars.push(partitions.slice(at, at + size));
  const most = Math.max(1, ...partitions.map((each) => each.messages));
  const mean = sumBy(partitions, 'messages') / Math.max(1, partitions.length);
  const pitch = Math.min(48, room / Math.max(1, bars.length));
  const picture = draw('svg', {
    width,
    height: high + 30,
    viewBox: `0 0 ${width} ${high + 30}`,
    role: 'img',
    'aria-label': `Messages in ${plural(partitions.length, 'partition')} of ${visible(row.queue)}: at most ${count(most)}, on the average ${count(Math.round(mean))}`,
  });
  picture.append(draw('text', { class: 'tick', x: 44, y: 14, 'text-anchor': 'end' }, brief(most)));
  let free = 0;
  bars.forEach((group, at) => {
    const top = Math.max(...group.map((each) => each.messages));
    const x = 50 + at * pitch;
    const height = (top / most) * high;
    const label =
      group.length === 1
        ? nameText(group[0].name || String(group[0].partition), 24)
        : group[0].partition + '–' + group[group.length - 1].partition;
    const bar = draw('rect', {
      class: top > 2 * mean ? 'lost' : 'routed',
      x,
      y: 8 + high - height,
      width: Math.max(1, pitch - (pitch > 4 ? 2 : 0)),
      height: Math.max(top ? 1 : 0, height),
    });
    const catcher = draw('rect', { x, y: 8, width: pitch, height: high, fill: 'transparent' });
    catcher.addEventListener('pointermove', (event) =>
      showTip(
        [
          el('p', { class: 'tip-head' }, 'partition ' + label),
          tipRows([
            [null, group.length === 1 ? 'messages' : 'messages in the fullest', count(top)],
            [null, 'to the mean', mean ? THREE.format(top / mean) + ' ×' : '–'],
          ]),
        ],
        event.clientX,
        event.clientY,
      ),
    );
    catcher.addEventListener('pointerleave', hideTip);
    picture.append(bar, catcher);
    const number = String(group[0].partition);
    if (x >= free) {
      picture.append(draw('text', { class: 'tick', x: x + pitch / 2, y: high + 24, 'text-anchor': 'middle' }, number));
      free = x + number.length * 7 + 8;
    }
  });
  const y = 8 + high - (mean / most) * high;
  picture.append(
    draw('line', { class: 'mean', x1: 50, x2: 50 + bars.length * pitch, y1: y, y2: y }),
    draw(
      'text',
      { class: 'tick', x: 44, y: Math.max(28, y + 4), 'text-anchor': 'end' },
      mean < 10 ? THREE.format(mean) : brief(Math.round(mean)),
    ),
  );
  return picture;
}
