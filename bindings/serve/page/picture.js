/* The picture: loaded as SVG, scaled, moved through with the keyboard. What it shows lights up in light.js. */

const SCALES = [0.4, 0.55, 0.7, 0.85, 1, 1.2, 1.5, 2];
const READABLE = 0.85; // names have 11 pixels at 1
const style = new CSSStyleSheet();
let shown = null; // the picture: svg, nodes and edges with their elements, left_out
let scale = null; // null: as wide as there is room, but not below what can be read
let isWhole = false; // whether all of the width is to be seen, readable or not

const askPicture = asker('picture');

/** Load the picture around some parts, and return it. */
async function loadPicture(fields) {
  const answer = await askPicture(fields);
  const svg = document.adoptNode(new DOMParser().parseFromString(answer.svg, 'image/svg+xml').documentElement);
  // The policy of the page allows no style in the document but its own files. A style sheet made by a script is allowed.
  // Its rules are nested, so that they hold within the picture only.
  style.replaceSync('#picture {' + answer.style + '}');
  document.adoptedStyleSheets = [style];
  // The groups of nodes and edges stand in the order of the drawing.
  const root = svg.querySelector('#drawing');
  const groups = [...root.querySelectorAll('.node')];
  const lines = [...root.querySelectorAll('.edge')];
  const nodes = answer.nodes.map((node, at) => ({ ...node, element: groups[at] }));
  const edges = answer.edges.map((edge, at) => ({ ...edge, element: lines[at] }));
  shown = { ...answer, svg, nodes, edges, width: Number(svg.getAttribute('width')), height: Number(svg.getAttribute('height')) };
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-label', 'Exchanges, bindings and queues');
  for (const node of nodes) dressNode(node);
  for (const edge of edges) dressEdge(edge);
  const total = nodes.length + answer.left_out;
  byId('extent').textContent = answer.left_out ? nodes.length + ' of ' + count(total) + ' exchanges and queues' : plural(total, 'exchange or queue', 'exchanges and queues');
  byId('picture').replaceChildren(svg);
  cropPicture(root);
  applyScale();
  return shown;
}

const MARGIN = 14;

/** Leave out the heading and the legend, unless the reader wants to see them. */
function cropPicture(root) {
  const box = root.getBBox();
  const at = root.getCTM();
  const view = { x: at.e + box.x - MARGIN, y: at.f + box.y - MARGIN, width: box.width + 2 * MARGIN, height: box.height + 2 * MARGIN };
  shown.whole = { x: 0, y: 0, width: shown.width, height: shown.height };
  shown.drawing = view;
  showLegend();
}

function showLegend() {
  const view = byId('legend').getAttribute('aria-pressed') === 'true' ? shown.whole : shown.drawing;
  shown.svg.classList.toggle('cropped', view === shown.drawing);
  shown.svg.setAttribute('viewBox', [view.x, view.y, view.width, view.height].join(' '));
  shown.width = view.width;
  shown.height = view.height;
}

function toggleLegend() {
  byId('legend').setAttribute('aria-pressed', String(byId('legend').getAttribute('aria-pressed') !== 'true'));
  if (!shown) return;
  showLegend();
  applyScale();
}

function dressNode(node) {
  const { element } = node;
  element.dataset.kind = node.kind;
  element.dataset.name = node.name;
  element.setAttribute('tabindex', '-1');
  element.setAttribute('role', 'button');
  element.setAttribute('aria-label', node.kind + ' ' + nameText(node.name));
  element.addEventListener('click', () => select({ kind: node.kind, name: node.name }));
}

function dressEdge(edge) {
  const at = { source: edge.source, destination: { kind: edge.destination_type, name: edge.destination } };
  const { element } = edge;
  element.classList.toggle('is-dead', edge.dead);
  element.append(draw('path', { class: 'grip', d: element.querySelector('path').getAttribute('d') }));
  if (!edge.alternate && !edge.dead_letters) element.addEventListener('click', () => select(at));
}

function hasNode(part) {
  return shown.nodes.some((node) => node.kind === part.kind && node.name === part.name);
}

function applyScale() {
  if (!shown) return;
  const room = byId('picture');
  const least = isWhole ? 0.1 : READABLE;
  const wide = room.clientWidth / shown.width;
  const most = Math.min(SCALES.at(-1), Math.max(1, room.clientHeight / shown.height)); // a small picture fills the room
  const factor = scale === null ? Math.min(most, Math.max(least, wide)) : SCALES[scale];
  shown.svg.setAttribute('width', String(shown.width * factor));
  shown.svg.setAttribute('height', String(shown.height * factor));
  shown.factor = factor;
  byId('beyond').hidden = shown.width * factor <= room.clientWidth;
}

function zoom(step) {
  const at = scale === null ? SCALES.findIndex((each) => each >= (shown ? shown.factor : 1) - 0.01) : scale;
  scale = Math.min(SCALES.length - 1, Math.max(0, at + step));
  applyScale();
}

function fit() {
  scale = null;
  isWhole = true;
  applyScale();
}

/* One node is in the tab order; the arrow keys go to the nearest one in their direction. */
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function makeTabbable(node) {
  if (!shown) return;
  for (const each of shown.nodes) each.element.setAttribute('tabindex', each === node ? '0' : '-1');
}

function movePicture(event) {
  const node = shown && shown.nodes.find((each) => each.element === event.target.closest('.node'));
  if (!node) return;
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    select({ kind: node.kind, name: node.name });
  } else if (DIRECTIONS[event.key]) {
    event.preventDefault();
    const next = nearestNode(node, DIRECTIONS[event.key]);
    if (!next) return;
    makeTabbable(next);
    next.element.focus();
  }
}

function nearestNode(from, [x, y]) {
  const middle = (node) => {
    const box = node.element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [left, top] = middle(from);
  let best = null;
  let least = Infinity;
  for (const node of shown.nodes) {
    const [right, bottom] = middle(node);
    const ahead = (right - left) * x + (bottom - top) * y;
    const aside = Math.abs((right - left) * y) + Math.abs((bottom - top) * x);
    if (node !== from && ahead > 1 && ahead + 2 * aside < least) [best, least] = [node, ahead + 2 * aside];
  }
  return best;
}

/* Dragging moves the picture; a click without a move is a click. */
function dragPicture(place) {
  let start = null;
  place.addEventListener('pointerdown', (event) => {
    if (event.pointerType === 'mouse' && event.button === 0) start = [event.clientX + place.scrollLeft, event.clientY + place.scrollTop];
  });
  addEventListener('pointermove', (event) => {
    if (!start) return;
    place.scrollLeft = start[0] - event.clientX;
    place.scrollTop = start[1] - event.clientY;
  });
  addEventListener('pointerup', () => (start = null));
}
