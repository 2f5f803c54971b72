// Asking a person for a token.

import { h } from "./dom.js";
import { hearToken, keepToken } from "./token.js";

let asking = null;

/**
 * Asks for a token until there is one; several that need it wait for the same answer.
 * @param {string|null} refused - the token that was no good
 * @param {string} why - what the server said of it
 */
export function askForToken(refused, why) {
  asking ??= ask(refused, why).finally(() => (asking = null));
  return asking;
}

function ask(refused, why) {
  const input = h("input", {
    type: "password", name: "token", required: true, autocomplete: "off",
    spellcheck: "false", placeholder: "bus_…", "aria-label": "Token",
  });
  const form = h("form", { method: "dialog" },
    h("h2", { id: "token-title" }, "This bus asks for a token"),
    h("p.muted", {}, "Make one to look at all there is: ",
      h("code", {}, "bus token create me --scope messages:ro --scope work:ro"),
      ". It is kept in the open tabs of this page only."),
    refused ? h("p.bad", {}, why) : null,
    input,
    h("div.actions", {}, h("button.primary", {}, "Open")));
  const dialog = h("dialog", { id: "token", "aria-labelledby": "token-title", oncancel: (event) => event.preventDefault() }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => {
    const over = new AbortController();
    const take = (token) => {
      keepToken(token);
      over.abort();
      dialog.remove();
      done();
    };
    form.addEventListener("submit", () => take(input.value.trim()));
    hearToken((token) => token !== refused && take(token), over.signal);
  });
}
