// Sets the theme ahead of the first paint: the one that was chosen, else the system's, which it follows. Loaded as a script of its own, so that
// it runs before anything is drawn.
"use strict";
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
