/* Texts that other programs read: a command for a shell, statements of the language of .bindings files. */

const PLAIN_WORD = /^[A-Za-z0-9_./:=@%+,-]+$/;
const BARE_NAME = /^[\p{L}_](?:[\p{L}\p{N}_.@$/+~%]|-(?!>))*$/u;
const SPECIAL = /["\\]|\{(?=[\p{L}_][\p{L}\p{N}_]*\})/gu; // a name in braces would be a variable
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const RESERVED = new Set(['exchange', 'queue', 'policy', 'expect', 'let', 'for', 'in', 'vhost', 'profile']);

/** A word of a command, quoted for a POSIX shell where it has to be. */
function shellWord(text) {
  return PLAIN_WORD.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

/** A name in the language; in quotes unless it needs none. */
function bareName(name) {
  return BARE_NAME.test(name) && !RESERVED.has(name) ? name : quoted(name);
}

function quoted(text) {
  const units = (character) => [...Array(character.length).keys()].map((at) => character.charCodeAt(at));
  const escape = (unit) => '\\u' + unit.toString(16).padStart(4, '0');
  const escaped = text.replace(SPECIAL, '\\$&');
  return '"' + escaped.replace(UNPRINTABLE, (character) => units(character).map(escape).join('')) + '"';
}

/** `NAME=VALUE` of --header and --property: a text as it is, unless it would be read as JSON. */
function fieldWord(name, value) {
  let text = JSON.stringify(value);
  if (typeof value === 'string') {
    try {
      JSON.parse(value);
    } catch {
      text = value;
    }
  }
  return name + '=' + text;
}

/** The command that explains a message, for the clipboard. */
function explainCommand(source, vhost, message, queue) {
  const words = ['hashstar', 'explain', '--topology', source];
  if (vhost !== null) words.push('--vhost', vhost);
  for (const [name, value] of Object.entries(message.headers || {})) words.push('--header', fieldWord(name, value));
  for (const [name, value] of Object.entries(message.properties || {})) words.push('--property', fieldWord(name, value));
  if (message.body) words.push('--body', message.body);
  if (queue) words.push('--queue', queue);
  if (message.exchange.startsWith('-') || message.routing_key.startsWith('-')) words.push('--');
  words.push(message.exchange, message.routing_key);
  return words.map((word) => shellWord(word)).join(' ');
}
