// Plotly charts, drawn when they come near. The library is large and the tables say the same, so
// nothing waits for it.
const charts = [...document.querySelectorAll("[data-chart]")];
let library = null;

const loadPlotly = (src) => {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = src;
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => reject(new Error(`cannot load ${src}`));
    document.head.append(script);
  });
  return library;
};

// `var(--name)` as the theme has it now. A probe element resolves what a variable only names.
const resolver = () => {
  const probe = document.createElement("i");
  document.body.append(probe);
  const known = new Map();
  const resolve = (text) => {
    if (!known.has(text)) {
      const isFont = text === "var(--sans)";
      probe.style.setProperty(isFont ? "font-family" : "color", text);
      const computed = getComputedStyle(probe);
      known.set(text, isFont ? computed.fontFamily : computed.color);
    }
    return known.get(text);
  };
  const walk = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? resolve(value) : value;
    if (Array.isArray(value)) return value.map(walk);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner)]));
    return value;
  };
  return { walk, done: () => probe.remove() };
};

const draw = async (chart) => {
  const figure = JSON.parse(document.getElementById(chart.dataset.chart).textContent);
  try {
    const plotly = await loadPlotly(chart.dataset.plotly);
    const { walk, done } = resolver();
    const { data, layout } = walk(figure);
    done();
    await plotly.react(chart, data, layout, { displayModeBar: false, responsive: true });
    chart.dataset.drawn = "yes";
  } catch (error) {
    const words = document.createElement("p");
    words.textContent = error.message;
    chart.replaceChildren(words);
  }
};

const near = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  },
  { rootMargin: "400px" },
);
for (const chart of charts) near.observe(chart);

document.addEventListener("themechange", () => {
  for (const chart of charts) if (chart.dataset.drawn) draw(chart);
});
