/* The findings of `hashstar check`: a list, colours in the picture, and beside what they are about. */

let findings = [];
const askFindings = asker('findings');
const SEVERITY = ['error', 'warning', 'note'];

async function loadFindings() {
  const place = byId('findings');
  try {
    const answer = await askFindings(subject());
    findings = answer.findings;
    place.replaceChildren(...findingsList(answer));
  } catch (error) {
    findings = [];
    place.replaceChildren(el('h2', {}, 'Findings'), el('p', { class: 'soft' }, error.message));
  }
  place.dataset.count = String(findings.length);
  colourFindings();
}

function findingsList(answer) {
  if (!findings.length) return [el('h2', {}, 'Findings'), el('p', { class: 'soft' }, 'hashstar check finds nothing')];
  const numbers = SEVERITY.map((severity) => [severity, findings.filter((each) => each.severity === severity).length]);
  const sorted = [...findings].sort((one, other) => SEVERITY.indexOf(one.severity) - SEVERITY.indexOf(other.severity));
  return [
    el('h2', {}, 'Findings'),
    el(
      'details',
      { open: findings.length <= 12 },
      el('summary', {}, numbers.filter(([, number]) => number).map(([severity, number]) => plural(number, severity)).join(', ')),
      el('ul', { class: 'rows' }, sorted.slice(0, 100).map((finding) => el('li', {}, findingText(finding, true)))),
      findings.length > 100 || answer.more ? el('p', { class: 'soft' }, 'and ', plural(findings.length - 100 + answer.more, 'more', 'more')) : null,
    ),
  ];
}

function findingText(finding, isLink) {
  const at = isLink ? partOf(finding) : null;
  const [first, ...others] = finding.message.split('\n');
  const head = [el('span', { class: 'severity ' + finding.severity }, finding.code), ' ', first];
  return el(
    'div',
    { class: 'finding', title: finding.says + '\nWay out: ' + finding.way_out },
    at ? el('button', { type: 'button', class: 'part', onclick: () => select(at) }, head) : head,
    others.length ? el('details', {}, el('summary', {}, 'Why'), linesOf(others.join('\n'))) : null,
  );
}

/** What a finding is about, as the page selects it. */
function partOf(finding) {
  const { part } = finding;
  if (!part) return null;
  if (part.kind === 'binding') return { source: part.source, destination: { kind: part.destination_type, name: part.destination } };
  return part.kind === 'policy' ? null : { kind: part.kind, name: part.name };
}

function findingsOf(row) {
  return findings.filter(
    ({ part }) =>
      part &&
      part.kind === 'binding' &&
      part.source === row.source &&
      part.destination_type === row.destination_type &&
      part.destination === row.destination &&
      part.routing_key === row.routing_key &&
      JSON.stringify(part.arguments) === JSON.stringify(row.arguments),
  );
}

function partFindings(at) {
  return findings.filter(({ part }) => part && part.kind === at.kind && part.name === at.name).map((finding) => findingText(finding));
}

/** Give nodes and edges of the picture the colour of their gravest finding. */
function colourFindings() {
  if (!shown) return;
  const gravest = new Map();
  for (const finding of [...findings].sort((one, other) => SEVERITY.indexOf(other.severity) - SEVERITY.indexOf(one.severity))) {
    const at = partOf(finding);
    if (at) gravest.set(JSON.stringify(at), finding.severity);
  }
  const colour = (element, at, alone) => {
    for (const severity of SEVERITY) element.classList.toggle(severity, gravest.get(JSON.stringify(at)) === severity || (alone && severity === 'error'));
  };
  for (const node of shown.nodes) colour(node.element, { kind: node.kind, name: node.name }, node.missing);
  for (const edge of shown.edges) {
    const at = { source: edge.source, destination: { kind: edge.destination_type, name: edge.destination } };
    if (!edge.alternate && !edge.dead_letters) colour(edge.element, at, false);
  }
}
