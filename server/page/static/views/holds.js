// Leases, and files reserved for editing.

import { until } from "../ages.js";
import * as bus from "../bus.js";
import { agent, h } from "../dom.js";
import { repeat } from "../repeat.js";
import { Table, tableKeys } from "../table.js";

export function holds() {
  const leases = new Table("Leases", [
    ["lease", ({ name }) => h("span", { tabindex: 0, "data-stop": name }, name)],
    ["holder", ({ holder }) => agent(holder)],
    ["token", ({ token }) => token, "number"],
    ["ends in", (lease) => until(lease.until), "number"],
  ], "Nobody holds a lease.");
  const reservations = new Table("Reservations", [
    ["files", ({ path }) => h("span.mono", { tabindex: 0, "data-stop": path }, path)],
    ["agent", (record) => agent(record.agent)],
    ["how", ({ mode }) => h("span.tag", {}, mode)],
    ["reason", ({ reason }) => reason ?? ""],
    ["ends in", (record) => until(record.until), "number"],
  ], "No file is reserved.");
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Leases and reservations")),
    h("div.page", {},
      h("section.panel", {}, h("header", {}, h("h2", {}, "Leases")), leases.element),
      h("section.panel", {}, h("header", {}, h("h2", {}, "Reserved files")), reservations.element)));
  const asking = repeat(async () => {
    leases.show(await bus.leases());
    reservations.show(await bus.reservations());
  });
  return { element, keys: tableKeys(element), close: asking.stop };
}
