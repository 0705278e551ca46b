// What scrolls sideways can be scrolled by keys: browsers differ in whether they let one into a box
// that holds nothing to focus. A box that shows everything is no stop.
const BOXES = ".scroll, pre.snippet";
const FOCUSABLE = "a, button, input, select, textarea, summary, [tabindex]";

const update = (box) => {
  const isStop = box.scrollWidth > box.clientWidth && !box.querySelector(FOCUSABLE);
  if (isStop) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    const name = box.querySelector("caption")?.textContent ?? box.previousElementSibling?.textContent;
    if (name) box.setAttribute("aria-label", name);
  } else {
    box.removeAttribute("tabindex");
  }
};

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) update(target);
});
for (const box of document.querySelectorAll(BOXES)) sizes.observe(box);
