/*
 * The topology line by line, each line with what its bindings did: the text of a .bindings file as its owners wrote it,
 * or, of definitions and brokers, the bindings under their exchanges.
 */

let sourceText = null; // { text, left_out: number of lines }: the text of the .bindings file, if the page has it

const MISSED = ['partial', 'never', 'unreached'];
const MOST_NAMED = 12; // bindings of a line that its title names
const MOST_SHOWN = 400; // bindings of a line that it unfolds to

/** Where the listing has a binding: an address in this page. */
function placeOf(row) {
  return (row.line && sourceText ? '#L' + row.line : '#g') + (row.line && sourceText ? '' : row.number);
}

function listingSection(report, begin) {
  const byNumber = new Map(report.bindings.map((row) => [row.number, row]));
  const items = sourceText && report.lines ? linesOfText(report) : linesByExchange(report);
  if (!items.length) return null;
  const text = Boolean(sourceText && report.lines);
  const missed = [...items.keys()].filter((at) => MISSED.includes(items[at].state));
  let here = -1;
  const step = (by) => {
    if (!missed.length) return;
    here = here < 0 ? (by > 0 ? 0 : missed.length - 1) : (here + by + missed.length) % missed.length;
    table.reveal(missed[here], false);
  };
  const table = makeTable({
    id: 'source',
    caption: text ? 'lines' : 'lines of bindings and exchanges',
    length: items.length,
    unsorted: true,
    size: 500,
    begin,
    prompt: 'Search the text',
    filters: LINE_STATES.map(([id, word, meaning, sign]) => ({
      id,
      label: [signOf(LINE_STATES, id), ' ', word],
      title: meaning + '; a press shows these lines only',
      test: (at) => items[at].state === id || Boolean(items[at].states && items[at].states.has(id)),
      tally: () => items.filter((item) => item.state === id).length,
    })).filter((filter) => items.some((item) => item.state === filter.id)),
    tools: missed.length
      ? el(
          'span',
          { class: 'steps' },
          el('button', { type: 'button', class: 'plain', title: 'Key k', onclick: () => step(-1) }, '↑ missed'),
          ' ',
          el('button', { type: 'button', class: 'plain', title: 'Key j', onclick: () => step(1) }, '↓ missed'),
        )
      : null,
    changed: (state) => remember('source', state),
    text: (at) => items[at].text,
    look: (at) => 'line' + (items[at].state ? ' line-' + items[at].state : items[at].head ? ' line-head' : ''),
    opens: (at) => items[at].numbers.length > 0,
    detail: (at) => repetitions(items[at], byNumber),
    columns: [
      text
        ? {
            id: 'number',
            label: 'Line',
            class: 'lineno',
            cell: (at) => el('a', { href: '#L' + (at + 1), tabindex: -1 }, String(at + 1)),
          }
        : null,
      {
        id: 'messages',
        label: 'Messages',
        title: 'That matched its bindings; grey: that passed the exchange, or that the queue got',
        class: 'figure',
        cell: (at) => countOf(items[at], byNumber),
      },
      {
        id: 'sign',
        label: el('span', { class: 'unseen' }, 'State'),
        class: 'signs',
        cell: (at) => (items[at].state ? signOf(LINE_STATES, items[at].state) : null),
      },
      {
        id: 'code',
        label: text ? fileName(report.audited.topology.source) : 'Binding',
        class: 'code',
        cell: (at) => items[at].show(),
      },
    ].filter(Boolean),
  });
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea')) return;
    if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
  });
  const places = new Map(items.flatMap((item, at) => item.numbers.map((number) => [number, at])));
  table.toLine = (line) => line <= items.length && table.reveal(line - 1, items[line - 1].numbers.length > 1);
  table.toBinding = (number) => places.has(number) && table.reveal(places.get(number), false);
  return [
    text && /^\s*vhost\b[^]*^\s*vhost\b/m.test(sourceText.text)
      ? el('p', { class: 'note' }, 'Counts are of the virtual host ', el('bdi', {}, report.audited.topology.vhost), '.')
      : null,
    !text && leftOut.bindings
      ? el('p', { class: 'note left-out' }, plural(leftOut.bindings, 'more binding') + ' are not in this page.')
      : null,
    text && sourceText.left_out
      ? el(
          'p',
          { class: 'note left-out' },
          'The last ' + plural(sourceText.left_out, 'line') + ' are not in this page.',
        )
      : null,
    table,
  ];
}

/* A line of a file: what it makes, what it declares, and what the check found in it. */
function linesOfText(report) {
  const rows = new Map(report.lines.map((row) => [row.line, row]));
  const declared = new Map();
  const declare = (line, what, name, messages) => {
    if (!line) return;
    if (!declared.has(line)) declared.set(line, { messages: 0, each: [] });
    declared.get(line).messages += messages;
    declared.get(line).each.push(`${what} ${visible(name)}: ${count(messages)}`);
  };
  for (const row of report.queues) declare(row.line, 'queue', row.queue, row.messages);
  for (const row of report.exchanges) declare(row.line, 'exchange', row.exchange, row.through);
  const findings = new Map();
  for (const row of report.findings) if (row.line) findings.set(row.line, [...(findings.get(row.line) || []), row]);
  return sourceText.text.split('\n').map((line, at) => {
    const row = rows.get(at + 1);
    const text = line.replace(/\r$/, '').replace(/\t/g, '    ');
    return {
      text,
      state: row ? row.state : null,
      numbers: row ? row.bindings : [],
      messages: row ? row.messages : null,
      possible: row ? row.possible : 0,
      hit: row ? row.hit : 0,
      declared: declared.get(at + 1),
      show: () => [coloured(text), findingTags(findings.get(at + 1) || [])],
    };
  });
}

/* A tag for each code: a line may have several findings of one. */
function findingTags(rows) {
  return [...new Set(rows.map((row) => row.code))].map((code) => {
    const same = rows.filter((row) => row.code === code);
    const [row] = same;
    return el(
      'a',
      {
        class: 'finding severity-' + row.severity,
        href: '#findings?find=' + encodeURIComponent(code),
        title: same
          .slice(0, MOST_NAMED)
          .map((each) => each.message)
          .join('\n'),
      },
      row.code + ' ' + row.name + (same.length > 1 ? ' × ' + count(same.length) : ''),
    );
  });
}

/* Of each exchange a head, and below it its bindings in the order of their keys. */
function linesByExchange(report) {
  const types = new Map(report.exchanges.map((row) => [row.exchange, row]));
  const items = [];
  let head = null;
  for (const row of report.bindings) {
    const state = lineState(row);
    if (!head || head.name !== row.source) {
      const exchange = types.get(row.source);
      head = {
        head: true,
        name: row.source,
        text: row.source,
        numbers: [],
        states: new Set(),
        declared: exchange ? { messages: exchange.through, each: ['messages that passed it'] } : null,
        show: () => [
          named(row.source, 120),
          ' ',
          el('span', { class: 'soft' }, exchange && exchange.type ? exchange.type : 'does not exist'),
        ],
      };
      items.push(head);
    }
    head.states.add(state);
    items.push({
      text: [row.source, row.routing_key, row.destination, argumentsText(row)].join(' '),
      state,
      numbers: [row.number],
      messages: row.messages,
      possible: row.possible,
      hit: state === 'hit' ? 1 : 0,
      show: () => [
        pattern(row.routing_key, 120),
        argumentsText(row) ? [' ', el('span', { class: 'name soft' }, shortened(argumentsText(row), 120))] : null,
        el('span', { class: 'soft' }, row.destination_type === 'exchange' ? ' → exchange ' : ' → '),
        named(row.destination, 120),
      ],
    });
  }
  return items;
}

/** The state of a line that makes this binding alone. */
function lineState(row) {
  if (row.state === 'dead') return row.exposure ? 'never' : 'unreached';
  return row.state === 'stale' || row.state === 'possible' ? 'hit' : row.state;
}

function countOf(item, byNumber) {
  if (item.messages === null || item.messages === undefined)
    return item.declared
      ? el(
          'span',
          { class: 'soft declared', title: item.declared.each.slice(0, MOST_NAMED).join('\n') },
          count(item.declared.messages),
        )
      : null;
  if (item.numbers.length === 1) return [count(item.messages), possibly(item.possible)];
  const rows = item.numbers.slice(0, MOST_NAMED).map((number) => byNumber.get(number));
  const each = rows
    .filter(Boolean)
    .map(
      (row) =>
        `${count(row.messages)}  ${visible(row.source)} → ${visible(row.destination)}: ${visible(row.routing_key)}`,
    );
  const more = item.numbers.length - MOST_NAMED;
  const sum = `sum of ${plural(item.numbers.length, 'binding')}, ${count(item.hit)} hit`;
  return el(
    'span',
    { class: 'sum', title: [sum, ...each, more > 0 ? `and ${count(more)} more` : null].filter(Boolean).join('\n') },
    'Σ ',
    count(item.messages),
    possibly(item.possible),
  );
}

/* The bindings of a line: one for each key, destination and turn of a `for`. */
function repetitions(item, byNumber) {
  const rows = item.numbers.map((number) => byNumber.get(number)).filter(Boolean);
  const shown = rows.slice(0, MOST_SHOWN);
  return [
    smallTable(
      ['', '>messages', '-from', 'key', 'to', ''],
      shown.map((row) => [
        stateTag(row.state),
        [count(row.messages), possibly(row.possible)],
        named(row.source, 60),
        [
          pattern(row.routing_key, 90),
          argumentsText(row) ? el('div', { class: 'soft name' }, shortened(argumentsText(row), 90)) : null,
        ],
        named(row.destination, 60),
        el('a', { href: '#b' + row.number, class: 'short' }, 'in the table'),
      ]),
    ),
    item.numbers.length > shown.length
      ? el('p', { class: 'note' }, 'and ' + plural(item.numbers.length - shown.length, 'more binding') + '.')
      : null,
  ];
}

const TOKENS = /(#.*)|("(?:[^"\\]|\\.)*"|'[^']*')|(->)|(\{[^\W\d]\w*\})|([\w.@$/+~%-]+)/g;
const WORDS = new Set(['exchange', 'queue', 'policy', 'expect', 'let', 'for', 'in', 'vhost', 'profile']);

/** A line of a .bindings file, its comment, texts, variables and words of the language set apart. */
function coloured(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const [all, comment, quoted, arrow, variable, word] = match;
    const kind = comment
      ? 'comment'
      : quoted
        ? 'quoted'
        : arrow || (word && WORDS.has(word))
          ? 'word'
          : variable
            ? 'variable'
            : null;
    if (!kind) continue;
    parts.push(text.slice(at, match.index), el('span', { class: 't-' + kind }, all));
    at = match.index + all.length;
  }
  parts.push(text.slice(at));
  return el('span', { class: 'text' }, parts);
}
