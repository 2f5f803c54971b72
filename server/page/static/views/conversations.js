// The conversations that the newest messages belong to.

import { since } from "../ages.js";
import * as bus from "../bus.js";
import { agent, h } from "../dom.js";
import { follow } from "../follow.js";
import { conversationOf, count, oneLine } from "../format.js";
import { address } from "../route.js";
import { Table, tableKeys } from "../table.js";

const LOOKED_AT = 1000;
const SHOWN = 100;
const SHOWN_AGENTS = 4;
const SHOWN_ID = 8;
const EVERY_MS = 500;

export function conversations({ live }) {
  const known = new Map();
  const table = new Table("Conversations", COLUMNS, "No message yet.");
  let timer = 0;
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter conversations", oninput: () => show() });
  const show = () => {
    timer = 0;
    const wanted = filter.value.trim().toLowerCase();
    const found = [...known.values()].filter((record) => textOf(record).includes(wanted));
    table.empty.textContent = known.size ? "No conversation fits." : "No message yet.";
    table.show(found.sort((one, other) => other.seq - one.seq).slice(0, SHOWN));
  };
  const take = (messages) => {
    for (const message of messages) add(known, message);
    timer ||= setTimeout(show, EVERY_MS);
  };
  const read = async () => {
    const messages = await bus.newest({ limit: LOOKED_AT });
    known.clear();
    for (const message of messages) add(known, message);
    show();
  };
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Conversations"), h("span.muted", {}, `of the newest ${count(LOOKED_AT)} messages and what comes`), filter),
    h("div.page", {}, h("section.panel", {}, table.element)));
  const tables = tableKeys(element);
  const keys = (key) => key === "/" ? (filter.focus(), true) : tables(key);
  return { element, keys, close: follow(live, read, take).stop };
}

const COLUMNS = [
  ["last, ago", ({ ts }) => since(ts), "nowrap"],
  ["conversation", ({ id, first }) => h("a", { href: address("conversation", id), "data-stop": id, title: id }, first)],
  ["id", ({ id }) => h("code.muted", { title: id }, ending(id)), "nowrap"],
  ["agents", ({ agents }) => h("span.who", {}, agents.slice(0, SHOWN_AGENTS).map(agent),
    agents.length > SHOWN_AGENTS ? h("span.muted", {}, `+${agents.length - SHOWN_AGENTS}`) : null)],
  ["messages", (record) => count(record.messages), "number"],
  ["newest", ({ type }) => type],
  ["says", ({ says }) => h("div.mono.muted.cut", { title: says }, says), "fill"],
];

/** The end of an id: those that the bus makes begin with their time, and alike. */
function ending(id) {
  return id.length > SHOWN_ID ? `…${id.slice(-SHOWN_ID)}` : id;
}

/** The text that a filter searches. */
function textOf({ id, first, type, says, agents }) {
  return [id, first, type, says, ...agents].join(" ").toLowerCase();
}

function add(known, message) {
  const id = conversationOf(message);
  const record = known.get(id) ?? { id, first: message.type, agents: [], messages: 0, seq: 0 };
  if (message.seq <= record.seq) return;
  record.seq = message.seq;
  record.ts = message.ts;
  record.type = message.type;
  record.says = oneLine(message);
  record.messages += 1;
  for (const name of [message.from, message.to]) {
    if (name != null && !record.agents.includes(name)) record.agents.push(name);
  }
  known.delete(id);
  known.set(id, record);
  // The first is the one that has been still for longest.
  if (known.size > LOOKED_AT) known.delete(known.keys().next().value);
}
