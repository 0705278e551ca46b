// The waterfall's second half. The server has written rows that read and print without any of
// this; here they get zoom and pan, folding, keys, a card and a drawer, and long traces arrive
// block by block.
//
// Every lane is as wide as --zoom says and stands where --pan says, so moving the picture sets two
// numbers and touches no row.

const MAX_ZOOM = 5000; // a lane of five million pixels: the browser's own limit is six times that
const ZOOM_STEP = 1.4;
const PAN_STEP = 0.15; // of what is seen
const TICKS = 8;
const LABEL_PX = 64; // room that a label of the axis needs
const NEAR = "1500px"; // blocks that come so near are loaded
const DRAG_PX = 4; // less is a click
const SVG = "http://www.w3.org/2000/svg";

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const percent = (share) => `${(share * 100).toFixed(4)}%`;

// --- the axis ------------------------------------------------------------------------------------

const SECOND = 1e9;
const MINUTES = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** The smallest round interval of at least that many ns: 1, 2, 5 by tens, then minutes. */
const roundStep = (least) => {
  for (let power = 1; power <= 10 * SECOND; power *= 10)
    for (const digit of [1, 2, 5])
      if (digit * power >= least && digit * power <= 30 * SECOND) return digit * power;
  const seconds = MINUTES.find((minutes) => minutes * SECOND >= least);
  return (seconds ?? Math.ceil(least / (86400 * SECOND)) * 86400) * SECOND;
};

/** A round moment: only as many digits as the interval needs. */
const tickLabel = (ns, step) => {
  if (ns === 0) return "0";
  if (step >= SECOND && ns >= 60 * SECOND) {
    const seconds = Math.round(ns / SECOND);
    const rest = seconds % 60;
    return `${Math.floor(seconds / 60)} min${rest ? ` ${rest} s` : ""}`;
  }
  const [unit, name] = [[SECOND, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([u]) => ns >= u);
  const digits = clamp(Math.ceil(Math.log10(unit / step)), 0, 9);
  return `${Number((ns / unit).toFixed(digits))} ${name}`;
};

class Axis {
  constructor({ moments, shares }) {
    this.moments = moments;
    this.shares = shares;
  }

  /** Linear between the points at which the axis bends, which are the edges of folded gaps. */
  static between(value, from, to) {
    let index = 1;
    while (index < from.length - 1 && from[index] < value) index += 1;
    const span = from[index] - from[index - 1];
    const part = span ? (value - from[index - 1]) / span : 0;
    return to[index - 1] + part * (to[index] - to[index - 1]);
  }

  share(ns) {
    return Axis.between(ns, this.moments, this.shares);
  }

  moment(share) {
    return Axis.between(share, this.shares, this.moments);
  }

  /** Round moments in a stretch of the axis, none inside a folded gap. */
  ticks(from, to, count) {
    const [start, end] = [this.moment(from), this.moment(to)];
    const slope = (to - from) / count; // shares a label
    const first = Math.max(1, this.moments.at(-1) - this.folded());
    const step = roundStep((slope / this.openShare()) * first);
    const ticks = [];
    for (let ns = Math.ceil(start / step) * step; ns <= end; ns += step) {
      const share = this.share(ns);
      const isClose = ticks.length && share - ticks.at(-1).share < slope / 2; // beside a fold
      if (!isClose && !this.isFolded(ns)) ticks.push({ share, label: tickLabel(ns, step) });
    }
    return ticks;
  }

  *folds() {
    for (let index = 1; index < this.moments.length - 1; index += 2)
      yield [index, index + 1].map((at) => [this.moments[at], this.shares[at]]);
  }

  folded() {
    return [...this.folds()].reduce((sum, [[from], [to]]) => sum + to - from, 0);
  }

  openShare() {
    return 1 - [...this.folds()].reduce((sum, [[, from], [, to]]) => sum + to - from, 0);
  }

  isFolded(ns) {
    return [...this.folds()].some(([[from], [to]]) => ns > from && ns < to);
  }
}

const svg = (name, attributes, text = "") => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

// --- zoom and pan --------------------------------------------------------------------------------

class View {
  constructor(root) {
    this.root = root;
    this.head = root.querySelector("[data-axis]");
    this.ticks = root.querySelector("[data-ticks]");
    this.grid = root.querySelector("[data-grid]");
    this.axis = new Axis(JSON.parse(this.head.dataset.axis));
    this.zoom = 1;
    this.pan = 0; // the share of the axis at the left edge
    this.isDue = false;
    new ResizeObserver(() => this.change()).observe(this.head);
  }

  get width() {
    return 1 / this.zoom;
  }

  /** The share of the axis under a place on the screen. */
  at(clientX) {
    const box = this.head.getBoundingClientRect();
    return this.pan + (clamp(clientX - box.left, 0, box.width) / box.width) * this.width;
  }

  zoomBy(factor, around = this.pan + this.width / 2) {
    const zoom = clamp(this.zoom * factor, 1, MAX_ZOOM);
    this.pan = around - (around - this.pan) * (this.zoom / zoom);
    this.zoom = zoom;
    this.change();
  }

  panBy(share) {
    this.pan += share;
    this.change();
  }

  show(from, to) {
    const width = clamp((to - from) * 1.2, 1 / MAX_ZOOM, 1);
    this.zoom = 1 / width;
    this.pan = (from + to - width) / 2;
    this.change();
  }

  /** Pan just so far that a stretch can be seen. */
  reveal(from, to) {
    if (from < this.pan || from > this.pan + this.width) this.pan = from - this.width * 0.1;
    else if (to > this.pan + this.width && to - from < this.width) this.pan = to - this.width;
    this.change();
  }

  reset() {
    this.zoom = 1;
    this.pan = 0;
    this.change();
  }

  /** At most one drawing a frame. */
  change() {
    this.pan = clamp(this.pan, 0, 1 - this.width);
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  draw() {
    this.root.style.setProperty("--zoom", this.zoom);
    this.root.style.setProperty("--pan", this.pan);
    const room = clamp(Math.floor(this.head.clientWidth / LABEL_PX), 2, TICKS);
    const ticks = this.axis.ticks(this.pan, this.pan + this.width, room);
    this.ticks.replaceChildren(
      ...ticks.map(({ share, label }) => svg("text", { x: percent(share), y: 17, dx: 3 }, label)),
    );
    this.grid.replaceChildren(
      ...ticks.map(({ share }) => {
        const x = percent(share);
        return svg("line", { class: "grid-line", x1: x, x2: x, y1: 0, y2: "100%" });
      }),
    );
  }
}

// --- rows, in blocks -----------------------------------------------------------------------------

const ROW_PX = 28;

class Rows {
  constructor(root, onNew) {
    this.root = root;
    this.onNew = onNew;
    this.folded = new Set(); // ids of rows
    this.foldsAll = false;
    this.observer = new IntersectionObserver(
      (entries) => entries.filter((e) => e.isIntersecting).forEach((e) => this.load(e.target)),
      { rootMargin: NEAR },
    );
    for (const block of root.querySelectorAll(".block")) this.adopt(block);
  }

  all() {
    return [...this.root.querySelectorAll(".row")];
  }

  visible() {
    return this.all().filter((row) => !row.classList.contains("folded"));
  }

  bySpan(spanId) {
    return this.root.querySelector(`[data-span="${CSS.escape(spanId)}"]`);
  }

  adopt(block) {
    if (block.classList.contains("unloaded")) {
      block.style.setProperty("height", `${block.dataset.count * ROW_PX}px`);
      this.observer.observe(block);
      return;
    }
    for (const row of block.querySelectorAll(".row")) this.prepare(row);
    this.onNew(block);
  }

  /** The tooltip's text goes to the card and to the row's description. */
  prepare(row) {
    const title = row.querySelector("title");
    row.dataset.facts = title.textContent.trim();
    row.querySelector(".name").setAttribute("aria-description", row.dataset.facts);
    title.remove();
    row.querySelector("svg").setAttribute("aria-hidden", "true");
    if (row.classList.contains("turn") || row.classList.contains("run")) this.addButton(row);
  }

  addButton(row) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "fold-button";
    button.tabIndex = -1; // the keys do the same on the row itself
    button.setAttribute("aria-label", row.querySelector(".text").textContent);
    button.setAttribute("aria-expanded", String(!this.foldsAll));
    row.prepend(button);
    if (this.foldsAll) this.folded.add(row.id);
  }

  /** Put a block that was left out into the page. Asked twice, it is fetched once. */
  load(block) {
    block.loading ??= this.fetch(block);
    return block.loading;
  }

  async fetch(block) {
    this.observer.unobserve(block);
    const response = await fetch(`${this.root.dataset.rows}?from=${block.dataset.first}`);
    if (!response.ok) {
      block.loading = null; // its link still works
      return;
    }
    const template = document.createElement("template");
    template.innerHTML = await response.text();
    const written = template.content.querySelector(".block");
    block.replaceWith(written);
    this.adopt(written);
    this.fold();
  }

  /** One pass: what is deeper than a folded row, until a row that is not, is hidden. */
  fold() {
    let limit = Infinity;
    for (const row of this.all()) {
      const depth = Number(row.dataset.depth);
      if (depth <= limit) limit = Infinity;
      row.classList.toggle("folded", depth > limit);
      if (limit === Infinity && this.folded.has(row.id)) limit = depth;
      row.querySelector(".fold-button")?.setAttribute("aria-expanded", !this.folded.has(row.id));
    }
  }

  setFolded(row, isFolded) {
    if (!row.querySelector(".fold-button")) return;
    if (isFolded) this.folded.add(row.id);
    else this.folded.delete(row.id);
    this.fold();
  }

  foldAll() {
    this.foldsAll = !this.foldsAll;
    this.folded.clear();
    if (this.foldsAll)
      for (const row of this.root.querySelectorAll(".row.turn")) this.folded.add(row.id);
    this.fold();
  }

  /** Unfold what hides a row. */
  unfoldTo(row) {
    let depth = Number(row.dataset.depth);
    for (let above = row; above && depth > 0; above = before(above)) {
      if (Number(above.dataset.depth) >= depth) continue;
      depth = Number(above.dataset.depth);
      this.folded.delete(above.id);
    }
    this.fold();
  }
}

const isRow = (element) => element.classList.contains("row");

/** The row before, across blocks; null at the start or at a block that is not here. */
const before = (row) => {
  if (row.previousElementSibling) return row.previousElementSibling;
  const block = row.parentElement.previousElementSibling;
  return block?.lastElementChild && isRow(block.lastElementChild) ? block.lastElementChild : null;
};

/** Where the bars of a row begin and end, as shares. */
const extent = (row) => {
  const bars = [...row.querySelectorAll("rect")].map((bar) =>
    ["x", "width"].map((name) => parseFloat(bar.getAttribute(name)) / 100),
  );
  if (!bars.length) return [0, 1];
  return [Math.min(...bars.map(([x]) => x)), Math.max(...bars.map(([x, width]) => x + width))];
};

// --- the card ------------------------------------------------------------------------------------

class Card {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "hover-card";
    this.element.hidden = true;
    this.element.setAttribute("aria-hidden", "true"); // the row's description says the same
    document.body.append(this.element);
  }

  show(row, x, y) {
    const [title, ...facts] = row.dataset.facts.split(" · ");
    const head = document.createElement("b");
    head.textContent = title;
    this.element.replaceChildren(
      head,
      ...facts.map((fact) => {
        const line = document.createElement("span");
        line.textContent = fact;
        return line;
      }),
    );
    this.element.hidden = false;
    const { width, height } = this.element.getBoundingClientRect();
    const top = y + 18 + height > innerHeight ? y - height - 12 : y + 18;
    this.element.style.setProperty("left", `${clamp(x + 14, 8, innerWidth - width - 8)}px`);
    this.element.style.setProperty("top", `${Math.max(8, top)}px`);
  }

  hide() {
    this.element.hidden = true;
  }
}

// --- everything together -------------------------------------------------------------------------

class Waterfall {
  constructor(root) {
    this.root = root;
    this.section = root.closest("section");
    this.help = this.section.querySelector("[data-help]");
    this.drawer = this.section.querySelector("[data-drawer]");
    this.view = new View(root);
    this.card = new Card();
    this.rows = new Rows(root, () => {});
    this.row = null; // where the keys are
    this.drag = null;
    this.listen();
    this.openFromAddress();
  }

  listen() {
    const { root } = this;
    root.addEventListener("pointermove", (event) => this.onMove(event));
    root.addEventListener("pointerleave", () => this.card.hide());
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointerup", () => (this.drag = null));
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    root.addEventListener("focusin", (event) => this.onFocus(event));
    root.addEventListener("focusout", () => this.card.hide());
    document.addEventListener("keydown", (event) => this.onKey(event));
    const tools = this.section.querySelector("[data-tools]");
    tools.hidden = false;
    tools.addEventListener("click", ({ target }) => this.act(target.closest("button")?.dataset.do));
    this.drawer.addEventListener("close", () => this.onClosed());
    for (const finding of document.querySelectorAll(".finding[data-spans]")) this.tie(finding);
    document.addEventListener("click", (event) => this.onJump(event));
  }

  act(what) {
    const acts = {
      "zoom-in": () => this.view.zoomBy(ZOOM_STEP),
      "zoom-out": () => this.view.zoomBy(1 / ZOOM_STEP),
      "pan-left": () => this.view.panBy(-PAN_STEP * this.view.width),
      "pan-right": () => this.view.panBy(PAN_STEP * this.view.width),
      reset: () => this.view.reset(),
      fold: () => this.rows.foldAll(),
      help: () => (this.help.open ? this.help.close() : this.help.showModal()),
      "next-critical": () => this.jump(1),
      "last-critical": () => this.jump(-1),
      "zoom-row": () => this.row && this.view.show(...extent(this.row)),
      close: () => this.drawer.open && this.drawer.close(),
    };
    acts[what]?.();
  }

  // --- pointer ---

  onMove(event) {
    if (this.drag) {
      const moved = event.clientX - this.drag.x;
      if (!this.drag.isPan && Math.abs(moved) < DRAG_PX) return;
      this.drag.isPan = true;
      this.view.pan = this.drag.pan - (moved / this.view.head.clientWidth) * this.view.width;
      this.view.change();
      this.card.hide();
      return;
    }
    const row = event.pointerType === "touch" ? null : event.target.closest(".row");
    if (row) this.card.show(row, event.clientX, event.clientY);
    else this.card.hide();
  }

  onDown(event) {
    if (event.button === 0 && event.target.closest(".lane"))
      this.drag = { x: event.clientX, pan: this.view.pan, isPan: false };
    this.panned = this.drag;
  }

  onWheel(event) {
    const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !(isPan && this.view.zoom > 1)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey)
      this.view.zoomBy(Math.exp(-event.deltaY / 200), this.view.at(event.clientX));
    else {
      const pixels = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY;
      this.view.panBy((pixels / this.view.head.clientWidth) * this.view.width);
    }
  }

  onClick(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || this.panned?.isPan) return;
    const row = event.target.closest(".row");
    if (!row) return;
    if (event.target.closest(".fold-button")) {
      this.rows.setFolded(row, !this.rows.folded.has(row.id));
    } else if (row.dataset.span) {
      event.preventDefault();
      this.open(row);
    } else if (row.classList.contains("turn")) {
      this.rows.setFolded(row, !this.rows.folded.has(row.id));
    }
  }

  // --- keys ---

  onFocus(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    this.row = row;
    if (!event.target.matches(":focus-visible")) return;
    const { left, top } = row.querySelector(".lane").getBoundingClientRect();
    this.card.show(row, left, top + ROW_PX / 2);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    if (this.help.open && event.key !== "?") return;
    const everywhere = {
      w: "zoom-in", s: "zoom-out", a: "pan-left", d: "pan-right", 0: "reset", f: "fold", z: "zoom-row",
      ".": "next-critical", ",": "last-critical", "?": "help", Escape: "close",
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (everywhere) {
      event.preventDefault();
      this.act(everywhere);
    } else if (this.root.contains(event.target)) {
      this.onRowKey(event);
    }
  }

  onRowKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const rows = this.rows.visible();
      this.go(rows[rows.indexOf(this.row) + step]);
    } else if (this.row && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      event.preventDefault();
      this.rows.setFolded(this.row, event.key === "ArrowLeft");
    } else if (this.row && event.key === "Enter" && !this.row.dataset.span) {
      this.rows.setFolded(this.row, !this.rows.folded.has(this.row.id));
    }
  }

  /** The next step on the critical path; blocks that are not here are fetched on the way. */
  async jump(direction) {
    const steps = [...this.root.querySelectorAll(".row.step.critical, .row.gap.critical, .block.unloaded")];
    if (direction < 0) steps.reverse();
    const isPast = (element) => {
      if (!this.row) return true;
      const place = this.row.compareDocumentPosition(element);
      const wanted =
        direction > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
      return element !== this.row && Boolean(place & wanted);
    };
    const next = steps.find(isPast);
    if (!next) return;
    if (next.classList.contains("unloaded")) {
      await this.rows.load(next);
      if (!next.isConnected) await this.jump(direction);
      return;
    }
    this.go(next);
  }

  go(row) {
    if (!row) return;
    this.rows.unfoldTo(row);
    this.row = row;
    row.querySelector(".name").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    this.view.reveal(...extent(row));
  }

  // --- the step drawer ---

  async open(row) {
    this.choose(row);
    const address = `${this.root.dataset.page}?step=${row.dataset.span}#step-${row.dataset.span}`;
    history.replaceState(null, "", address);
    const body = this.drawer.querySelector(".body");
    const response = await fetch(row.querySelector("a.name").href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.querySelector("#span-detail") ?? page.querySelector("main");
    body.replaceChildren(...part.childNodes);
    if (!this.drawer.open) this.drawer.show();
    this.drawer.scrollTop = 0;
  }

  choose(row) {
    this.root.querySelector(".row.chosen")?.classList.remove("chosen");
    row?.classList.add("chosen");
    this.row = row ?? this.row;
  }

  onClosed() {
    const row = this.root.querySelector(".row.chosen");
    this.drawer.querySelector(".body").replaceChildren();
    this.choose(null);
    history.replaceState(null, "", this.root.dataset.page);
    row?.querySelector(".name").focus({ preventScroll: true });
  }

  /** `?step=` opens a step. A bare `#step-` in a block that is not here becomes one. */
  openFromAddress() {
    const asked = new URLSearchParams(location.search).get("step");
    const hash = /^#step-([0-9a-f]{16})$/.exec(location.hash)?.[1];
    const row = this.rows.bySpan(asked ?? hash ?? "");
    if (row) {
      row.scrollIntoView({ block: "center" });
      if (asked) this.open(row);
    } else if (hash && !asked) {
      location.replace(`${this.root.dataset.page}?step=${hash}${location.hash}`);
    }
  }

  // --- findings ---

  tie(finding) {
    const spans = finding.dataset.spans.split(" ");
    const mark = (isOn) => () => {
      for (const span of spans) this.rows.bySpan(span)?.classList.toggle("hit", isOn);
    };
    finding.addEventListener("pointerenter", mark(true));
    finding.addEventListener("pointerleave", mark(false));
    finding.addEventListener("focusin", mark(true));
    finding.addEventListener("focusout", mark(false));
  }

  onJump(event) {
    const link = event.target.closest("[data-jump]");
    const row = link && this.rows.bySpan(link.dataset.jump);
    if (!row) return; // the link itself leads there
    event.preventDefault();
    this.go(row);
    row.scrollIntoView({ block: "center" });
  }
}

// --- parts that are fetched when they are opened -------------------------------------------------

const loadOnOpen = (details) => {
  details.addEventListener("toggle", async () => {
    if (!details.open || details.dataset.loaded) return;
    details.dataset.loaded = "yes";
    const response = await fetch(details.dataset.load);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.querySelector(details.dataset.part);
    if (part) details.append(...part.childNodes);
  });
};

const root = document.getElementById("waterfall");
if (root) new Waterfall(root);
for (const details of document.querySelectorAll("details[data-load]")) loadOnOpen(details);
