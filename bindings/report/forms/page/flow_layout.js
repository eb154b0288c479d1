/*
 * Where the bands of the flow picture run: columns from left to right, links that would close a cycle led back below
 * the picture, the order within a column by the middle of the neighbours, heights by messages. Numbers in, numbers out.
 *
 * node: { id, last?: stands in the last column, low?: stands at its end }     link: { from, to, messages }
 */

const NODE_WIDTH = 10;
const PILL_HEIGHT = 15;
const PILL_GAP = 3;
const GOOD_PILL = 136; // a key and a figure are legible
const BEND = 42; // pixels that bands have to bend between columns
const LEAST_BEND = 26; // where keys would not be legible otherwise
const MOST_SCALE = 60; // pixels for a message: of a few, none is a wall

/** Copies of nodes and links that know each other, and which links would close a cycle. */
function connect(flow) {
  const nodes = flow.nodes.map((node) => ({ ...node, out: [], into: [] }));
  const links = flow.links.map((link) => ({ ...link }));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const link of links) {
    link.source = byId.get(link.from);
    link.target = byId.get(link.to);
    link.source.out.push(link);
    link.target.into.push(link);
  }
  turnBack(nodes);
  return { nodes, links };
}

function leadsBack(flow) {
  return connect(flow).links.some((link) => link.back);
}

/** size: { width, high, narrow, left, right, top } in pixels. Gives nodes and links their places. */
function layOutFlow(nodes, links, size) {
  const columns = intoColumns(nodes);
  nodes.forEach((node) => {
    node.value = Math.max(sumOf(node.out), sumOf(node.into), node.published || 0);
    node.least = node.pill ? PILL_HEIGHT : 2;
    node.gap = node.pill ? PILL_GAP : size.narrow ? 22 : 15;
  });
  order(columns);
  const scale = Math.min(...columns.map((column) => scaleOf(column, size.high - size.top - 8)));
  nodes.forEach((node) => {
    node.height = Math.max(node.least, node.value * scale);
  });
  across(columns, size);
  stack(columns, Math.min(size.high, Math.max(...columns.map(heightOf))));
  closeUp(nodes, 30);
  const top = Math.min(...nodes.map((node) => node.y));
  nodes.forEach((node) => {
    node.y += size.top - top;
  });
  const bottom = Math.max(...nodes.map((node) => node.y + node.height));
  const lanes = ports(nodes, links, scale, bottom);
  return { columns, height: Math.ceil(bottom + lanes + 8) };
}

function heightOf(column) {
  return column.reduce((all, node) => all + node.height + node.gap, 0);
}

/* Pixels for a message, so that a column is not higher than this; small nodes have their least height all the same. */
function scaleOf(column, high) {
  const all = column.reduce((sum, node) => sum + node.value, 0);
  if (!all) return MOST_SCALE;
  const height = (scale) => column.reduce((sum, node) => sum + Math.max(node.least, node.value * scale) + node.gap, 0);
  let [low, top] = [0, Math.max(high, 40) / all];
  for (let step = 0; step < 30; step += 1) {
    const middle = (low + top) / 2;
    if (height(middle) <= high) low = middle;
    else top = middle;
  }
  // Where the names alone are higher than the window, the picture is: the messages of a column get half of it.
  return Math.min(MOST_SCALE, Math.max(low, (0.5 * high) / all / 4));
}

/* Where columns stand. Bindings are as wide as their names need, as far as the bands keep room to bend. */
function across(columns, size) {
  const room = size.width - size.left - size.right;
  const gaps = Math.max(1, columns.length - 1);
  const pills = columns.filter((column) => column.some((node) => node.pill));
  const bars = (columns.length - pills.length) * NODE_WIDTH;
  const widest = (bend) => (room - bars - gaps * bend) / Math.max(1, pills.length);
  const most = Math.max(40, widest(BEND), Math.min(GOOD_PILL, widest(LEAST_BEND)));
  for (const column of columns) {
    const wanted = Math.max(...column.map((node) => (node.pill ? node.label.length * PILL_CHARACTER + 56 : 0)));
    const wide = wanted ? Math.min(most, wanted) : NODE_WIDTH;
    column.forEach((node) => {
      node.width = node.pill ? wide : NODE_WIDTH;
    });
  }
  const used = columns.reduce((sum, column) => sum + Math.max(...column.map((node) => node.width)), 0);
  const step = columns.length > 1 ? (room - used) / gaps : 0;
  let x = size.left;
  for (const column of columns) {
    const wide = Math.max(...column.map((node) => node.width));
    column.forEach((node) => {
      node.x = x + (wide - node.width) / 2;
    });
    x += wide + step;
  }
}

function sumOf(links) {
  return links.reduce((all, link) => all + link.messages, 0);
}

/* Depth first from where most is published; what leads to a node that is still being visited goes back. */
function turnBack(nodes) {
  const state = new Map();
  const roots = [...nodes].sort(
    (a, b) => (a.into.length > 0) - (b.into.length > 0) || (b.published || 0) - (a.published || 0),
  );
  for (const root of roots) {
    if (state.has(root)) continue;
    const walk = [[root, 0]];
    state.set(root, 'open');
    while (walk.length) {
      const here = walk[walk.length - 1];
      const link = here[0].out[here[1]];
      here[1] += 1;
      if (!link) {
        state.set(here[0], 'done');
        walk.pop();
        continue;
      }
      link.back = state.get(link.target) === 'open';
      if (!state.has(link.target)) {
        state.set(link.target, 'open');
        walk.push([link.target, 0]);
      }
    }
  }
}

/* A node stands right of all that leads to it; ends stand in the last column. */
function intoColumns(nodes) {
  const waiting = new Map(nodes.map((node) => [node, node.into.filter((link) => !link.back).length]));
  const ready = nodes.filter((node) => !waiting.get(node));
  nodes.forEach((node) => {
    node.column = 0;
  });
  while (ready.length) {
    const node = ready.pop();
    for (const link of node.out) {
      if (link.back) continue;
      link.target.column = Math.max(link.target.column, node.column + 1);
      waiting.set(link.target, waiting.get(link.target) - 1);
      if (!waiting.get(link.target)) ready.push(link.target);
    }
  }
  const inner = Math.max(0, ...nodes.filter((node) => !node.last).map((node) => node.column));
  const columns = Array.from({ length: inner + 2 }, () => []);
  for (const node of nodes) {
    if (node.last) node.column = inner + 1;
    columns[node.column].push(node);
  }
  return columns.filter((column) => column.length);
}

function order(columns) {
  const place = new Map();
  const settle = (column) => column.forEach((node, at) => place.set(node, (at + 0.5) / column.length));
  for (const column of columns) {
    column.sort((a, b) => Boolean(a.low) - Boolean(b.low) || b.value - a.value);
    settle(column);
  }
  for (let sweep = 0; sweep < 8; sweep += 1) {
    const side = sweep % 2 ? 'out' : 'into';
    const other = sweep % 2 ? 'target' : 'source';
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const middle = new Map(
        column.map((node) => [node, centre(node[side], (link) => place.get(link[other]), place.get(node))]),
      );
      column.sort((a, b) => Boolean(a.low) - Boolean(b.low) || middle.get(a) - middle.get(b));
      settle(column);
    }
  }
}

/** The mean of places, each as heavy as its messages; links without any count a little. */
function centre(links, place, otherwise) {
  let weight = 0;
  let sum = 0;
  for (const link of links) {
    if (link.back) continue;
    const heavy = link.messages + 1e-6;
    weight += heavy;
    sum += heavy * place(link);
  }
  return weight ? sum / weight : otherwise;
}

/* Each node near the middle of its neighbours, in order and apart. */
function stack(columns, high) {
  for (const column of columns) {
    let y = (high - heightOf(column)) / 2;
    for (const node of column) {
      node.y = y;
      y += node.height + node.gap;
    }
  }
  for (let sweep = 0; sweep < 6; sweep += 1) {
    const side = sweep % 2 ? 'out' : 'into';
    const other = sweep % 2 ? 'target' : 'source';
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const wanted = column.map(
        (node) =>
          centre(node[side], (link) => link[other].y + link[other].height / 2, node.y + node.height / 2) -
          node.height / 2,
      );
      apart(column, wanted);
      within(column, high);
    }
  }
}

/* The places nearest to those wanted that keep the order: runs that would overlap are moved together. */
function apart(column, wanted) {
  const pools = [];
  let offset = 0;
  column.forEach((node, at) => {
    pools.push({ sum: wanted[at] - offset, length: 1 });
    offset += node.height + node.gap;
    while (pools.length > 1) {
      const [one, two] = pools.slice(-2);
      if (one.sum / one.length <= two.sum / two.length) break;
      pools.pop();
      one.sum += two.sum;
      one.length += two.length;
    }
  });
  let at = 0;
  offset = 0;
  for (const pool of pools) {
    for (let left = pool.length; left > 0; left -= 1) {
      column[at].y = pool.sum / pool.length + offset;
      offset += column[at].height + column[at].gap;
      at += 1;
    }
  }
}

/* Moves what stands above or below the picture into it, and what is in its way along. */
function within(column, high) {
  let least = 0;
  for (const node of column) {
    node.y = Math.max(node.y, least);
    least = node.y + node.height + node.gap;
  }
  let most = high;
  for (const node of [...column].reverse()) {
    node.y = Math.min(node.y, most - node.height);
    most = node.y - node.gap;
  }
}

/* Parts that have nothing to do with each other drift apart: no strip without any node is higher than this. */
function closeUp(nodes, most) {
  const fromTop = [...nodes].sort((a, b) => a.y - b.y);
  let bottom = fromTop[0].y;
  let up = 0;
  for (const node of fromTop) {
    up += Math.max(0, node.y - up - bottom - most);
    node.y -= up;
    bottom = Math.max(bottom, node.y + node.height);
  }
}

/* Where each link leaves and enters, and its path. Returns how much room the links that go back take below. */
function ports(nodes, links, scale, bottom) {
  const width = (link) => Math.max(link.messages * scale, link.messages ? 1 : 1.25);
  for (const node of nodes) {
    for (const [side, end, other] of [
      ['out', 'y0', 'target'],
      ['into', 'y1', 'source'],
    ]) {
      node[side].sort((a, b) => Boolean(a.back) - Boolean(b.back) || a[other].y - b[other].y);
      // A band enters a binding in its middle, since the name may make it higher than its messages.
      let y = node.pill ? node.y + (node.height - sumOf(node[side]) * scale) / 2 : node.y;
      for (const link of node[side]) {
        link[end] = link.messages || !node.pill ? y + width(link) / 2 : node.y + node.height / 2;
        y += link.messages * scale;
      }
    }
  }
  let lane = 0;
  for (const link of links) {
    link.width = width(link);
    const x0 = link.source.x + link.source.width;
    const x1 = link.target.x;
    if (link.back) {
      link.width = Math.min(link.width, 6);
      lane += link.width + 5;
      const y = bottom + 6 + lane - link.width / 2;
      link.path = `M${x0} ${link.y0} C${x0 + 30} ${link.y0} ${x0 + 30} ${y} ${x0} ${y} L${x1} ${y} C${x1 - 30} ${y} ${x1 - 30} ${link.y1} ${x1} ${link.y1}`;
    } else if (link.messages) {
      // An area, since a wide line that bends in little room has spikes.
      const [bend, half] = [(x0 + x1) / 2, link.width / 2];
      const curve = (fromX, fromY, toX, toY) => `${fromX} ${fromY} C${bend} ${fromY} ${bend} ${toY} ${toX} ${toY}`;
      link.path = `M${curve(x0, link.y0 - half, x1, link.y1 - half)} L${curve(x1, link.y1 + half, x0, link.y0 + half)}Z`;
    } else {
      const bend = (x0 + x1) / 2;
      link.path = `M${x0} ${link.y0} C${bend} ${link.y0} ${bend} ${link.y1} ${x1} ${link.y1}`;
    }
  }
  return lane ? lane + 8 : 0;
}
