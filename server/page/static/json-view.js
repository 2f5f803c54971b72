// A JSON value, indented and coloured, with long and deep parts folded. Everything is text.

import { h } from "./dom.js";
import { count, visible } from "./format.js";
import { isExact } from "./json.js";

const OPEN_LEVELS = 3;
// A part with more entries is folded at first, and shown so many at a time.
const MANY = 200;
// Of a longer text this much is shown at first: to lay out megabytes takes seconds.
const LONG = 100_000;

/** A value as an element. */
export function jsonView(value) {
  const inside = typeof value === "string" ? text(visible(value)) : node(value, 0);
  return h("pre.payload", { tabindex: 0, "aria-label": "Payload" }, inside);
}

function node(value, level) {
  if (typeof value === "string") return h("span.string", {}, text(visible(JSON.stringify(value))));
  if (typeof value === "number") return h("span.figure", {}, value);
  if (isExact(value)) return h("span.figure", {}, value.rawJSON);
  if (value === null || typeof value === "boolean") return h("span.figure", {}, String(value));
  const isArray = Array.isArray(value);
  const brackets = isArray ? "[]" : "{}";
  const entries = isArray ? value.map((each) => [null, each]) : Object.entries(value);
  return entries.length ? folding(entries, level, brackets) : brackets;
}

function text(whole) {
  if (whole.length <= LONG) return whole;
  const more = h("button.fold", { type: "button" }, `${count(whole.length - LONG)} more …`);
  more.addEventListener("click", () => {
    const { parentNode } = more;
    more.replaceWith(whole.slice(LONG));
    parentNode.normalize();  // a letter of two halves may have been cut
  });
  return [whole.slice(0, LONG), more];
}

/** A part that can be folded. It is made when it is opened, so a large one costs what is seen. */
function folding(entries, level, [open, close]) {
  const inside = h("span");
  const button = h("button.fold", { type: "button", onclick: () => turn() });
  const turn = (isOpen = !inside.firstChild) => {
    button.setAttribute("aria-expanded", isOpen);
    button.textContent = isOpen ? open : `${open} ${entries.length} … ${close}`;
    inside.replaceChildren();
    if (!isOpen) return;
    inside.append("\n");
    addEntries(inside, entries, level + 1, 0);
    inside.append("  ".repeat(level), close);
  };
  turn(level < OPEN_LEVELS && entries.length <= MANY);
  return h("span", {}, button, inside);
}

function addEntries(inside, entries, level, from) {
  const pad = "  ".repeat(level);
  const part = h("span");
  for (const [key, value] of entries.slice(from, from + MANY)) {
    const name = key === null ? [] : [h("span.key", {}, visible(JSON.stringify(key))), ": "];
    part.append(pad, ...name, node(value, level), ",\n");
  }
  inside.append(part);
  const left = entries.length - from - MANY;
  if (left <= 0) return part.lastChild.replaceWith("\n");
  const more = h("button.fold", { type: "button" }, `${left} more …`);
  const line = h("span", {}, pad, more, "\n");
  more.addEventListener("click", () => {
    const rest = h("span");
    addEntries(rest, entries, level, from + MANY);
    line.replaceWith(rest);
  });
  inside.append(line);
}
