/* Move, zoom and search a picture that a browser has opened by itself. Without this script it is a picture to scroll. */
(() => {
  "use strict";
  const svg = document.documentElement;
  if (svg.localName !== "svg") return; // part of a page, which has its own ways
  const view = document.getElementById("view");
  const nodes = [...svg.querySelectorAll("#drawing .node")];
  const edges = [...svg.querySelectorAll("#drawing .edge")];
  const size = svg.viewBox.baseVal;
  const whole = { width: size.width, height: size.height };
  const XHTML = "http://www.w3.org/1999/xhtml";
  let scale = 1, x = 0, y = 0;

  const show = () => view.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);

  /** Zoom so that the point of the window stays where it is. */
  const zoom = (factor, atX = innerWidth / 2, atY = innerHeight / 2) => {
    const next = Math.min(8, Math.max(0.005, scale * factor));
    x = atX - (atX - x) * (next / scale);
    y = atY - (atY - y) * (next / scale);
    scale = next;
    show();
  };

  const fit = () => {
    scale = Math.min(innerWidth / whole.width, innerHeight / whole.height, 1);
    x = Math.max(0, (innerWidth - whole.width * scale) / 2);
    y = 0;
    show();
  };

  /** The first look: as wide as the window if that can be read, else the upper left part. */
  const open = () => {
    scale = Math.min(1, Math.max(0.6, innerWidth / whole.width));
    x = Math.max(0, (innerWidth - whole.width * scale) / 2);
    y = 0;
    show();
  };

  const centre = (element) => {
    const box = element.getBoundingClientRect();
    x += innerWidth / 2 - (box.left + box.width / 2);
    y += innerHeight / 2 - (box.top + box.height / 2);
    show();
    if (scale < 0.6) zoom(1 / scale);
  };

  /** Show only what is next to a node, and dim all else; null shows all. */
  const choose = (node) => {
    const number = node && node.id.slice(1);
    const near = new Set([number]);
    for (const edge of edges) {
      const touches = edge.dataset.from === number || edge.dataset.to === number;
      if (touches) near.add(edge.dataset.from).add(edge.dataset.to);
      edge.classList.toggle("dim", node !== null && !touches);
      edge.classList.toggle("chosen", node !== null && touches);
    }
    for (const other of nodes) {
      other.classList.toggle("dim", node !== null && !near.has(other.id.slice(1)));
      other.classList.toggle("chosen", other === node);
    }
  };

  const texts = [...nodes, ...edges].map((element) => {
    const [name, ...rest] = element.querySelector("title").textContent.toLowerCase().split("\n");
    return { element, name, rest: `${rest.join("\n")}\n${element.dataset.members || ""}`.toLowerCase() };
  });
  let found = [], at = 0;

  /** The smaller the better: a whole name, a part of a name, a key or a name in a bundle; -1 for no match. */
  const rank = ({ element, name, rest }, wanted) => {
    const isReference = element.classList.contains("reference");
    if (name.includes(`'${wanted}'`)) return isReference ? 2 : element.classList.contains("node") ? 0 : 3;
    if (name.includes(wanted)) return isReference ? 5 : element.classList.contains("node") ? 1 : 4;
    return rest.includes(wanted) ? 6 : -1;
  };

  const search = (wanted) => {
    for (const element of found) element.classList.remove("found");
    const ranked = wanted ? texts.map((text) => ({ element: text.element, rank: rank(text, wanted.toLowerCase()) })) : [];
    found = ranked.filter((each) => each.rank >= 0).sort((a, b) => a.rank - b.rank).map((each) => each.element);
    for (const element of found) element.classList.add("found");
    at = 0;
    if (found.length) centre(found[0]);
    count.textContent = wanted ? (found.length ? `1 of ${found.length}` : "none") : "";
  };

  const next = (step) => {
    if (!found.length) return;
    at = (at + step + found.length) % found.length;
    centre(found[at]);
    count.textContent = `${at + 1} of ${found.length}`;
  };

  const make = (name, attributes, text = "") => {
    const element = document.createElementNS(XHTML, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  const frame = document.createElementNS(svg.namespaceURI, "foreignObject");
  const bar = make("div", { id: "bar" });
  const field = make("input", { type: "search", placeholder: "Search names and keys", "aria-label": "Search" });
  const count = make("output", { "aria-live": "polite" });
  const button = (label, text, act) => {
    const element = make("button", { type: "button", title: label, "aria-label": label }, text);
    element.addEventListener("click", act);
    return element;
  };
  bar.append(
    field, count, button("Next match (Enter)", "›", () => next(1)), button("Zoom in (+)", "+", () => zoom(1.25)),
    button("Zoom out (-)", "−", () => zoom(0.8)), button("The whole picture (0)", "all", fit),
  );
  frame.append(bar);

  const resize = () => {
    frame.setAttribute("width", Math.min(440, innerWidth));
    frame.setAttribute("height", 44);
    frame.setAttribute("x", Math.max(0, innerWidth - 440));
    frame.setAttribute("y", 0);
  };

  field.addEventListener("input", () => search(field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      field.value = "";
      search("");
      field.blur();
    }
    event.stopPropagation();
  });

  const STEPS = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in STEPS) {
      x += STEPS[event.key][0];
      y += STEPS[event.key][1];
      show();
    } else if (event.key === "/") field.focus();
    else if (event.key === "+") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
  });

  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX, event.clientY);
  }, { passive: false });

  const pointers = new Map();
  let moved = false;
  svg.addEventListener("pointerdown", (event) => {
    if (frame.contains(event.target)) return;
    pointers.set(event.pointerId, event);
    moved = false;
  });
  svg.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const other = [...pointers.values()].find((pointer) => pointer.pointerId !== event.pointerId);
    const away = (pointer) => Math.hypot(pointer.clientX - other.clientX, pointer.clientY - other.clientY);
    if (other) zoom(away(event) / (away(before) || 1), other.clientX, other.clientY); // two fingers
    else {
      x += event.clientX - before.clientX;
      y += event.clientY - before.clientY;
      show();
    }
    if (Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) > 1) moved = true;
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    svg.addEventListener(name, (event) => pointers.delete(event.pointerId));
  }
  svg.addEventListener("click", (event) => {
    if (moved || frame.contains(event.target)) return;
    const node = event.target.closest("#drawing .node");
    const referred = node && node.dataset.refers && document.getElementById(`n${node.dataset.refers}`);
    if (referred) centre(referred);
    choose(referred || node);
  });

  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");
  svg.setAttribute("height", "100%");
  svg.classList.add("live");
  svg.append(frame);
  addEventListener("resize", resize);
  resize();
  open();
  let wanted = location.hash.slice(1);
  try {
    wanted = decodeURIComponent(wanted);
  } catch {
    // not encoded: it is what the user wrote
  }
  if (wanted) {
    field.value = wanted;
    search(wanted);
  }
  svg.dataset.state = "ready";
})();
