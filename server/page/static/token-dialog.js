// Asking a person for a token.

import { h } from "./dom.js";
import { keepToken } from "./token.js";

let asking = null;

/** Asks for a token until there is one; several that need it wait for the same answer. */
export function askForToken(why) {
  asking ??= ask(why).finally(() => (asking = null));
  return asking;
}

function ask(why) {
  const input = h("input", {
    type: "password", name: "token", required: true, autocomplete: "off",
    spellcheck: "false", placeholder: "bus_…", "aria-label": "Token",
  });
  const form = h("form", { method: "dialog" },
    h("h2", {}, "This bus asks for a token"),
    h("p.muted", {}, "Make one with ", h("code", {}, "bus token create"),
      ". It is kept in this tab only, until you close it."),
    why ? h("p.bad", {}, why) : null,
    input,
    h("div.actions", {}, h("button.primary", {}, "Open")));
  const dialog = h("dialog", { id: "token", oncancel: (event) => event.preventDefault() }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => {
    form.addEventListener("submit", () => {
      keepToken(input.value.trim());
      dialog.remove();
      done();
    });
  });
}
