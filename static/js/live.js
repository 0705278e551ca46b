// A part of the page that waits for something: it is asked for again, ever more rarely, and only
// while somebody looks. It says by `data-live` that it still waits; a page without it has got what
// this one waits for.
const FIRST_MS = 2_000;
const LAST_MS = 20_000;
const GROWTH = 1.2;
const GIVE_UP_MS = 60 * 60_000; // a page left open over night asks nothing

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const seen = () =>
  document.hidden
    ? new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }))
    : null;

/** The same part as it is now; null when the page has it no more, undefined when nobody answers. */
const ask = async (id) => {
  try {
    const response = await fetch(location.href);
    if (!response.ok) return undefined;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return page.getElementById(id);
  } catch {
    return undefined;
  }
};

const wait = async (part) => {
  const end = performance.now() + GIVE_UP_MS;
  for (let pause = FIRST_MS; performance.now() < end; pause = Math.min(pause * GROWTH, LAST_MS)) {
    await sleep(pause);
    await seen();
    const fresh = await ask(part.id);
    if (fresh === undefined) continue;
    if (fresh === null) return location.reload();
    // What says the same stays, or screen readers would read it out again and again.
    if (fresh.className === part.className) continue;
    part.className = fresh.className;
    part.replaceChildren(...fresh.childNodes);
    part.dispatchEvent(new CustomEvent("fresh", { bubbles: true }));
    if (!("live" in fresh.dataset)) return undefined;
  }
  return undefined;
};

for (const part of document.querySelectorAll("[data-live]")) wait(part);
