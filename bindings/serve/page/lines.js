/* Texts of several lines: errors with a caret, explanations, plans. Each line enters the page as a text of its own. */

/** The lines of a text, as they are: white space counts. */
function linesOf(text) {
  return el('pre', {}, text.split('\n').map((line, at) => [at ? el('br') : null, line]));
}

/** An error: in one line if it has one, else with its lines below each other. */
function faultOf(message, properties) {
  const isLong = message.includes('\n');
  return el(isLong ? 'div' : 'p', { class: 'fault', ...properties }, isLong ? linesOf(message) : message);
}
