/*
 * Time as slots: those of the report are gathered into minutes, hours, days, months or whatever keeps the picture to
 * some hundred bars, and long times without a message are cut out.
 */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const MOST_SLOTS = 150;

const UNITS = [
  { name: 'second', step: 1_000, length: 19, tail: '' },
  { name: '5 seconds', step: 5_000, length: 19, tail: '' },
  { name: '15 seconds', step: 15_000, length: 19, tail: '' },
  { name: 'minute', step: MINUTE, length: 16, tail: '' },
  { name: '5 minutes', step: 5 * MINUTE, length: 16, tail: '' },
  { name: '15 minutes', step: 15 * MINUTE, length: 16, tail: '' },
  { name: 'hour', step: HOUR, length: 13, tail: ':00' },
  { name: '3 hours', step: 3 * HOUR, length: 13, tail: ':00' },
  { name: '6 hours', step: 6 * HOUR, length: 13, tail: ':00' },
  { name: '12 hours', step: 12 * HOUR, length: 13, tail: ':00' },
  { name: 'day', step: 24 * HOUR, length: 10, tail: '' },
  { name: 'week', step: 168 * HOUR, origin: 4 * 24 * HOUR, length: 10, tail: '' }, // 1970 began on a Thursday
  { name: 'month', months: 1, length: 7, tail: '' },
  { name: 'quarter', months: 3, length: 7, tail: '' },
  { name: 'year', months: 12, length: 4, tail: '' },
];

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

function slotLabel(unit, slot) {
  return utc(slotStart(unit, slot), unit.length) + unit.tail;
}

/*
 * Units that counts by slots of this size can be gathered into: the slots themselves, and longer ones that they divide;
 * of slots that are no unit here, much longer ones, where it shows little that a slot can begin before its unit.
 */
function unitsFor(size, start) {
  const at = UNITS.findIndex((unit) => unit.step === size && !unit.origin);
  if (at >= 0) return UNITS.slice(at);
  const own = { name: lasting(size), step: size, origin: start % size, length: size % (24 * HOUR) ? 16 : 10, tail: '' };
  return [own, ...UNITS.filter((unit) => (unit.step || unit.months * 28 * 24 * HOUR) >= 4 * size)];
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
