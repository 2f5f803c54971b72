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

/** Begins again with another token, if the person has one that may do more. */
export async function changeToken() {
  const form = formOf("Another token", null);
  form.lastChild.append(h("button", { type: "button", onclick: () => dialog.close() }, "Keep this one"));
  form.addEventListener("submit", () => (keepToken(given(form)), location.reload()));
  const dialog = opened(form, { onclose: () => dialog.remove() });
}

function ask(refused, why) {
  const form = formOf("This bus asks for a token", refused && why);
  const dialog = opened(form, { oncancel: (event) => event.preventDefault() });
  return new Promise((done) => {
    const over = new AbortController();
    const take = (token) => {
      keepToken(token);
      over.abort();
      dialog.remove();
      done();
    };
    form.addEventListener("submit", () => take(given(form)));
    hearToken((token) => token !== refused && take(token), over.signal);
  });
}

function formOf(title, why) {
  return h("form", { method: "dialog" },
    h("h2", { id: "token-title" }, title),
    h("p.muted", {}, "Make one to look at all there is: ",
      h("code", {}, "bus token create me --scope messages:ro --scope work:ro"),
      ". It is kept in the open tabs of this page only."),
    why ? h("p.bad", {}, why) : null,
    h("input", {
      type: "password", name: "token", required: true, autocomplete: "off",
      spellcheck: "false", placeholder: "bus_…", "aria-label": "Token",
    }),
    h("div.actions", {}, h("button.primary", {}, "Open")));
}

function given(form) {
  return form.elements.token.value.trim();
}

function opened(form, listeners) {
  const dialog = h("dialog", { id: "token", "aria-labelledby": "token-title", ...listeners }, form);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
