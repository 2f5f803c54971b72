// Asking before something that can't be taken back.

import { h } from "./dom.js";

/** Asks; resolves to whether the person wants it. */
export function confirmed(question, verb) {
  const dialog = h("dialog", { "aria-label": question }, h("form", { method: "dialog" },
    h("p", {}, question),
    h("div.actions", {},
      h("button.primary", { value: "yes" }, verb),
      h("button", { value: "no" }, "Leave it"))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(dialog.returnValue === "yes");
    });
  });
}
