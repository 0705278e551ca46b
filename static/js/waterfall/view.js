// Zoom and pan. Every lane is as wide as --zoom says and stands where --pan says, so moving the
// picture sets two numbers and touches no row.

import { Axis } from "./axis.js";
import { clamp, percent } from "./numbers.js";

const MAX_ZOOM = 5000; // a lane of five million pixels: the browser's own limit is six times that
const TICKS = 8;
const LABEL_PX = 64; // room that a label of the axis needs
const LAST_SHARE = 0.06; // of the picture, at its right end
const SVG = "http://www.w3.org/2000/svg";

const svg = (name, attributes, text = "") => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

export class View {
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

  /** Zoom, and bring a share of the axis to a place on the screen. */
  place(share, clientX, zoom) {
    const box = this.head.getBoundingClientRect();
    this.zoom = clamp(zoom, 1, MAX_ZOOM);
    this.pan = share - ((clientX - box.left) / box.width) * this.width;
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

  /** Behind its line, or before it where the picture ends. */
  labelPlace(share) {
    const isLast = share - this.pan > this.width * (1 - LAST_SHARE);
    return { x: percent(share), y: 17, dx: isLast ? -3 : 3, class: isLast ? "before" : "" };
  }

  draw() {
    this.root.style.setProperty("--zoom", this.zoom);
    this.root.style.setProperty("--pan", this.pan);
    const room = clamp(Math.floor(this.head.clientWidth / LABEL_PX), 2, TICKS);
    const ticks = this.axis.ticks(this.pan, this.pan + this.width, room);
    this.ticks.replaceChildren(
      ...ticks.map(({ share, label }) => svg("text", this.labelPlace(share), label)),
    );
    this.grid.replaceChildren(
      ...ticks.map(({ share }) => {
        const x = percent(share);
        return svg("line", { class: "grid-line", x1: x, x2: x, y1: 0, y2: "100%" });
      }),
    );
  }
}
