/* Questions to the server. Each is a POST with a JSON object; docs/serve.md describes them. */

const TOKEN = new URLSearchParams(location.search).get('token') || '';

/** An answer that is an error: `status` is HTTP's, `detail` has the message and where it is. */
class Refused extends Error {
  constructor(status, detail) {
    super(detail.message);
    this.status = status;
    this.detail = detail;
  }
}

let asked = 0; // questions without an answer yet

/** Note that a question was asked (+1) or is done with (-1). `data-state` of the page is ready while there is none. */
function noteAsked(step) {
  asked += step;
  if (asked) document.documentElement.dataset.state = 'busy';
  // An answer may lead to the next question, which is asked before the timer ends.
  else setTimeout(() => !asked && (document.documentElement.dataset.state = 'ready'), 0);
}

async function ask(question, fields, signal) {
  noteAsked(1);
  try {
    return await send(question, fields, signal);
  } finally {
    noteAsked(-1);
  }
}

async function send(question, fields, signal) {
  const headers = { 'Content-Type': 'application/json', 'X-Hashstar-Token': TOKEN };
  let answer;
  let text;
  try {
    answer = await fetch('api/' + question, { method: 'POST', headers, body: JSON.stringify(fields || {}), signal });
    text = await answer.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, { message: 'hashstar serve does not answer' });
  }
  // What is refused before it is read, such as a text that is too long, is answered in plain words.
  const value = answer.headers.get('Content-Type') === 'application/json' ? JSON.parse(text) : { error: { message: text.trim() } };
  if (!answer.ok) throw new Refused(answer.status, value.error);
  return value;
}

/* Asks one sort of question: a newer one ends the older, whose promise then never settles. */
function asker(question) {
  let running = null;
  return async (fields) => {
    if (running) running.abort();
    const mine = (running = new AbortController());
    try {
      const value = await ask(question, fields, mine.signal);
      return mine.signal.aborted ? new Promise(() => {}) : value;
    } catch (error) {
      if (mine.signal.aborted) return new Promise(() => {});
      throw error;
    }
  };
}
