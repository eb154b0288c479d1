/* Elements and words. Text enters the page as text nodes only, here: nothing in the report is ever read as HTML. */

const SVG = 'http://www.w3.org/2000/svg';

/** An element; `on…` properties are listeners, `style` is an object, null and false leave an attribute out. */
function el(tag, properties, ...children) {
  return dress(document.createElement(tag), properties, children);
}

/** The same for a part of a drawing. */
function draw(tag, properties, ...children) {
  return dress(document.createElementNS(SVG, tag), properties, children);
}

function dress(node, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [rule, to] of Object.entries(value)) node.style.setProperty(rule, to);
    else node.setAttribute(name, value === true ? '' : String(value).split('\n').map(visible).join('\n'));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
}

/*
 * Characters that hide, or turn the reading direction of what follows, are shown as what they are, and so are the lone
 * surrogates that stand for bytes which are not UTF-8. It happens to all text that enters the page.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

function visible(text) {
  return String(text).replace(INVISIBLE, (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));
}

const LONGEST = 160;
const SHORT = 18; // characters that a column of a table has room for in one line

/* A text of limited length. Names often differ at their ends, so the middle is left out. */
function shortened(text, longest) {
  const shown = visible(text);
  const most = Math.max(3, longest || LONGEST);
  if (shown.length <= most) return shown;
  const all = Array.from(shown); // characters, so that none is cut in two
  if (all.length <= most) return shown;
  const tail = Math.floor((most - 1) * 0.45);
  return all.slice(0, most - 1 - tail).join('') + '…' + all.slice(all.length - tail).join('');
}

/** The whole of a text that is shown shortened, for its title; null for one that is not. */
function whole(text, shown) {
  const all = visible(text);
  return all === shown ? null : all;
}

/* Names and keys break at their dots first; short ones do not. */
function breaking(text) {
  return text.length <= SHORT ? text : text.split('.').map((word, at) => (at ? ['.', el('wbr'), word] : word));
}

/** A name of an exchange or a queue. */
function named(name, longest) {
  if (name === '') return el('bdi', { class: 'name unnamed', title: 'the default exchange' }, '(default)');
  const shown = shortened(name, longest);
  return el(
    'bdi',
    { class: shown.length <= SHORT ? 'name short' : 'name', title: whole(name, shown) },
    breaking(shown),
  );
}

/** The name of a file without its folders; an address as it is. */
function fileName(path) {
  return /^https?:/i.test(path) ? path : path.slice(path.lastIndexOf('/') + 1) || path;
}

function nameText(name, longest) {
  return name === '' ? '(default)' : shortened(name, longest);
}

/** A routing key; the empty one is shown as quotes. */
function keyed(key, longest) {
  if (key === '') return el('bdi', { class: 'key unnamed', title: 'the empty key' }, '""');
  const shown = shortened(key, longest);
  return el('bdi', { class: shown.length <= SHORT ? 'key short' : 'key', title: whole(key, shown) }, breaking(shown));
}

/** A binding key or a shape of keys, its wildcards set apart. */
function pattern(key, longest) {
  if (key === '') return keyed(key);
  const shown = shortened(key, longest);
  const words = shown.split('.');
  const parts = words.map((word, at) => [
    at ? ['.', key.length <= SHORT ? null : el('wbr')] : null,
    word === '*' || word === '#' ? el('span', { class: 'wild' }, word) : word,
  ]);
  return el('bdi', { class: key.length <= SHORT ? 'key short' : 'key', title: whole(key, shown) }, parts);
}

const WHOLE = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 });
const THREE = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 3 });

function count(value) {
  return value === null || value === undefined ? '–' : WHOLE.format(value);
}

function about(value) {
  return value === null || value === undefined ? '–' : value ? '≈ ' + WHOLE.format(value) : '0';
}

/** A figure of a summary, with three digits. */
function brief(value) {
  if (value < 10_000) return count(value);
  for (const [unit, name] of [
    [1e12, ' T'],
    [1e9, ' G'],
    [1e6, ' M'],
    [1e3, ' k'],
  ]) {
    if (value >= unit * 0.9995) return THREE.format(value / unit) + name;
  }
  return count(value);
}

/** A share in percent. Neither all nor nothing is reached by rounding. */
function percent(share) {
  if (share === null || share === undefined) return '–';
  if (share === 0) return '0 %';
  if (share === 1) return '100 %';
  if (share > 0 && share < 0.001) return '< 0.1 %';
  if (share < 1 && share > 0.999) return '> 99.9 %';
  return TENTH.format(share * 100) + ' %';
}

function plural(number, one, more) {
  return count(number) + ' ' + (number === 1 ? one : more || one + 's');
}

/** Milliseconds since 1970 of a time of the report, which is a number of microseconds or a text. */
function instant(time) {
  if (time === null || time === undefined) return null;
  const instant = typeof time === 'number' ? time / 1000 : Date.parse(time);
  return Number.isFinite(instant) && Math.abs(instant) <= 8.64e15 ? instant : null;
}

function utc(ms, length) {
  return new Date(ms)
    .toISOString()
    .slice(0, length || 19)
    .replace('T', ' ');
}

/** A time in UTC, with the reader's local time in the title. */
function when(time, length) {
  const ms = instant(time);
  if (ms === null) return el('span', { class: 'none', title: 'unknown' }, '–');
  return el(
    'time',
    { datetime: new Date(ms).toISOString(), title: utc(ms) + ' UTC\n' + local(ms) },
    utc(ms, length || 16),
  );
}

/** The same time where the reader is. */
function local(ms) {
  return new Date(ms).toLocaleString([], { dateStyle: 'full', timeStyle: 'long' });
}

const SPANS = [
  [31_557_600, 'year'],
  [2_629_800, 'month'],
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
];

/** How long something is, in its largest unit and one more figure where that is small. */
function lasting(ms) {
  const seconds = Math.max(0, ms / 1000);
  const [unit, name] = SPANS.find(([size]) => seconds >= size) || SPANS[SPANS.length - 1];
  const number = seconds / unit;
  const shown = number < 10 ? Math.round(number * 10) / 10 : Math.round(number);
  return TENTH.format(shown) + ' ' + name + (shown === 1 ? '' : 's');
}

/* The one tooltip. It follows what is pointed at or has the focus, and stays inside the window. */
function showTip(content, x, y) {
  const tip = document.getElementById('tip');
  tip.replaceChildren(...[content].flat());
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth - 8 ? x - 14 - box.width : x + 14;
  const top = y + 14 + box.height > innerHeight - 8 ? y - 14 - box.height : y + 14;
  tip.style.left = Math.max(8, left) + 'px';
  tip.style.top = Math.max(8, top) + 'px';
}

function hideTip() {
  document.getElementById('tip').hidden = true;
}

/** Rows of a tooltip: a swatch's class, a word, a figure. */
function tipRows(rows) {
  return el(
    'table',
    {},
    rows.map(([swatch, label, value]) =>
      el(
        'tr',
        {},
        el('td', {}, swatch ? el('span', { class: 'swatch ' + swatch }) : null),
        el('th', { scope: 'row' }, label),
        el('td', { class: 'figure' }, value),
      ),
    ),
  );
}
