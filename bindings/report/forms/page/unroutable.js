/* Messages that no queue got, by the shape of their keys, with the binding that almost matched. */

const MOST_SHAPES = 400;

function unroutableSection(report) {
  const rows = [];
  for (const group of report.unroutable) for (const shape of group.shapes) rows.push({ group, shape });
  if (!report.unroutable.length)
    return el('p', { class: 'none' }, 'Every message that was counted reached a queue, or may have.');
  const types = new Map(report.exchanges.map((row) => [row.exchange, row.type]));
  const all = sumBy(report.unroutable, 'messages');
  const groups = smallTable(
    ['published to', '-what becomes of them', '>messages', '>share', '-first', '-last', '-some keys'],
    report.unroutable
      .slice(0, 50)
      .map((group) => [
        named(group.exchange),
        group.refused ? el('code', {}, visible(group.refused)) : 'dropped, or returned if mandatory',
        count(group.messages),
        percent(group.messages / all),
        when(group.first),
        when(group.last),
        group.sample.slice(0, 3).map((key, at) => [at ? ', ' : '', keyed(key, 50)]),
      ]),
  );
  const table = makeTable({
    id: 'unroutable',
    caption: 'shapes of keys that no queue got',
    length: Math.min(rows.length, MOST_SHAPES),
    prompt: 'Search keys',
    begin: { sort: 'messages' },
    text: (at) => rows[at].group.exchange + ' ' + rows[at].shape.shape + ' ' + rows[at].shape.example,
    columns: [
      {
        id: 'exchange',
        label: 'Exchange',
        low: 2,
        value: (at) => rows[at].group.exchange,
        cell: (at) => named(rows[at].group.exchange, 50),
      },
      {
        id: 'shape',
        label: 'Keys like',
        class: 'shape',
        title: '* stands for a word that no binding names',
        value: (at) => rows[at].shape.shape,
        cell: (at) => pattern(rows[at].shape.shape),
      },
      {
        id: 'messages',
        label: 'Messages',
        figure: true,
        value: (at) => rows[at].shape.messages,
        cell: (at) => atLeast(rows[at].shape.messages, rows[at].group.shapes_error),
      },
      {
        id: 'near',
        label: 'Almost matched',
        class: 'text',
        value: (at) => (rows[at].shape.nearest ? rows[at].shape.nearest.distance : null),
        cell: (at) => nearMiss(rows[at].shape, types, rows[at].group.exchange),
      },
    ],
  });
  const error = Math.max(0, ...report.unroutable.map((group) => group.shapes_error));
  return [
    groups,
    el('h3', {}, 'By the shape of the key'),
    table,
    error
      ? el(
          'p',
          { class: 'note' },
          'Counts by shape are approximate: a true count is up to ' +
            count(error) +
            ' higher. Shapes that are rarer are not listed; the counts by exchange are exact.',
        )
      : null,
  ];
}

const BY_HEADERS = new Set(['headers', 'x-jms-topic']);
const NO_HEADERS = 'an audit keeps no headers: hashstar explain, with those of a message, names the one that failed';

function nearMiss(shape, types, exchange) {
  const near = shape.nearest;
  if (!near)
    return el('span', { class: 'none' }, BY_HEADERS.has(types.get(exchange)) ? NO_HEADERS : 'nothing is near');
  const to = near.destination_type === 'queue' ? 'queue ' : 'exchange ';
  const binding = near.binding;
  const words = binding && types.get(binding.source) === 'topic';
  const wanted = binding ? binding.routing_key : near.destination;
  const keysDiffer = binding ? ['topic', 'direct'].includes(types.get(binding.source)) : true;
  return [
    keysDiffer ? compareKeys(shape.example, wanted, words, binding ? 'binding' : near.destination_type) : null,
    el('div', { class: 'soft' }, visible(near.reason), '; leads to ', to, named(near.destination, 60)),
  ];
}

/* Two keys word by word, one above the other; long ones go on in the next line, both. */
function compareKeys(key, wanted, words, label) {
  const line = words
    ? aligned(key === '' ? [] : key.split('.'), wanted === '' ? [] : wanted.split('.'))
    : [[key, wanted, key === wanted]];
  const word = (text) =>
    text === null
      ? el('span', { class: 'nothing' }, '∅')
      : text === ''
        ? '""'
        : text === '*' || text === '#'
          ? el('span', { class: 'wild' }, text)
          : el('bdi', { title: whole(text, shortened(text, 40)) }, shortened(text, 40));
  const dot = (pair, side, at) => (at && pair[side] !== null ? el('span', { class: 'dot' }, '.') : null);
  return el(
    'div',
    { class: 'near', role: 'group', 'aria-label': `key ${visible(key)}, ${label} ${visible(wanted)}` },
    el('span', { class: 'pair heads' }, el('span', {}, 'key'), el('span', {}, label)),
    line.map((pair, at) =>
      el(
        'span',
        { class: 'pair' },
        [0, 1].map((side) => el('span', { class: pair[2] ? null : 'off' }, dot(pair, side, at), word(pair[side]))),
      ),
    ),
  );
}

/*
 * The words of a key beside those of a pattern, so that the fewest disagree: the classic table of edit distances, with
 * `*` for any word and `#` for any number. Each pair is [word, pattern's word, whether they agree].
 */
function aligned(key, wanted) {
  const rows = Array.from({ length: key.length + 1 }, () => new Array(wanted.length + 1));
  for (let i = key.length; i >= 0; i -= 1) {
    for (let j = wanted.length; j >= 0; j -= 1) {
      const ways = [];
      if (i === key.length && j === wanted.length) ways.push([0, 0, 0, true]);
      if (j < wanted.length && wanted[j] === '#') {
        ways.push([rows[i][j + 1], 0, 1, true]);
        if (i < key.length) ways.push([rows[i + 1][j], 1, 0, true]);
      }
      if (i < key.length && j < wanted.length && wanted[j] !== '#') {
        const agree = wanted[j] === '*' || wanted[j] === key[i];
        ways.push([{ cost: rows[i + 1][j + 1].cost + (agree ? 0 : 1) }, 1, 1, agree]);
      }
      if (i < key.length) ways.push([{ cost: rows[i + 1][j].cost + 1.01 }, 1, 0, false]);
      if (j < wanted.length && wanted[j] !== '#') ways.push([{ cost: rows[i][j + 1].cost + 1.01 }, 0, 1, false]);
      const best = ways.reduce((one, other) => ((other[0].cost || 0) < (one[0].cost || 0) ? other : one));
      rows[i][j] = { cost: best[0].cost || 0, takes: best[1], gives: best[2], agree: best[3] };
    }
  }
  const matched = [];
  let [i, j] = [0, 0];
  while (i < key.length || j < wanted.length) {
    const step = rows[i][j];
    const hash = j < wanted.length && wanted[j] === '#' && step.agree;
    matched.push([step.takes ? key[i] : null, step.gives ? wanted[j] : hash ? '#' : null, step.agree]);
    i += step.takes;
    j += step.gives;
  }
  return joinedHashes(matched);
}

/* `#` and all the words it takes stand as one pair. */
function joinedHashes(list) {
  const joined = [];
  for (const pair of list) {
    const before = joined[joined.length - 1];
    if (before && before[1] === '#' && before[2] && pair[1] === '#' && pair[2])
      before[0] = [before[0], pair[0]].filter((word) => word !== null).join('.') || null;
    else joined.push([...pair]);
  }
  return joined.filter((pair) => !(pair[1] === '#' && pair[0] === null && joined.length > 8));
}
