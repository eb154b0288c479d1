/* The form of the message, and the message that it stands for. */

const byId = (id) => document.getElementById(id);
const MESSAGE_FIELDS = ['exchange', 'key', 'headers', 'properties', 'body'];

function fillForm() {
  for (const name of MESSAGE_FIELDS) if (byId(name).value !== state[name]) byId(name).value = state[name];
  if (state.headers || state.properties || state.body) byId('more').open = true;
  currentMessage();
}

function readForm() {
  for (const name of MESSAGE_FIELDS) state[name] = byId(name).value;
}

/** The message as the server takes it; null if the headers or properties are no JSON, which their field then shows. */
function currentMessage() {
  const message = { exchange: state.exchange, routing_key: state.key };
  let sound = true;
  for (const name of ['headers', 'properties']) {
    const fault = readObject(state[name], (value) => (message[name] = value));
    byId(name).setCustomValidity(fault);
    byId(name).title = fault;
    byId(name).setAttribute('aria-invalid', String(fault !== ''));
    sound = sound && fault === '';
  }
  if (state.body) message.body = state.body;
  return sound ? message : null;
}

/** Gives the object that a text is to a function; returns why it is none, or ''. */
function readObject(text, take) {
  if (!text.trim()) return '';
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return 'an object is wanted: {"name": value}';
    take(value);
    return '';
  } catch (error) {
    return error.message;
  }
}

/** Put a message into the form, as a witness or a nearest message is. */
function useMessage(message) {
  state.exchange = message.exchange;
  state.key = message.routing_key;
  const text = (fields) => (fields && Object.keys(fields).length ? JSON.stringify(fields) : '');
  state.headers = text(message.headers);
  state.properties = text(message.properties);
  if (typeof message.body === 'string') state.body = message.body;
  fillForm();
  changed('message');
}

/** A button that puts a message into the form; it shows the key, and the headers where there are some. */
function messageButton(message, label) {
  const headers = message.headers && Object.keys(message.headers).length ? JSON.stringify(message.headers) : null;
  const shown = [keyed(message.routing_key, 80), headers ? [' ', el('code', { class: 'soft' }, shortened(headers, 80))] : null];
  return el(
    'button',
    { type: 'button', class: 'key-button', title: 'Ask about this message', onclick: () => useMessage(message) },
    label ? label + ' ' : null,
    shown,
  );
}
