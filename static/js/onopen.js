// Parts that are fetched when they are opened: without scripts, the link inside leads to them.

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

for (const details of document.querySelectorAll("details[data-load]")) loadOnOpen(details);
