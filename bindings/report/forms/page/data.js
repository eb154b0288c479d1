/*
 * The report as it lies in the page: JSON in a block of its own, where lists of like objects are packed as a table,
 * {"$columns": names, "$rows": values}; a name of the report's own that begins with $ has one more.
 */

function unpacked(value) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(unpacked);
  if (Array.isArray(value.$columns)) {
    const names = value.$columns.map(ownName);
    return value.$rows.map((row) => objectOf(names, row));
  }
  return objectOf(Object.keys(value).map(ownName), Object.values(value));
}

function ownName(name) {
  return name.startsWith('$') ? name.slice(1) : name;
}

function objectOf(names, values) {
  const object = {};
  for (let at = 0; at < names.length; at += 1) {
    const value = unpacked(values[at]);
    if (names[at] !== '__proto__') object[names[at]] = value;
    else Object.defineProperty(object, '__proto__', { value, enumerable: true }); // a header may well be called so
  }
  return object;
}

function readReport() {
  return unpacked(JSON.parse(document.getElementById('report').textContent));
}
