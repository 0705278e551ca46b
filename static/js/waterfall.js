// The waterfall's second half. The server has written rows that read and print without any of
// this; here they get zoom and pan, folding, keys, a card and a drawer, and long traces arrive
// block by block.

import { Card } from "./waterfall/card.js";
import { Drawer } from "./waterfall/drawer.js";
import { Pointer } from "./waterfall/pointer.js";
import { ROW_PX, Rows, extent } from "./waterfall/rows.js";
import { View } from "./waterfall/view.js";

const ZOOM_STEP = 1.4;
const PAN_STEP = 0.15; // of what is seen

const KEYS = {
  w: "zoom-in", s: "zoom-out", a: "pan-left", d: "pan-right", 0: "reset", f: "fold", z: "zoom-row",
  ".": "next-critical", ",": "last-critical", "?": "help", Escape: "close",
};

class Waterfall {
  constructor(root) {
    this.root = root;
    this.section = root.closest("section");
    this.help = this.section.querySelector("[data-help]");
    this.view = new View(root);
    this.card = new Card();
    this.rows = new Rows(root);
    this.drawer = new Drawer(this.section.querySelector("[data-drawer]"), root, this.rows);
    this.pointer = new Pointer(root, this.view, this.card);
    this.row = null; // where the keys are
    this.listen();
    this.drawer.openFromAddress();
  }

  listen() {
    const { root } = this;
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("focusin", (event) => this.onFocus(event));
    root.addEventListener("focusout", () => this.card.hide());
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("click", (event) => this.onJump(event));
    const tools = this.section.querySelector("[data-tools]");
    tools.hidden = false;
    tools.addEventListener("click", ({ target }) => this.act(target.closest("button")?.dataset.do));
    for (const finding of document.querySelectorAll(".finding[data-spans]")) this.tie(finding);
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
      close: () => this.drawer.close(),
    };
    acts[what]?.();
  }

  onClick(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || this.pointer.hasMoved) return;
    const row = event.target.closest(".row");
    if (!row) return;
    const isFold = event.target.closest(".fold-button") || row.classList.contains("turn");
    if (!isFold && row.dataset.span) {
      event.preventDefault();
      this.row = row;
      this.drawer.open(row);
    } else if (isFold) {
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
    const everywhere = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
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

  /** The next step on the critical path. */
  async jump(direction) {
    const row = await this.rows.nextCritical(this.row, direction);
    if (row) this.go(row);
  }

  go(row) {
    if (!row) return;
    this.rows.unfoldTo(row);
    this.row = row;
    row.querySelector(".name").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    this.view.reveal(...extent(row));
  }

  // --- findings ---

  /** A finding under the pointer or the focus marks its steps. */
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

const root = document.getElementById("waterfall");
if (root) new Waterfall(root);
