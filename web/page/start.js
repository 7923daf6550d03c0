// What does not wait for the page's modules: the theme, which is there ahead of the first paint, and the engine, which is compiled meanwhile.
"use strict";

/** The engine's first worker, and what it said before anyone listened. */
const zplanEarly = { worker: new Worker("engine/worker.js"), said: [] };
zplanEarly.worker.onmessage = ({ data }) => zplanEarly.said.push(data);
zplanEarly.worker.onerror = (event) => zplanEarly.said.push({ failed: event.message || "engine/worker.js could not be loaded" });
zplanEarly.worker.postMessage({ start: true });

/** The theme that was chosen, else the system's, which it follows. */
const zplanTheme = (() => {
  const KEY = "zplan.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const apply = (name) => (document.documentElement.dataset.theme = name === "dark" || name === "light" ? name : system.matches ? "dark" : "light");
  system.addEventListener("change", () => apply(chosen()));
  apply(chosen());
  return {
    toggle() {
      const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      apply(name);
      try {
        localStorage.setItem(KEY, name);
      } catch {
        // Without storage it holds until the page is left.
      }
    },
  };
})();
