// Rows: they arrive in blocks, fold, and know their neighbours.

const NEAR = "1500px"; // blocks that come so near are loaded

export const ROW_PX = 28;

export class Rows {
  constructor(root) {
    this.root = root;
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
  }

  /** The tooltip's text goes to the card and to the row's description. */
  prepare(row) {
    const title = row.querySelector("title");
    row.dataset.facts = title.textContent.trim();
    row.querySelector(".name").setAttribute("aria-description", row.dataset.facts);
    title.remove();
    row.querySelector("svg").setAttribute("aria-hidden", "true");
    if (row.classList.contains("parent")) this.addButton(row);
  }

  addButton(row) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "fold-button";
    button.tabIndex = -1; // the keys do the same on the row itself
    button.setAttribute("aria-label", row.querySelector(".text").textContent);
    button.setAttribute("aria-expanded", String(!this.foldsAll));
    row.prepend(button);
    if (this.foldsAll && row.classList.contains("turn")) this.folded.add(row.id);
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

  /** The next row on the critical path before (-1) or after (1) another, or null; blocks that are
   * not here are fetched on the way. */
  async nextCritical(from, direction) {
    const marked = ".row.step.critical, .row.gap.critical, .block.unloaded";
    const found = [...this.root.querySelectorAll(marked)];
    if (direction < 0) found.reverse();
    const wanted =
      direction > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
    const next = found.find(
      (element) => element !== from && (!from || from.compareDocumentPosition(element) & wanted),
    );
    if (!next?.classList.contains("unloaded")) return next ?? null;
    await this.load(next);
    return next.isConnected ? null : this.nextCritical(from, direction);
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
export const extent = (row) => {
  const bars = [...row.querySelectorAll("rect")].map((bar) =>
    ["x", "width"].map((name) => parseFloat(bar.getAttribute(name)) / 100),
  );
  if (!bars.length) return [0, 1];
  return [Math.min(...bars.map(([x]) => x)), Math.max(...bars.map(([x, width]) => x + width))];
};
