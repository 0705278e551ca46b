// The drawer: a step with its attributes and findings, beside the picture. Its address leads back.

export class Drawer {
  constructor(element, root, rows) {
    this.element = element;
    this.root = root;
    this.rows = rows;
    element.addEventListener("close", () => this.onClosed());
  }

  get row() {
    return this.root.querySelector(".row.chosen");
  }

  async open(row) {
    this.mark(row);
    history.replaceState(null, "", this.addressOf(row));
    const response = await fetch(row.querySelector("a.name").href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.querySelector("#span-detail") ?? page.querySelector("main");
    this.element.querySelector(".body").replaceChildren(...part.childNodes);
    if (!this.element.open) this.element.show();
    this.element.scrollTop = 0;
  }

  close() {
    if (this.element.open) this.element.close();
  }

  addressOf(row) {
    return `${this.root.dataset.page}?step=${row.dataset.span}#step-${row.dataset.span}`;
  }

  mark(row) {
    this.row?.classList.remove("chosen");
    row?.classList.add("chosen");
  }

  onClosed() {
    const row = this.row;
    this.element.querySelector(".body").replaceChildren();
    this.mark(null);
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
}
