/*
 * A table that stays quick however long it is: only one page of its rows is in the document. Rows are numbers, 0 to
 * `length`, and columns say what a row has; an order is an array of numbers, so sorting and searching touch no element.
 *
 * column: { id, label, title?, value(row) for sorting, cell(row) -> what is shown, figure?: right aligned, first?: 'up',
 *   low?: 1 or 2, left out where there is no room for it, 1 first: the details have it too }
 * filter: { id, label, test(row), all?: with the rows that the page lacks }     detail(row) -> what a row unfolds to
 * opens(row): whether a row unfolds; all do without it     look(row): class of a row     unsorted: rows keep their order
 */

const SIZES = [25, 50, 100, 500, 2_000];

function makeTable(options) {
  const { id, length, columns, caption } = options;
  const state = Object.assign(
    { sort: null, down: true, find: '', show: 'all', page: 0, size: options.size || 25 },
    options.begin,
  );
  const open = new Set();
  let target = null; // the row that an address leads to
  let order = [];
  let haystack = null;

  const body = el('tbody');
  const heads = columns.map((column) => {
    const kind = { scope: 'col', class: kindOf(column) };
    if (options.unsorted) return el('th', { ...kind, title: column.title }, column.label);
    const button = el('button', { type: 'button', title: column.title, onclick: () => sortBy(column) }, column.label);
    return el('th', kind, button);
  });
  const head = el(
    'tr',
    {},
    options.detail ? el('th', { class: 'opens' }, el('span', { class: 'unseen' }, 'Details')) : null,
    heads,
  );
  const status = el('p', { class: 'status', role: 'status' });
  const table = el(
    'table',
    { class: options.unsorted ? 'rows unsorted' : 'rows' },
    el('caption', { class: 'unseen' }, caption),
    el('thead', {}, head),
    body,
  );
  const search = el('input', {
    type: 'search',
    placeholder: options.prompt || 'Search',
    'aria-label': 'Search ' + caption,
    spellcheck: 'false',
    autocomplete: 'off',
    oninput: () => {
      state.find = search.value;
      state.page = 0;
      soon();
    },
  });
  const chips = (options.filters || []).map((filter) =>
    el(
      'button',
      {
        type: 'button',
        class: 'chip',
        'data-filter': filter.id,
        title: filter.title,
        onclick: () => {
          state.show = state.show === filter.id ? 'all' : filter.id;
          state.page = 0;
          select();
        },
      },
      filter.label,
      ' ',
      el('span', { class: 'tally' }, tallyOf(filter)),
    ),
  );
  const pages = el('div', { class: 'pages' });
  const missing = leftOut[id] || 0;
  const explained = columns.some((column) => column.title)
    ? [pairs(columns.filter((column) => column.title).map((column) => [column.label.toLowerCase(), column.title]))]
    : [];
  const bar = el('div', { class: 'bar' }, length > 8 ? search : null, chips, options.tools, status);
  const all = el(
    'div',
    { class: 'table', id: 'table-' + id },
    length > 8 || chips.length ? bar : null,
    missing
      ? el(
          'p',
          { class: 'note left-out' },
          `This page has ${count(length)} of ${count(length + missing)} ${caption}, `,
          options.foremost || 'those with the most messages and those without any before others',
          '; search, order and counts are of these alone. All are in Parquet: ',
          el('code', {}, '--tables'),
          '.',
        )
      : null,
    table,
    pages,
    explained.length ? el('details', { class: 'note' }, el('summary', {}, 'What the columns mean'), explained) : null,
  );

  function kindOf(column) {
    const kind = [column.figure ? 'figure' : null, column.class, column.low ? 'low' + column.low : null];
    return kind.filter(Boolean).join(' ') || null;
  }

  function tallyOf(filter) {
    if (filter.tally) return count(filter.tally());
    let matches = 0;
    for (let row = 0; row < length; row += 1) if (filter.test(row)) matches += 1;
    return filter.all > matches ? count(matches) + ' of ' + count(filter.all) : count(matches);
  }

  function sortBy(column) {
    if (state.sort === column.id) state.down = !state.down;
    else {
      state.sort = column.id;
      state.down = column.figure || column.first === 'down';
    }
    state.page = 0;
    select();
  }

  let waiting = false;
  function soon() {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      select();
    }, 60);
  }

  /* All words of the search have to be somewhere in a row. */
  function select() {
    const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    const filter = (options.filters || []).find((each) => each.id === state.show);
    if (words.length && !haystack) {
      haystack = new Array(length);
      for (let row = 0; row < length; row += 1) haystack[row] = options.text(row).toLowerCase();
    }
    const rows = [];
    for (let row = 0; row < length; row += 1) {
      if (filter && !filter.test(row)) continue;
      if (words.length && !words.every((word) => haystack[row].includes(word))) continue;
      rows.push(row);
    }
    order = sort(rows);
    fill();
    if (options.changed) options.changed(state);
  }

  function sort(rows) {
    const column = columns.find((each) => each.id === state.sort);
    if (!column) return rows;
    const values = new Array(length);
    for (const row of rows) values[row] = column.value(row);
    const way = state.down ? -1 : 1;
    return rows.sort((one, other) => {
      const a = values[one];
      const b = values[other];
      if (a === b) return one - other;
      if (a === null || a === undefined) return 1; // what is unknown comes last, either way
      if (b === null || b === undefined) return -1;
      return a < b ? -way : way;
    });
  }

  function fill() {
    const last = Math.max(0, Math.ceil(order.length / state.size) - 1);
    state.page = Math.min(Math.max(0, state.page), last);
    const rows = order.slice(state.page * state.size, (state.page + 1) * state.size);
    body.replaceChildren(...rows.flatMap(rowOf));
    if (!rows.length) {
      const width = columns.length + (options.detail ? 1 : 0);
      body.append(
        el(
          'tr',
          { class: 'empty' },
          el('td', { colspan: width }, length ? 'Nothing here matches.' : options.none || 'None.'),
        ),
      );
    }
    status.textContent =
      (order.length === length ? plural(length, 'row') : count(order.length) + ' of ' + plural(length, 'row')) +
      (missing ? '; ' + count(missing) + ' more are not in this page' : '');
    heads.forEach((th, at) => {
      const on = columns[at].id === state.sort;
      if (on) th.setAttribute('aria-sort', state.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    chips.forEach((chip) => chip.setAttribute('aria-pressed', String(chip.dataset.filter === state.show)));
    turn(last);
    fit();
  }

  function rowOf(row) {
    const cells = columns.map((column) => el('td', { class: kindOf(column) }, column.cell(row)));
    const look = options.look ? options.look(row) : '';
    const marked = row === target ? ' target' : '';
    if (!options.detail) return [el('tr', { class: look + marked || null, 'data-row': row }, cells)];
    if (options.opens && !options.opens(row))
      return [el('tr', { class: look + marked || null, 'data-row': row }, el('td', { class: 'opens' }), cells)];
    const button = el('button', {
      type: 'button',
      class: 'opener',
      'aria-expanded': String(open.has(row)),
      'aria-label': 'Details',
    });
    const line = el(
      'tr',
      { class: 'can-open ' + look + marked, 'data-row': row },
      el('td', { class: 'opens' }, button),
      cells,
    );
    const lines = [line];
    let unfolded = null;
    const toggle = () => {
      if (unfolded) {
        unfolded.remove();
        unfolded = null;
        open.delete(row);
      } else {
        unfolded = detailOf(row);
        line.after(unfolded);
        open.add(row);
      }
      button.setAttribute('aria-expanded', String(Boolean(unfolded)));
      fit();
    };
    line.addEventListener('click', (event) => {
      if (event.target.closest('a') || String(getSelection())) return; // a click that selected text is no click
      toggle();
    });
    if (open.has(row)) {
      unfolded = detailOf(row);
      lines.push(unfolded);
    }
    return lines;
  }

  function detailOf(row) {
    return el('tr', { class: 'detail' }, el('td', { colspan: columns.length + 1 }, options.detail(row)));
  }

  function turn(last) {
    if (length <= Math.max(SIZES[0], options.size || 0) && state.size >= order.length) {
      pages.replaceChildren();
      return;
    }
    const to = (page, label, words, off) =>
      el(
        'button',
        {
          type: 'button',
          'aria-label': words,
          disabled: off,
          onclick: () => {
            state.page = page;
            fill();
            all.scrollIntoView({ block: 'nearest' });
          },
        },
        label,
      );
    const sizes = el(
      'select',
      {
        'aria-label': 'Rows on a page',
        onchange: (event) => {
          state.size = Number(event.target.value);
          state.page = 0;
          fill();
        },
      },
      SIZES.map((size) => el('option', { value: size, selected: size === state.size }, size + ' rows')),
    );
    const from = state.page * state.size;
    pages.replaceChildren(
      to(0, '«', 'First page', state.page === 0),
      to(state.page - 1, '‹', 'Page before', state.page === 0),
      el(
        'span',
        {},
        order.length
          ? count(from + 1) + '–' + count(Math.min(order.length, from + state.size)) + ' of ' + count(order.length)
          : '0 of 0',
      ),
      to(state.page + 1, '›', 'Next page', state.page >= last),
      to(last, '»', 'Last page', state.page >= last),
      sizes,
    );
  }

  all.show = (filter, find) => {
    state.show = filter || 'all';
    state.find = find || '';
    search.value = state.find;
    state.page = 0;
    select();
  };
  /* Turn to a row, mark it, and unfold it if asked to. What hides it is taken back. */
  all.reveal = (row, unfold) => {
    if (!order.includes(row)) {
      state.show = 'all';
      state.find = search.value = '';
      order = sort(Array.from({ length }, (_, at) => at));
    }
    target = row;
    if (unfold && options.detail) open.add(row);
    state.page = Math.floor(order.indexOf(row) / state.size);
    fill();
    const line = body.querySelector(`tr[data-row="${row}"]`);
    if (!line) return;
    line.scrollIntoView({ block: 'center' });
    line.tabIndex = -1;
    line.focus({ preventScroll: true });
  };
  /* Nothing is cut: columns that matter less go first, then figures and short names may break. */
  function fit() {
    table.classList.remove(...FITS);
    for (const each of FITS) {
      if (table.offsetWidth <= all.clientWidth) break;
      table.classList.add(each);
    }
  }

  whenSized(all, fit);
  search.value = state.find;
  select();
  return all;
}

const FITS = ['without-low1', 'without-low2', 'breaking'];
