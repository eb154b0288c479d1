/* The search for exchanges and queues, and the names that the field of the exchange suggests. */

const askSearch = asker('search');
const askExchanges = asker('search');
let options = [];
let active = -1;

async function search() {
  const text = byId('find').value;
  if (!text.trim()) {
    closeSearch();
    return;
  }
  const answer = await askSearch({ ...subject(), text, most: 12 });
  options = answer.parts;
  active = options.length ? 0 : -1;
  byId('found').replaceChildren(
    ...(options.length ? options.map((part, at) => optionOf(part, at)) : [el('li', { class: 'soft' }, 'nothing has this in its name')]),
    ...(answer.more ? [el('li', { class: 'soft' }, 'and ', count(answer.more), ' more')] : []),
  );
  byId('found').hidden = false;
  byId('find').setAttribute('aria-expanded', 'true');
  markActive();
}

function optionOf(part, at) {
  const choose = (event) => {
    event.preventDefault();
    chooseOption(at);
  };
  return el('li', { role: 'option', id: 'option-' + at, onpointerdown: choose }, el('span', { class: 'part ' + part.kind }, named(part.name, 60)), el('span', { class: 'soft' }, ' ', part.kind, ', ', part.type));
}

function markActive() {
  for (const [at, item] of [...byId('found').querySelectorAll('[role=option]')].entries()) item.setAttribute('aria-selected', String(at === active));
  byId('find').setAttribute('aria-activedescendant', active < 0 ? '' : 'option-' + active);
}

function chooseOption(at) {
  const part = options[at];
  if (!part) return;
  byId('find').value = '';
  closeSearch();
  state.at = { kind: part.kind, name: part.name };
  changed('at');
}

function closeSearch() {
  byId('found').hidden = true;
  byId('find').setAttribute('aria-expanded', 'false');
  options = [];
}

function searchKeys(event) {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    active = Math.min(options.length - 1, Math.max(0, active + (event.key === 'ArrowDown' ? 1 : -1)));
    markActive();
  } else if (event.key === 'Enter') {
    event.preventDefault();
    chooseOption(active);
  } else if (event.key === 'Escape') {
    byId('find').value = '';
    closeSearch();
  }
}

/** Fill the suggestions of the field of the exchange. */
async function suggestExchanges() {
  const answer = await askExchanges({ ...subject(), text: byId('exchange').value, kind: 'exchange', most: 50 });
  byId('exchanges').replaceChildren(...answer.parts.filter((part) => part.name).map((part) => el('option', { value: part.name }, part.type)));
}
