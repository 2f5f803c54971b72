// Dark or light: as the system has it, until the person says otherwise.

const KEY = "ackbus.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  const chosen = localStorage.getItem(KEY);
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
}

/** Follows the system, or what was chosen. */
export function startTheme() {
  apply();
  dark.addEventListener("change", apply);
}

/** Turns to the other one, and remembers it. */
export function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, next);
  apply();
}
