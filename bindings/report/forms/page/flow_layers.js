/*
 * Layers of the exchanges that messages pass, so that many can be drawn as one without a cycle that does not exist: what
 * leads from one exchange to another leads to a later layer, except within a real cycle, whose exchanges share one.
 */

/** The layer of each node that a flow leaves or enters: the most flows, outside of cycles, on a way to it. */
function layersOf(flows) {
  const out = new Map();
  for (const { from, to } of flows) {
    if (!out.has(from)) out.set(from, []);
    if (!out.has(to)) out.set(to, []);
    out.get(from).push(to);
  }
  const layers = new Map();
  const enter = new Map(); // group -> the layer that what leads to it asks for
  const groups = groupsOf(out);
  const groupOf = new Map();
  groups.forEach((group) => group.forEach((id) => groupOf.set(id, group)));
  for (const group of groups.reverse()) {
    const layer = enter.get(group) || 0;
    for (const id of group) {
      layers.set(id, layer);
      for (const to of out.get(id)) {
        const next = groupOf.get(to);
        if (next !== group) enter.set(next, Math.max(enter.get(next) || 0, layer + 1));
      }
    }
  }
  return layers;
}

/* Strongly connected components (Tarjan), targets before sources; a loop, since chains may be long. */
function groupsOf(out) {
  const seen = new Map();
  const lowest = new Map();
  const open = [];
  const isOpen = new Set();
  const groups = [];
  for (const root of out.keys()) {
    if (seen.has(root)) continue;
    const walk = [[root, 0]];
    while (walk.length) {
      const here = walk[walk.length - 1];
      const [id, next] = here;
      if (next === 0) {
        seen.set(id, seen.size);
        lowest.set(id, seen.get(id));
        open.push(id);
        isOpen.add(id);
      }
      const to = out.get(id)[next];
      here[1] += 1;
      if (to !== undefined) {
        if (!seen.has(to)) walk.push([to, 0]);
        else if (isOpen.has(to)) lowest.set(id, Math.min(lowest.get(id), seen.get(to)));
        continue;
      }
      walk.pop();
      if (walk.length) {
        const above = walk[walk.length - 1][0];
        lowest.set(above, Math.min(lowest.get(above), lowest.get(id)));
      }
      if (lowest.get(id) !== seen.get(id)) continue;
      const group = open.splice(open.lastIndexOf(id));
      group.forEach((each) => isOpen.delete(each));
      groups.push(group);
    }
  }
  return groups;
}

/**
 * A function from a layer to the number of the lump of its other exchanges. Layers next to each other share a lump unless
 * a kept exchange stands in one of them: a lump on both sides of it would seem to lead to it and to be led to by it.
 */
function lumpsOf(keptLayers) {
  const bounds = [...new Set(keptLayers)].sort((a, b) => a - b);
  return (layer) => {
    const below = bounds.filter((bound) => bound < layer).length;
    return 2 * below + (bounds[below] === layer ? 1 : 0);
  };
}
