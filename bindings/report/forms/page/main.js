/* The page: its sections in order, the contents beside them, and the address of each. */

let leftOut = {}; // table -> number of its rows that this page lacks

const SECTIONS = [
  {
    id: 'gates',
    title: 'Gates',
    fill: gatesSection,
    tally: (report) => report.gates.filter((gate) => !gate.passed).length,
    word: 'failed',
  },
  {
    id: 'bindings',
    title: 'Bindings',
    fill: bindingsSection,
    tally: (report) => report.totals.bindings.states.dead,
    word: 'dead',
  },
  {
    id: 'unroutable',
    title: 'What no queue got',
    fill: unroutableSection,
    tally: (report) => sumBy(report.unroutable, 'messages'),
    word: 'messages',
  },
  { id: 'exchanges', title: 'Coverage by exchange', fill: exchangesSection },
  { id: 'traffic', title: 'Traffic over time', fill: trafficSection },
  {
    id: 'source',
    title: () => (sourceText ? 'The topology, line by line' : 'Bindings by exchange'),
    fill: listingSection,
  },
  { id: 'queues', title: 'Queues', fill: queuesSection },
  { id: 'partitions', title: 'Partition skew', fill: partitionsSection },
  {
    id: 'findings',
    title: 'Findings of the check',
    fill: findingsSection,
    tally: (report) => report.findings.filter((row) => row.severity === 'error').length,
    word: 'errors',
  },
  {
    id: 'verification',
    title: 'What the broker did',
    fill: verificationSection,
    tally: (report) => report.verification && report.verification.different,
    word: 'messages',
  },
  {
    id: 'comparison',
    title: 'What if',
    fill: comparisonSection,
    tally: (report) => report.comparison && report.comparison.totals.elsewhere,
    word: 'messages',
  },
  {
    id: 'trust',
    title: 'How far to trust this',
    fill: trustSection,
    tally: (report) => sumBy(report.audited.records.bad, 'records'),
    word: 'bad',
  },
];

const FLOW = { id: 'flow', title: 'Flow', fill: (report) => flowPicture(report) };

function trafficSection(report) {
  const line = report.timeline;
  if (!line || !line.exchanges.length) return el('p', { class: 'none' }, 'No message has a time.');
  const size = line.slot_seconds * 1000;
  const start = Math.floor(instant(line.start) / size) * size; // it is later where the slot begins before the year 1
  const at = Object.fromEntries(line.columns.map((name, index) => [name, index]));
  const cells = [];
  for (const row of line.exchanges) {
    for (const counts of row.counts) {
      const ms = start + counts[at.slot] * size;
      for (const [name, routed] of [
        ['routed', true],
        ['unroutable', false],
        ['undecided', null],
      ]) {
        if (counts[at[name]]) cells.push({ ms, exchange: row.exchange, routed, messages: counts[at[name]] });
      }
    }
  }
  return timeline(cells, size, start);
}

/* The address: #section, and for the bindings what is searched, so that a view can be sent to someone. */
function addressed() {
  const [id, query] = location.hash.slice(1).split('?');
  const parameters = new URLSearchParams(query || '');
  return { id, show: parameters.get('show') || 'all', find: parameters.get('find') || '' };
}

let settled = false;

function remember(id, state) {
  if (!settled) return;
  const query = new URLSearchParams();
  if (state.show !== 'all') query.set('show', state.show);
  if (state.find) query.set('find', state.find);
  try {
    history.replaceState(null, '', '#' + id + (String(query) ? '?' + query : ''));
  } catch {
    /* some browsers forbid it for files: then the address stays */
  }
}

function go() {
  const asked = addressed();
  const place = /^([Lgb])(\d+)$/.exec(asked.id);
  if (place) {
    const [, kind, number] = place;
    const table = document.getElementById(kind === 'b' ? 'table-bindings' : 'table-source');
    if (table) (kind === 'L' ? table.toLine : table.toBinding)(Number(number));
    return;
  }
  const table = document.getElementById('table-' + asked.id);
  if (table && table.show && location.hash.includes('?')) table.show(asked.show, asked.find);
  const section = document.getElementById(asked.id);
  if (section) section.scrollIntoView();
}

function sectionOf(report, part, begin) {
  let content;
  try {
    content = part.fill(report, begin);
  } catch (error) {
    failed(error);
    content = el('p', { class: 'notice' }, 'This part could not be drawn: ' + error.message);
  }
  if (content === null) return null;
  return el(
    'section',
    { id: part.id, 'aria-labelledby': part.id + '-title' },
    el(
      'header',
      {},
      el(
        'h2',
        { id: part.id + '-title' },
        titleOf(part),
        ' ',
        el('a', { class: 'anchor', href: '#' + part.id, 'aria-label': 'Link to ' + titleOf(part) }, '#'),
      ),
    ),
    content,
  );
}

function titleOf(part) {
  return typeof part.title === 'function' ? part.title() : part.title;
}

function failed(error) {
  document.documentElement.dataset.errors = [
    document.documentElement.dataset.errors,
    String((error && error.stack) || error),
  ]
    .filter(Boolean)
    .join('\n');
}

function contents(report, shown) {
  return el(
    'ol',
    {},
    el('li', {}, el('a', { href: '#main' }, 'Summary and flow')),
    shown.map((part) => {
      const number = part.tally ? part.tally(report) : 0;
      return el(
        'li',
        {},
        el(
          'a',
          { href: '#' + part.id },
          titleOf(part),
          number ? el('span', { class: 'tally bad', title: count(number) + ' ' + part.word }, brief(number)) : null,
        ),
      );
    }),
  );
}

/* The entry of the section that is being read. */
function watch(nav) {
  const links = new Map([...nav.querySelectorAll('a')].map((link) => [link.hash.slice(1), link]));
  const look = () => {
    let here = 'main';
    for (const section of document.querySelectorAll('main > section'))
      if (section.getBoundingClientRect().top < 140) here = section.id;
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 4 && scrollY > 0)
      here = [...document.querySelectorAll('main > section')].pop().id;
    links.forEach((link, id) => {
      if (id === here) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    });
  };
  addEventListener('scroll', look, { passive: true });
  look();
}

function main() {
  addEventListener('error', (event) => failed(event.error || event.message));
  addEventListener('scroll', hideTip, { passive: true });
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hideTip();
  });
  try {
    const { report, left_out: cut, conditions, text } = readReport();
    leftOut = cut || {};
    written = conditions || {};
    sourceText = text || null;
    const asked = addressed();
    const page = document.getElementById('main');
    page.replaceChildren(summary(report), el('div', { class: 'first' }, headline(report), sectionOf(report, FLOW, {})));
    const shown = SECTIONS.filter((part) => {
      const section = sectionOf(report, part, asked.id === part.id ? { show: asked.show, find: asked.find } : {});
      if (section) page.append(section);
      return section;
    });
    page.append(
      el(
        'footer',
        {},
        'Made by hashstar. Times are UTC; hold the pointer over one for yours. The report itself lies in this page as JSON, in the element ',
        el('code', {}, 'script#report'),
        '.',
      ),
    );
    const nav = document.getElementById('contents');
    nav.append(contents(report, shown));
    watch(nav);
    if (asked.id) go();
    addEventListener('hashchange', go);
    settled = true;
    document.documentElement.dataset.state = 'ready';
  } catch (error) {
    failed(error);
    document.documentElement.dataset.state = 'failed';
    document
      .getElementById('main')
      .append(el('p', { class: 'notice' }, 'This page could not be drawn: ' + error.message));
  }
}

main();
