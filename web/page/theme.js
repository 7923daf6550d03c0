// Ahead of the first paint: the theme that was chosen.
try {
  const theme = localStorage.getItem("zplan.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the system's theme holds.
}
