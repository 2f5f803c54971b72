// The line under the bar: what went wrong, or what was done.

import { h } from "./dom.js";
import { changeToken } from "./token-dialog.js";

const GOOD_MS = 5000;
let timer = 0;

/** Tells what went wrong, until it is closed or something else is told. */
export function tellProblem(error) {
  const isRefused = error.status === 403;
  tell(error.message ?? String(error), "bad", isRefused ? h("button", { type: "button", onclick: changeToken }, "Another token") : null);
}

/** Tells what was done, for a moment. */
export function tellDone(text) {
  tell(text, "good");
  timer = setTimeout(hush, GOOD_MS);
}

/** Takes the line away. */
export function hush() {
  clearTimeout(timer);
  line().hidden = true;
}

/** Does something that a person asked for; tells when it fails, and then returns undefined. */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    tellProblem(error);
  }
}

function tell(text, kind, offer = null) {
  clearTimeout(timer);
  line().replaceChildren(h("span", {}, text), offer ?? "", h("button.quiet", { type: "button", onclick: hush }, "Close"));
  line().dataset.kind = kind;
  line().hidden = false;
}

function line() {
  return document.querySelector(".notice");
}
