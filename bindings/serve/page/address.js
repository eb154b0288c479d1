/* What the page shows, as a fragment of its address: everybody who opens the same link sees the same. */

const state = {
  vhost: null, // null: the one that is shown first
  exchange: '',
  key: '',
  headers: '', // JSON as it was typed
  properties: '',
  body: '',
  at: null, // what is looked at: {kind, name}, or {source, destination} for the bindings between two
  edits: [], // statements with a sign before them
  isGiven: false, // whether the reader has chosen an exchange; else the page begins with one
  text: null, // a text instead of the file; not in the address, since it can be long
};

const FIELDS = ['vhost', 'exchange', 'key', 'headers', 'properties', 'body'];

let addressTimer = null;

/** Write the address soon: browsers limit how often a page may. */
function noteAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 300);
}

function writeAddress() {
  clearTimeout(addressTimer);
  const fields = new URLSearchParams();
  for (const name of FIELDS) if (state[name]) fields.set(name, state[name]);
  if (state.at) fields.set('at', JSON.stringify(state.at));
  for (const edit of state.edits) fields.append('edit', edit);
  const fragment = '#' + fields;
  if (fragment !== location.hash) history.replaceState(null, '', location.pathname + location.search + fragment);
}

function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  for (const name of FIELDS) state[name] = fields.get(name) || (name === 'vhost' ? null : '');
  state.isGiven = fields.has('exchange') || fields.has('key');
  state.edits = fields.getAll('edit');
  state.at = readPart(fields.get('at'));
}

/** The part that a text names; null for a text that a page did not write. */
function readPart(text) {
  try {
    const at = JSON.parse(text);
    if (isPart(at)) return at;
    return at && typeof at.source === 'string' && isPart(at.destination) ? at : null;
  } catch {
    return null;
  }
}

function isPart(at) {
  return at !== null && typeof at === 'object' && ['exchange', 'queue'].includes(at.kind) && typeof at.name === 'string';
}

function samePart(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The link to what the page shows now. */
function linkOf() {
  writeAddress();
  return location.href;
}
