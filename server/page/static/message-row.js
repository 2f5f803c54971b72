// A message as a row of a list. Rows are used again for other messages.

import { agent, h } from "./dom.js";
import { clock, oneLine } from "./format.js";

/** An empty row. */
export function makeRow() {
  return h("div.row", { onanimationend: ({ currentTarget }) => currentTarget.classList.remove("fresh") });
}

/** Shows a message in a row; `found` has where a search found it. One is fresh a single time. */
export function showRow(row, item) {
  const { message, found } = item;
  row.classList.toggle("fresh", Boolean(item.fresh));
  item.fresh = false;
  const to = message.to == null ? h("span.muted", {}, "all") : agent(message.to);
  row.replaceChildren(
    h("span.seq", {}, message.seq),
    h("time.time", { datetime: message.ts }, clock(message.ts)),
    h("span.who", {}, agent(message.from), h("span.muted", {}, "→"), to),
    h("span.type.cut", { title: message.type }, message.type),
    h("span.what.cut", {}, found ? marked(found) : oneLine(message)));
}

/** The piece of a payload that a search found, with the words that were looked for. */
function marked({ snippet, marks }) {
  const letters = [...snippet];  // marks count characters, and a string here counts in UTF-16
  const parts = [];
  let at = 0;
  for (const [start, end] of marks) {
    parts.push(letters.slice(at, start).join(""), h("mark", {}, letters.slice(start, end).join("")));
    at = end;
  }
  return [...parts, letters.slice(at).join("")];
}
