/* The page: what changes, and what has to be asked and drawn again for it. */

const askRoute = asker('explain');
const askBefore = asker('explain');
const askMissed = asker('missed');
let route = null; // the route of the message, as `hashstar explain --json` has it

/*
 * Something has changed: 'topology' (the file), 'draft', 'message' or 'at' (what is looked at). Answers may come late:
 * each asker drops those to questions that are not asked any more.
 */
async function changed(what) {
  noteAddress();
  if (what === 'topology' || what === 'draft') {
    if (what === 'topology') draft = null; // that of the old file must not be shown if it cannot be made anew
    await makeDraft();
    shown = null;
    showDraft();
    if (!editFault || what === 'topology') {
      if (what === 'topology') await beginWith();
      loadFindings().then(() => showSelected());
      suggestExchanges();
    }
  }
  if (what !== 'at') await askAboutMessage();
  await drawPicture();
  await showSelected();
  noteAsked(0);
}

/** Without an exchange in the address, begin with the one that has most bindings. */
async function beginWith() {
  const topology = await ask('topology', subject());
  if (!state.isGiven) {
    state.isGiven = true;
    state.exchange = topology.first;
    fillForm();
  }
  const isPartial = topology.counted !== null && topology.counted < topology.bindings;
  byId('counted').textContent = isPartial ? '; the audit has ' + count(topology.counted) + ' of ' + plural(topology.bindings, 'binding') : '';
}

async function askAboutMessage() {
  const message = currentMessage();
  const place = byId('route');
  if (!message) return;
  try {
    const host = state.vhost === null ? {} : { vhost: state.vhost };
    const [now, before] = await Promise.all([
      askRoute({ ...subject(), message }),
      draft === null ? null : askBefore({ ...host, message }).catch(() => null),
    ]);
    const missed = now.unroutable ? await askMissed({ ...subject(), message }).catch(() => null) : null;
    route = now;
    showRoute(place, now, before);
    if (missed && missed.obstacles.length)
      place.querySelector('.outcome').after(el('ul', { class: 'obstacles' }, obstacleItems(missed.obstacles)));
  } catch (error) {
    if (error.status === 410 && draft !== null) {
      draft = null; // the server has forgotten it
      return changed('draft');
    }
    route = null;
    place.replaceChildren(faultOf(error.message));
    delete place.dataset.queues;
  }
}

/** Draw the picture if there is none, or if it lacks what the message passes or what is looked at. */
async function drawPicture() {
  const way = route ? [...route.hops.map((hop) => ({ kind: 'exchange', name: hop.exchange })), ...route.queues.map((name) => ({ kind: 'queue', name }))] : [];
  const at = !state.at ? [] : state.at.kind ? [state.at] : [{ kind: 'exchange', name: state.at.source }, state.at.destination];
  const focus = [...at, { kind: 'exchange', name: state.exchange }, ...way].slice(0, 200);
  const isMissing = shown && shown.left_out > 0 && [...at, ...way.slice(0, 50)].some((part) => part.name !== '' && !hasNode(part));
  if (!shown || isMissing) {
    try {
      await loadPicture({ ...subject(), focus });
      colourFindings();
    } catch (error) {
      byId('picture').replaceChildren(faultOf(error.message));
      return;
    }
  }
  light(route);
  mark(state.at);
  reveal();
}

function typed() {
  readForm();
  state.isGiven = true;
  changed('message');
}

function pageKeys(event) {
  const isTyping = event.target.closest('input, textarea, select');
  if (event.key === 'Escape') {
    if (isTyping) event.target.blur();
    else if (state.at) select(state.at);
  } else if (!isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const goal = { '/': 'find', k: 'key', e: 'exchange' }[event.key];
    if (!goal) return;
    event.preventDefault();
    byId(goal).focus();
    byId(goal).select();
  }
}

function start() {
  readAddress();
  fillForm();
  byId('message').addEventListener('submit', (event) => event.preventDefault());
  for (const name of MESSAGE_FIELDS) byId(name).addEventListener('input', typed);
  byId('exchange').addEventListener('input', suggestExchanges);
  byId('find').addEventListener('input', search);
  byId('find').addEventListener('keydown', searchKeys);
  byId('find').addEventListener('blur', closeSearch);
  byId('vhost').addEventListener('change', () => {
    Object.assign(state, { vhost: byId('vhost').value, isGiven: false, at: null, edits: [], text: null });
    fillForm();
    changed('topology');
  });
  byId('smaller').addEventListener('click', () => zoom(-1));
  byId('larger').addEventListener('click', () => zoom(1));
  byId('fit').addEventListener('click', fit);
  byId('legend').addEventListener('click', toggleLegend);
  byId('picture').addEventListener('keydown', movePicture);
  dragPicture(byId('picture'));
  byId('copy-link').addEventListener('click', (event) => copyText(linkOf(), event.target));
  byId('copy-command').addEventListener('click', (event) => {
    const message = currentMessage();
    const queue = state.at && state.at.kind === 'queue' ? state.at.name : null;
    const vhost = source && source.vhosts.length > 1 ? state.vhost || source.vhost : null;
    if (message && source) copyText(explainCommand(source.source, vhost, message, queue), event.target);
  });
  addEventListener('keydown', pageKeys);
  addEventListener('resize', () => scale === null && applyScale());
  addEventListener('hashchange', () => {
    readAddress();
    fillForm();
    changed('topology');
  });
  addEventListener('error', noteError);
  addEventListener('unhandledrejection', (event) => noteError({ message: String(event.reason) }));
  setInterval(() => document.visibilityState === 'visible' && look(), LOOK_EVERY);
  look();
}

/** Keep errors of the page itself where they can be seen. */
function noteError(event) {
  const root = document.documentElement;
  root.dataset.errors = (root.dataset.errors ? root.dataset.errors + '\n' : '') + event.message;
}

start();
