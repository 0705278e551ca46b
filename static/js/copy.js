// A button beside what is there to be copied. Browsers lend the clipboard to safe pages only
// (https, or this machine): elsewhere one selects by hand.
const DONE_MS = 2_000;

const addButton = (snippet) => {
  const words = document.body.dataset;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button copy";
  button.textContent = words.wordCopy;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(snippet.textContent);
    button.textContent = words.wordCopied;
    setTimeout(() => (button.textContent = words.wordCopy), DONE_MS);
  });
  const frame = document.createElement("div");
  frame.className = "copyable";
  snippet.replaceWith(frame);
  frame.append(snippet, button);
};

if (navigator.clipboard) for (const snippet of document.querySelectorAll("[data-copy]")) addButton(snippet);
