/*
 * Traffic over time: what was routed stands above the line, stacked by the exchange it was published to; what was lost
 * hangs below it, on the same scale. Reading by pointer, or by the arrow keys when the drawing has the focus.
 */

const FATES = [
  ['routed', true],
  ['lost', false],
  ['undecided', null],
];
const HUES = 7;

/** cells: { ms, exchange, routed, messages }, counted by slots of `size` ms, of which one begins at `start`. */
function timeline(cells, size, start) {
  const totals = new Map();
  for (const cell of cells) totals.set(cell.exchange, (totals.get(cell.exchange) || 0) + cell.messages);
  const ranked = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a) || (a < b ? -1 : 1));
  const apart = ranked.length > HUES + 1 ? HUES : ranked.length;
  const hueOf = new Map(ranked.map((name, at) => [name, at < apart ? at : HUES]));
  const names = ranked.slice(0, apart).map((name) => nameText(name, 40));
  if (apart < ranked.length) names.push(plural(ranked.length - apart, 'other exchange'));

  const { unit, slots } = slotsOf(
    [...new Set(cells.map((cell) => cell.ms))].sort((a, b) => a - b),
    size,
    start,
  );
  const bars = new Map(slots.filter((slot) => typeof slot === 'number').map((slot) => [slot, emptyBar(names.length)]));
  for (const cell of cells) {
    const bar = bars.get(slotOf(unit, cell.ms));
    const fate = FATES.find(([, routed]) => routed === cell.routed)[0];
    bar[fate][Math.min(hueOf.get(cell.exchange), names.length - 1)] += cell.messages;
    bar.all += cell.messages;
  }
  const legend = el(
    'ul',
    { class: 'legend' },
    names.map((name, at) =>
      el('li', {}, el('span', { class: 'swatch hue' + (at < apart ? at : HUES) }), el('bdi', {}, name)),
    ),
    [...bars.values()].some((bar) => total(bar.lost))
      ? el('li', {}, el('span', { class: 'swatch lost' }), 'no queue, below the line')
      : null,
    [...bars.values()].some((bar) => total(bar.undecided))
      ? el('li', {}, el('span', { class: 'swatch undecided' }), 'undecided')
      : null,
  );
  const holder = el('div', { class: 'chart' });
  const gaps = slots.filter((slot) => typeof slot !== 'number').length;
  const note = el(
    'p',
    { class: 'note' },
    'Each bar is ' +
      (/^\d/.test(unit.name) ? '' : 'one ') +
      unit.name +
      ', UTC. Point at one, or use the arrow keys, for its counts and your local time.',
    gaps
      ? ' ' + plural(gaps, 'long time') + ' without any message ' + (gaps === 1 ? 'is' : 'are') + ' cut out (//).'
      : null,
  );
  whenSized(holder, (width) => holder.replaceChildren(drawTimeline(width, slots, bars, unit, names, apart)));
  return el('div', {}, legend, holder, note);
}

function emptyBar(length) {
  const zeros = () => new Array(length).fill(0);
  return { routed: zeros(), lost: zeros(), undecided: zeros(), all: 0 };
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Draws as soon as the script has put the holder into the page, and again whenever the width changes. */
function whenSized(holder, paint) {
  let width = 0;
  const look = () => {
    const now = Math.round(holder.clientWidth);
    if (now && now !== width) {
      width = now;
      paint(now);
    }
  };
  new ResizeObserver(() => requestAnimationFrame(look)).observe(holder); // what it draws may change its size
  addEventListener('beforeprint', look);
  queueMicrotask(look);
}

function drawTimeline(width, slots, bars, unit, names, apart) {
  const high = 190;
  const values = [...bars.values()];
  const up = Math.max(0, ...values.map((bar) => total(bar.routed) + total(bar.undecided)));
  const down = Math.max(0, ...values.map((bar) => total(bar.lost)));
  const step = roundUp((up + down) / 4);
  const above = Math.ceil(up / step) * step || 0;
  const below = down && Math.max(down, above / 20);
  const left = 16 + 7 * brief(Math.max(above, below)).length;
  const k = high / (above + below || 1);
  const zero = 8 + above * k;
  const pitch = Math.min(40, (width - left - 10) / Math.max(1, slots.length));
  const picture = draw('svg', {
    class: 'timeline',
    width,
    height: high + 46,
    viewBox: `0 0 ${width} ${high + 46}`,
    tabindex: 0,
    role: 'img',
    'aria-label': `Messages by ${unit.name}: at most ${count(up)} routed and ${count(down)} that no queue got. Arrow keys read the values.`,
  });
  for (let value = -Math.floor(below / step) * step; value <= above; value += step) {
    const y = zero - value * k;
    picture.append(
      draw('line', { class: value ? 'grid' : 'axis', x1: left, x2: width - 6, y1: y, y2: y }),
      draw('text', { class: 'tick', x: left - 6, y: y + 4, 'text-anchor': 'end' }, brief(Math.abs(value))),
    );
  }
  const band = draw('rect', { class: 'band', y: 4, height: high + 8, width: pitch, visibility: 'hidden' });
  picture.append(band);
  slots.forEach((slot, at) => {
    const x = left + at * pitch;
    if (typeof slot !== 'number') {
      picture.append(draw('path', { class: 'gap', d: `M${x + pitch / 2 - 4} ${zero + 5} l4 -10 m4 0 l-4 10` }));
      return;
    }
    drawBar(picture, bars.get(slot), x, Math.max(1, pitch - (pitch > 4 ? 1 : 0)), zero, k, apart);
  });
  for (const { at, label, rest } of ticksOf(slots, unit, pitch)) {
    const x = left + at * pitch;
    if (x + 7 * Math.max(label.length, rest.length) > width) continue;
    picture.append(
      draw('line', { class: 'axis', x1: x, x2: x, y1: high + 12, y2: high + 18 }),
      draw('text', { class: 'tick', x, y: high + 30 }, label),
      rest ? draw('text', { class: 'tick', x, y: high + 43 }, rest) : '',
    );
  }
  let here = -1;
  const read = (at, x, y) => {
    here = Math.min(slots.length - 1, Math.max(0, at));
    band.setAttribute('x', left + here * pitch);
    band.setAttribute('visibility', 'visible');
    showTip(slotTip(slots[here], bars, unit, names, apart), x, y);
  };
  const leave = () => {
    band.setAttribute('visibility', 'hidden');
    hideTip();
    here = -1;
  };
  picture.addEventListener('pointermove', (event) => {
    const at = Math.floor((event.clientX - picture.getBoundingClientRect().left - left) / pitch);
    if (at < 0 || at >= slots.length) leave();
    else read(at, event.clientX, event.clientY);
  });
  picture.addEventListener('pointerleave', leave);
  picture.addEventListener('blur', leave);
  picture.addEventListener('keydown', (event) => {
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: slots.length - 1 }[event.key];
    if (event.key === 'Escape') leave();
    if (to === undefined) return;
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    read(to, box.left + left + to * pitch, box.top + 20);
  });
  return picture;
}

function drawBar(picture, bar, x, width, zero, k, apart) {
  let y = zero;
  bar.routed.forEach((value, at) => {
    if (!value) return;
    y -= value * k;
    picture.append(
      draw('rect', { class: 'hue' + (at < apart ? at : HUES), x, y, width, height: Math.max(0.4, value * k) }),
    );
  });
  const maybe = total(bar.undecided);
  if (maybe)
    picture.append(draw('rect', { class: 'undecided', x, y: y - maybe * k, width, height: Math.max(0.4, maybe * k) }));
  const lost = total(bar.lost);
  if (lost) picture.append(draw('rect', { class: 'lost', x, y: zero, width, height: Math.max(1, lost * k) }));
}

function slotTip(slot, bars, unit, names, apart) {
  if (typeof slot !== 'number')
    return el(
      'p',
      {},
      (/^\d/.test(unit.name) ? plural(slot.gap, 'time') + ' ' + unit.name : plural(slot.gap, unit.name)) +
        ' without any message',
    );
  const bar = bars.get(slot);
  const rows = [];
  names.forEach((name, at) => {
    if (bar.routed[at]) rows.push(['hue' + (at < apart ? at : HUES), name, count(bar.routed[at])]);
  });
  names.forEach((name, at) => {
    if (bar.lost[at]) rows.push(['lost', name + ', no queue', count(bar.lost[at])]);
  });
  if (total(bar.undecided)) rows.push(['undecided', 'undecided', count(total(bar.undecided))]);
  return [
    el('p', { class: 'tip-head' }, slotLabel(unit, slot) + ' UTC'),
    el('p', { class: 'tip-local' }, 'from ' + local(slotStart(unit, slot))),
    rows.length ? tipRows([...rows, [null, 'all', count(bar.all)]]) : el('p', {}, 'no messages'),
  ];
}
