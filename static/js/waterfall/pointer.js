// Mouse, pen and fingers on the lanes: drag to pan, two fingers or Ctrl and wheel to zoom.

const DRAG_PX = 4; // less is a click
const WHEEL_STEP = 200; // wheel pixels for a zoom by e

const isSideways = (event) => event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);

export class Pointer {
  constructor(root, view, card) {
    this.root = root;
    this.view = view;
    this.card = card;
    this.down = new Map(); // what is held down on a lane, by pointer id
    this.held = null; // the picture when the last of them came or went
    this.hasMoved = false; // since the first came: then the click that follows is none
    root.classList.add("live");
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointermove", (event) => this.onMove(event));
    root.addEventListener("pointerleave", () => this.card.hide());
    for (const end of ["pointerup", "pointercancel"])
      root.addEventListener(end, (event) => this.onUp(event));
    root.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
  }

  onDown(event) {
    if (event.button !== 0 || !event.target.closest(".lane")) {
      this.hasMoved = false;
      return;
    }
    if (!this.down.size) this.hasMoved = false;
    this.down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.hold();
  }

  onUp(event) {
    if (this.down.delete(event.pointerId) && this.down.size) this.hold();
  }

  onMove(event) {
    if (!this.down.has(event.pointerId)) {
      this.hover(event);
      return;
    }
    this.down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const { x, spread } = this.middle();
    if (!this.hasMoved && this.down.size === 1 && Math.abs(x - this.held.x) < DRAG_PX) return;
    if (!this.hasMoved) this.root.setPointerCapture(event.pointerId);
    this.hasMoved = true;
    this.card.hide();
    this.view.place(this.held.share, x, this.held.zoom * (spread / this.held.spread));
  }

  /** What is under the fingers stays under them. */
  hold() {
    const { x, spread } = this.middle();
    this.held = { x, spread, share: this.view.at(x), zoom: this.view.zoom };
  }

  middle() {
    const [first, second = first] = this.down.values();
    const spread = Math.hypot(first.x - second.x, first.y - second.y);
    return { x: (first.x + second.x) / 2, spread: spread || 1 };
  }

  hover(event) {
    const row = event.pointerType === "touch" ? null : event.target.closest(".row");
    if (row) this.card.show(row, event.clientX, event.clientY);
    else this.card.hide();
  }

  onWheel(event) {
    const isPan = isSideways(event);
    if (!event.ctrlKey && !(isPan && this.view.zoom > 1)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey)
      this.view.zoomBy(Math.exp(-event.deltaY / WHEEL_STEP), this.view.at(event.clientX));
    else this.view.panBy(((event.deltaX || event.deltaY) / this.view.head.clientWidth) * this.view.width);
  }
}
