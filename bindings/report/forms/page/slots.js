/*
 * Time as slots: those of the report are gathered into minutes, hours, days, months or whatever gives the window 40 to
 * 120 bars, as far as the report counts so finely, and long times without a message are cut out.
 */

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MOST_SLOTS = 120;

/* Each at most three times the one before, so that one of them gives at least a third of the most slots. */
const UNITS = [
  ...[1, 2, 5, 10, 15, 30].map((number) => unitOf(number, 'second', SECOND)),
  ...[1, 2, 5, 10, 15, 30].map((number) => unitOf(number, 'minute', MINUTE)),
  ...[1, 2, 3, 6, 12].map((number) => unitOf(number, 'hour', HOUR)),
  ...[1, 2, 3].map((number) => unitOf(number, 'day', DAY)),
  { name: 'week', step: 7 * DAY, origin: 4 * DAY }, // 1970 began on a Thursday
  { name: '2 weeks', step: 14 * DAY, origin: 4 * DAY },
  { name: 'month', months: 1 },
  { name: 'quarter', months: 3 },
  { name: 'year', months: 12 },
];

function unitOf(number, name, length) {
  return { name: number === 1 ? name : `${number} ${name}s`, step: number * length };
}

function slotOf(unit, ms) {
  if (unit.step) return Math.floor((ms - (unit.origin || 0)) / unit.step);
  const date = new Date(ms);
  return Math.floor((date.getUTCFullYear() * 12 + date.getUTCMonth()) / unit.months);
}

/** When a slot begins, in milliseconds. */
function slotStart(unit, slot) {
  if (unit.step) return slot * unit.step + (unit.origin || 0);
  return Date.UTC(Math.floor((slot * unit.months) / 12), (slot * unit.months) % 12);
}

/** Where a unit begins and ends, in UTC: as short as it can be written. */
function slotLabel(unit, slot) {
  const [from, to] = [slotStart(unit, slot), slotStart(unit, slot + 1)];
  if (unit.months === 12) return utc(from, 4);
  if (unit.months)
    return unit.months === 1 ? utc(from, 7) : utc(from, 7) + ' to ' + utc(slotStart(unit, slot + 1) - 1, 7);
  if (unit.step === DAY) return utc(from, 10);
  if (unit.step % DAY === 0) return utc(from, 10) + ' to ' + utc(to - 1, 10);
  const length = unit.step % MINUTE ? 19 : 16;
  const end = utc(to, length);
  return utc(from, length) + ' to ' + (utc(from, 10) === utc(to, 10) ? end.slice(11) : end);
}

/*
 * Units that counts by slots of this size can be gathered into: the slots themselves, and longer ones that they divide;
 * of slots that are no unit here, multiples of them, and much longer units, where it shows little that a slot can begin
 * before its unit.
 */
function unitsFor(size, start) {
  if (UNITS.some((unit) => unit.step === size && !unit.origin))
    return UNITS.filter((unit) => !unit.step || (unit.step >= size && unit.step % size === 0));
  const own = (size < 28 * DAY ? [1, 2] : [1, 2, 3, 6]).map((times) => ({
    name: size % DAY ? lasting(times * size) : plural((times * size) / DAY, 'day'),
    step: times * size,
    origin: start % (times * size),
  }));
  return [...own, ...UNITS.filter((unit) => (unit.step || unit.months * 28 * DAY) >= 4 * size)];
}

/**
 * The slots to draw, in order: a number, or { gap: how many slots are left out }. `times` are those with messages, in
 * milliseconds, sorted; they are the beginnings of slots of `size`.
 */
function slotsOf(times, size, start) {
  const units = unitsFor(size, start);
  for (const unit of units) {
    const filled = [];
    for (const ms of times) {
      const slot = slotOf(unit, ms);
      if (filled[filled.length - 1] !== slot) filled.push(slot);
    }
    const widest = Math.max(6, Math.ceil(filled.length * 0.5));
    const slots = [];
    filled.forEach((slot, at) => {
      const empty = at ? slot - filled[at - 1] - 1 : 0;
      if (empty > widest) slots.push({ gap: empty });
      else for (let lost = slot - empty; lost < slot; lost += 1) slots.push(lost);
      slots.push(slot);
    });
    if (slots.length <= MOST_SLOTS || unit === units[units.length - 1]) return { unit, slots };
  }
  return { unit: units[0], slots: [] };
}

/** A round number not below: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((times) => times * power).find((round) => round >= value);
}

/*
 * Ticks of an axis of time: at round times, as many as there is room for. A tick has a time of the day or a day, and,
 * where that begins or changes, the day or the year below it.
 */
const TICKS = [
  ...[1, 2, 5, 10, 15, 30].map((number) => ({ step: number * SECOND, length: 19, from: 11, rest: 10 })),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((number) => ({
    step: number * MINUTE,
    length: 16,
    from: 11,
    rest: 10,
  })),
  ...[1, 2, 7, 14].map((number) => ({
    step: number * DAY,
    origin: number % 7 ? 0 : 4 * DAY,
    length: 10,
    from: 5,
    rest: 4,
  })),
  ...[1, 3, 6].map((months) => ({ months, length: 7, from: 0, rest: 0 })),
  ...[12, 24, 60, 120, 600].map((months) => ({ months, length: 4, from: 0, rest: 0 })),
];

const TICK_ROOM = 74; // pixels from one tick to the next, at least

/** Ticks for slots: { at: index of the slot, label, rest: what the label leaves out, where that changes }, in order. */
function ticksOf(slots, unit, pitch) {
  const times = slots.map((slot) => (typeof slot === 'number' ? slotStart(unit, slot) : null));
  for (const tick of TICKS) {
    if (unit.step && tick.step % unit.step) continue; // no slot begins at each of its times
    const places = [];
    let before = null;
    times.forEach((ms, at) => {
      if (ms === null) return;
      const number = slotOf(tick, ms);
      if (number !== before && (before !== null || slotStart(tick, number) === ms)) places.push(at);
      before = number;
    });
    if (!places.length || places[0] * pitch >= TICK_ROOM) places.unshift(0); // the beginning, round or not
    if (places.some((at, n) => n && (at - places[n - 1]) * pitch < TICK_ROOM)) continue;
    let rest = '';
    return places.map((at) => {
      const changed = utc(times[at], tick.rest || 4) !== rest;
      rest = utc(times[at], tick.rest || 4);
      return { at, label: utc(times[at], tick.length).slice(tick.from), rest: tick.rest && changed ? rest : '' };
    });
  }
  return [];
}
