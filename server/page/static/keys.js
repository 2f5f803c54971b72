// The keyboard: what each key does, on every view, and the dialog that tells.

import { h } from "./dom.js";

const KEYS = [
  [["j", "↓"], "the next one"],
  [["k", "↑"], "the one before"],
  [["Home"], "the newest"],
  [["/"], "search, or filter"],
  [["Esc"], "close what is open; leave a field"],
  [["c"], "the conversation of the selected message"],
  [["n"], "write a message"],
  [["1", "…", "7"], "the views, in their order"],
  [["d"], "dark or light"],
  [["?"], "these keys"],
];

/**
 * Listens to keys.
 * @param {(key: string) => boolean} act - does what a key means; returns whether it means anything
 */
export function listenToKeys(act) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    // The arrows scroll a long element that has the focus.
    if (/^(Arrow|Home)/.test(event.key) && event.target.closest(".detail")) return;
    const isWriting = event.target.closest("input, textarea, select");
    if (isWriting && event.key !== "Escape") return;
    if (isWriting) event.target.blur();
    else if (act(event.key)) event.preventDefault();
  });
}

/** Shows which keys there are. */
export function showKeys() {
  const rows = KEYS.flatMap(([keys, what]) => [
    h("dt", {}, keys.flatMap((key) => [key === "…" ? " … " : h("kbd", {}, key), " "])),
    h("dd", {}, what),
  ]);
  const close = h("button.primary", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { "aria-label": "Keyboard", onclose: () => dialog.remove() },
    h("h2", {}, "Keyboard"), h("dl.keys", {}, rows), h("div.actions", {}, close));
  document.body.append(dialog);
  dialog.showModal();
}
