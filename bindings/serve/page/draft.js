/* What if: edits that change the topology for this page alone, and a text to try instead of the file. */

let draft = null; // id of the draft at the server; null where the topology is as it was read
let editFault = null;
let fileText = null; // the text of the file, once it was asked for
let textTimer = null;

/** What each question is about: the virtual host, and the draft if there is one. */
function subject() {
  return { ...(state.vhost === null ? {} : { vhost: state.vhost }), ...(draft === null ? {} : { draft }) };
}

function hasDraft() {
  return state.edits.length > 0 || state.text !== null;
}

/** Make the draft at the server, if there is one; on a fault keep the last good draft and show what is wrong. */
async function makeDraft() {
  editFault = null;
  if (!hasDraft()) {
    draft = null;
    return;
  }
  try {
    const fields = { edits: state.edits, ...(state.text === null ? {} : { text: state.text }), ...(state.vhost === null ? {} : { vhost: state.vhost }) };
    draft = (await ask('draft', fields)).draft;
  } catch (error) {
    editFault = error;
  }
}

function addEdit(statement) {
  state.edits.push(statement);
  changed('draft');
}

/** Put the beginning of a statement into the form of edits. */
function beginEdit(text) {
  const field = byId('edit');
  byId('draft').querySelector('details').open = true;
  field.value = '+ ' + text;
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}

function showDraft() {
  const place = byId('draft');
  const typed = byId('edit') ? byId('edit').value : '';
  const isOpen = hasDraft() || (byId('edit') && place.querySelector('details').open);
  document.body.classList.toggle('drafting', hasDraft());
  place.replaceChildren(
    el('h2', {}, 'What if'),
    el(
      'details',
      { open: Boolean(isOpen) },
      el('summary', {}, hasDraft() ? 'A draft is shown. The file is not changed.' : 'Try a change without touching the file'),
      state.edits.length ? el('ul', { class: 'rows edits' }, state.edits.map((edit, at) => editItem(edit, at))) : null,
      editForm(typed),
      editFault ? faultOf((editFault.detail.line ? 'line ' + editFault.detail.line + ': ' : '') + editFault.message, { id: 'edit-fault' }) : null,
      state.text === null
        ? el('p', { class: 'actions' }, el('button', { type: 'button', class: 'plain', id: 'edit-text', onclick: () => openText() }, 'Edit the text'))
        : textEditor(),
      hasDraft()
        ? el(
            'p',
            { class: 'actions' },
            state.edits.length ? copyButton('Copy edits', () => state.edits.join('\n')) : null,
            el('button', { type: 'button', class: 'plain', id: 'discard', onclick: () => discardDraft() }, 'Discard the draft'),
          )
        : null,
      el('div', { id: 'meaning' }),
    ),
  );
  if (hasDraft() && !editFault) showMeaning(byId('meaning'));
}

function editItem(edit, at) {
  const isWrong = editFault && editFault.detail.edit === at;
  return el(
    'li',
    { class: 'change ' + (edit.startsWith('+') ? 'plus' : 'minus') + (isWrong ? ' wrong' : '') },
    el('span', { class: 'sign' }, edit.slice(0, 1)),
    el('div', {}, el('code', {}, edit.slice(1).trim())),
    el('button', { type: 'button', class: 'plain close', 'aria-label': 'Take back', onclick: () => takeBack(at) }, '×'),
  );
}

function takeBack(at) {
  state.edits.splice(at, 1);
  changed('draft');
}

function discardDraft() {
  state.edits = [];
  state.text = null;
  changed('draft');
}

function editForm(typed) {
  const field = el('input', { id: 'edit', spellcheck: 'false', placeholder: '+ orders -> billing: "order.#"', 'aria-label': 'An edit: + or -, and a statement of the language of .bindings files' });
  field.value = typed;
  const add = () => {
    const text = field.value.trim();
    if (!text) return;
    field.value = '';
    addEdit(/^[+-]/.test(text) ? text : '+ ' + text);
  };
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') add();
  });
  return el('div', { class: 'edit-form' }, field, el('button', { type: 'button', class: 'plain', onclick: add }, 'Try it'));
}

async function openText() {
  try {
    fileText = (await ask('text', {})).text;
    state.text = fileText;
    changed('draft');
  } catch (error) {
    byId('edit-text').after(faultText(error));
  }
}

/* The editor outlives the panel around it, so that typing goes on while the panel is made anew. */
let editor = null;

function textEditor() {
  if (!editor) {
    editor = el('textarea', { id: 'text', rows: 16, spellcheck: 'false', wrap: 'off', 'aria-label': 'Text to try instead of the file' });
    editor.addEventListener('input', () => {
      clearTimeout(textTimer);
      textTimer = setTimeout(() => {
        state.text = editor.value;
        changed('draft');
      }, 350);
    });
  }
  if (editor.value !== state.text && document.activeElement !== editor) editor.value = state.text;
  return editor;
}
