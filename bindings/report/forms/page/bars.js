/* Bars of shares and legends: the same colours and signs for the same states everywhere. */

const UNABLE = 'cannot be hit: an end of it does not exist, or its exchange is of an unknown type';
const LETTERS = 'only dead letters can reach it, and the archive has none';

const STATES = [
  ['hit', 'hit', 'messages matched it', '✓'],
  ['possible', 'possible', 'hit or not depending on a random choice; counts as hit', '~'],
  ['stale', 'stale', 'hit, but not lately', '◷'],
  ['dead', 'dead', 'nothing matched it that could have', '✗'],
  ['ignored', 'ignored', 'on the ignore list, with a reason and an end', '–'],
  ['dead_letters_only', 'dead letters only', LETTERS, '✉'],
  ['not_eligible', 'not eligible', UNABLE, '⊘'],
];

/* Of lines of a topology: the same signs, and those of bindings that a message did not even come near. */
const LINE_STATES = [
  ['hit', 'hit', 'messages matched each of its bindings', '✓'],
  ['partial', 'partly', 'some of its bindings were matched, others never', '◐'],
  ['never', 'never', 'messages passed its exchange, and none matched', '✗'],
  ['unreached', 'not reached', 'no message passed its exchange', '○'],
  ['ignored', 'ignored', 'on the ignore list, with a reason and an end', '–'],
  ['dead_letters_only', 'dead letters only', LETTERS, '✉'],
  ['not_eligible', 'not eligible', UNABLE, '⊘'],
];

/** The sign of a state, and its word for those who hear the page. */
function signOf(states, state) {
  const [id, word, meaning, sign] = states.find(([id]) => id === state) || [state, state, '', ''];
  return el(
    'span',
    { class: 'sign is-' + id, title: word + ': ' + meaning },
    el('span', { 'aria-hidden': 'true' }, sign),
    el('span', { class: 'unseen' }, word),
  );
}

function stateTag(state) {
  const [id, word, meaning, sign] = STATES.find(([id]) => id === state) || [state, state, '', ''];
  return el(
    'span',
    { class: 'tag', title: word + ': ' + meaning },
    el('span', { class: 'sign is-' + id, 'aria-hidden': 'true' }, sign),
    el('span', { class: 'word' }, word),
  );
}

/** parts: [class, figure, word]; `limit` is the minimum of the first part, as a share. */
function meter(parts, words, limit) {
  const all = parts.reduce((sum, part) => sum + part[1], 0);
  const shares = parts
    .filter((part) => part[1])
    .map((part) => count(part[1]) + ' ' + part[2])
    .join(', ');
  const label = words + ': ' + (shares || 'none');
  return el(
    'div',
    { class: 'meter', role: 'img', 'aria-label': label, title: label },
    parts
      .filter((part) => part[1])
      .map((part) => el('span', { class: part[0], style: { width: (100 * part[1]) / all + '%' } })),
    limit === null || limit === undefined
      ? null
      : el('span', {
          class: 'limit',
          title: 'wanted: ' + percent(limit),
          style: { left: 'calc(' + 100 * limit + '% - 1px)' },
        }),
  );
}

function legend(parts) {
  return el(
    'ul',
    { class: 'legend' },
    parts
      .filter((part) => part[1])
      .map((part) =>
        el('li', {}, el('span', { class: 'swatch ' + part[0] }), el('b', {}, count(part[1])), ' ' + part[2]),
      ),
  );
}

function stateParts(states) {
  return STATES.map(([id, word]) => [id, states[id] || 0, word]);
}

function fateParts(row) {
  return [
    ['routed', row.routed, 'reached a queue'],
    ['lost', row.unroutable, 'no queue got'],
    ['refused', row.refused, 'refused by the broker'],
    ['undecided', row.undecided, 'undecided'],
  ];
}

/** A share as a figure with a small bar beside it. */
function shareBar(share, word) {
  if (share === null || share === undefined) return el('span', { class: 'none' }, '–');
  return el(
    'span',
    { class: 'share', title: word || null },
    el('span', { class: 'track' }, el('i', { style: { width: 100 * share + '%' } })),
    percent(share),
  );
}

function pairs(list) {
  return el(
    'dl',
    { class: 'pairs' },
    list.filter(Boolean).map(([term, ...value]) => [el('dt', {}, term), el('dd', {}, value)]),
  );
}

/** A small table of frequent keys, with the error of their counts. */
function hotKeys(hot, all) {
  if (!hot || !hot.keys.length) return el('p', { class: 'none' }, 'No key stands out.');
  const partitions = hot.keys.some((key) => key.partition !== null && key.partition !== undefined);
  return el(
    'div',
    {},
    smallTable(
      ['hottest keys', partitions ? '>partition' : null, '>messages', '>share'],
      hot.keys
        .slice(0, 10)
        .map((key) => [
          keyed(key.key),
          count(key.partition),
          atLeast(key.messages, hot.error),
          all ? percent(Math.min(1, key.messages / all)) : '–',
        ]),
    ),
    hot.error
      ? el('p', { class: 'note' }, 'Approximate: a true count is up to ' + count(hot.error) + ' higher.')
      : null,
  );
}

function atLeast(value, error) {
  return error
    ? el('span', { title: count(value) + ' to ' + count(value + error) }, '≥ ' + count(value))
    : count(value);
}
