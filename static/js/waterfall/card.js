// The card beside the pointer or the focus: what a row is, a fact a line.

import { clamp } from "./numbers.js";

export class Card {
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
