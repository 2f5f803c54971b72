// Unread messages by agent, and messages that failed too often.

import { since } from "../ages.js";
import * as bus from "../bus.js";
import { detail } from "../detail.js";
import { agent, h } from "../dom.js";
import { clock, count, oneLine, unreadCount } from "../format.js";
import { confirmed } from "../confirm.js";
import { attempt, tellDone } from "../notice.js";
import { repeat } from "../repeat.js";
import { address } from "../route.js";
import { Split } from "../split.js";
import { opener, Table, tableKeys } from "../table.js";

const SHOWN = 50;

/** All inboxes. */
export function inboxes({ live }) {
  const table = new Table("Inboxes", [
    ["agent", (record) => h("a", { href: address("inbox", record.agent), "data-stop": record.agent }, agent(record.agent))],
    ["unread", ({ unread }) => h(unread ? "b" : "span.muted", {}, unreadCount(unread)), "number"],
    ["done up to", ({ cursor }) => cursor, "number"],
    ["parked", ({ parked }) => parked ? h("span.tag.bad", {}, count(parked)) : h("span.muted", {}, "0"), "number"],
  ], "No inbox yet.");
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Inboxes")),
    h("div.page", {}, h("section.panel", {}, table.element)));
  return { element, keys: tableKeys(element), close: refreshed(live, async () => table.show(await bus.inboxes())) };
}

/** One inbox. */
export function inbox({ live, subject }) {
  const shut = () => split.shut();
  const open = ({ seq }) => attempt(async () => split.open(detail(await bus.message(seq), shut)));
  const seqOf = ["seq", ({ seq }) => opener(seq, `Message ${seq}`), "number"];
  const parked = new Table("Parked messages", [
    seqOf,
    ["attempts", ({ attempts }) => attempts, "number"],
    ["parked, ago", ({ parked_at }) => since(parked_at), "nowrap"],
    ["error", ({ error }) => error],
    ["", (record) => h("div.actions", {},
      h("button", { type: "button", "aria-label": `Deliver again: ${record.seq}`, onclick: () => attempt(() => requeue(record)) }, "Deliver again"),
      h("button.quiet", { type: "button", "aria-label": `Drop ${record.seq}`, onclick: () => attempt(() => drop(record)) }, "Drop"))],
  ], "Nothing is parked.", open);
  const mail = new Table("Messages that wait", [
    seqOf,
    ["time", ({ ts }) => clock(ts), "nowrap"],
    ["from", ({ from }) => agent(from)],
    ["type", ({ type }) => type],
    ["payload", (message) => h("span.mono.muted", {}, oneLine(message))],
  ], "Nothing waits.", open);
  const cursor = h("span.muted");
  const refresh = async () => {
    const found = await bus.inbox(subject, SHOWN);
    cursor.textContent = `done up to ${found.cursor}`;
    mail.show(found.messages);
    parked.show(await bus.parked(subject));
  };
  const requeue = async ({ seq }) => {
    await bus.requeueParked(subject, [seq]);
    tellDone(`${seq} is delivered to ${subject} again`);
    await refresh();
  };
  const drop = async ({ seq }) => {
    if (!await confirmed(`Give ${seq} up for ${subject}? It stays in the log.`, "Drop it")) return;
    await bus.dropParked(subject, [seq]);
    await refresh();
  };
  const split = new Split(h("div.page", {},
    h("section.panel", {}, h("header", {}, h("h2", {}, "Parked")), parked.element),
    h("section.panel", {}, h("header", {}, h("h2", {}, "Waiting"), h("span.muted", {}, `the first ${SHOWN}`)), mail.element)));
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Inbox of ", subject), cursor, h("a", { href: address("inboxes") }, "All inboxes")),
    split.element);
  const tables = tableKeys(element);
  const keys = (key) => key === "Escape" ? (shut(), true) : tables(key);
  return { element, keys, close: refreshed(live, refresh) };
}

/** Asks again and again, and at once when a message comes; returns what ends that. */
function refreshed(live, act) {
  const asking = repeat(act);
  live.addEventListener("messages", asking.soon);
  return () => (live.removeEventListener("messages", asking.soon), asking.stop());
}
