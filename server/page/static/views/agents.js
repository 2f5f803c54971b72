// The agents: whether each is alive, and its present task.

import * as bus from "../bus.js";
import { since } from "../ages.js";
import { agent, h } from "../dom.js";
import { unreadCount } from "../format.js";
import { repeat } from "../repeat.js";
import { address } from "../route.js";
import { Table, tableKeys } from "../table.js";

const KINDS = { alive: ".good", stale: ".warn", dead: ".bad" };

export function agents() {
  const table = new Table("Agents", COLUMNS, "No agent yet. Who publishes, or beats a heart, appears here.");
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Agents")),
    h("div.page", {}, h("section.panel", {}, table.element)));
  const asking = repeat(async () => table.show((await bus.agents()).map(({ age_s, ...lasting }) => lasting)));
  return { element, keys: tableKeys(element), close: asking.stop };
}

const COLUMNS = [
  ["agent", (record) => h("a", { href: address("timeline", "", { agent: record.agent }), "data-stop": record.agent }, agent(record.agent),
    record.session_of ? h("span.muted", {}, ` session of ${record.session_of}`) : "")],
  ["liveness", ({ liveness }) => liveness ? h(`span.tag${KINDS[liveness] ?? ""}`, {}, liveness) : h("span.muted", {}, "no heart")],
  ["unread", (record) => h("a", { href: address("inbox", record.agent) }, unreadCount(record.unread)), "number"],
  ["status", ({ status }) => status ?? ""],
  ["task", ({ task }) => task ?? ""],
  ["progress", ({ progress }) => progress == null ? "" : meter(progress), "nowrap"],
  ["last beat, ago", ({ beat }) => beat ? since(beat) : "", "nowrap"],
  ["pid", ({ pid }) => pid ?? "", "number"],
];

function meter(part) {
  const fill = h("i");
  fill.style.width = `${Math.round(Math.min(1, Math.max(0, part)) * 100)}%`;
  return [h("span.meter", {}, fill), `${Math.round(part * 100)}%`];
}
