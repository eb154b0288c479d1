/* The server reads the file again when it changes: the page asks for its version, and shows what is wrong with it. */

const LOOK_EVERY = 1000; // milliseconds
let source = null; // the last answer to the question "source"

async function look() {
  let answer;
  try {
    answer = await send('source');
  } catch (error) {
    showState(error.message, true);
    return;
  }
  const isNew = !source || answer.version !== source.version;
  source = answer;
  showSource();
  if (isNew) await changed('topology');
}

function showSource() {
  byId('source').replaceChildren(named(fileName(source.source), 60));
  byId('source').title = source.source;
  document.title = fileName(source.source) + ' – hashstar';
  const notice = byId('notice');
  notice.hidden = !source.fault;
  notice.replaceChildren(
    ...(source.fault
      ? [el('strong', {}, source.fault.line ? 'Line ' + source.fault.line + ' of the file is wrong.' : 'The file cannot be read.'), ' The last good topology is shown.', linesOf(source.fault.message)]
      : []),
  );
  const at = new Date(source.read * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  showState((source.watched ? 'read at ' : 'read once, at ') + at, false);
  if (!source.watched && /^https?:/.test(source.source)) byId('state').append(' ', el('button', { type: 'button', class: 'plain', onclick: () => readAgain() }, 'Read again'));
  showVhosts();
}

function showVhosts() {
  byId('vhosts').hidden = source.vhosts.length < 2;
  const shown = JSON.stringify(source.vhosts);
  const choice = byId('vhost');
  if (choice.dataset.shown !== shown) {
    choice.dataset.shown = shown;
    choice.replaceChildren(...source.vhosts.map((name) => el('option', { value: name }, nameText(name, 60))));
  }
  choice.value = state.vhost === null ? source.vhost : state.vhost;
}

function showState(text, isBad) {
  byId('state').replaceChildren(text);
  byId('state').classList.toggle('fault', isBad);
}

async function readAgain() {
  try {
    await ask('read-again');
  } catch (error) {
    showState(error.message, true);
    return;
  }
  await look();
}
