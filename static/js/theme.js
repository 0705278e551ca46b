// Light or dark: as the system says, until somebody chooses. Not a module: it must run before the
// first paint, or the page would flash in the other theme.
(() => {
  const KEY = "tracebudget-theme";
  const root = document.documentElement;

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden: the choice lasts as long as the page
    }
  };

  const isDark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;

  const choose = (theme) => {
    root.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // see above
    }
    document.dispatchEvent(new Event("themechange"));
  };

  const theme = stored();
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  document.addEventListener("DOMContentLoaded", () => {
    const toggle = document.querySelector("[data-theme-toggle]");
    if (!toggle) return;
    toggle.hidden = false;
    toggle.addEventListener("click", () => choose(isDark() ? "light" : "dark"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("themechange")),
  );
})();
