// The timeline: every message, the newest on top, as it comes.

import { completing } from "../agent-names.js";
import * as bus from "../bus.js";
import { detail } from "../detail.js";
import { h } from "../dom.js";
import { fits } from "../filters.js";
import { follow } from "../follow.js";
import { conversationOf, count } from "../format.js";
import { makeRow, showRow } from "../message-row.js";
import { attempt, tellProblem } from "../notice.js";
import { address } from "../route.js";
import { Split } from "../split.js";
import { VirtualList } from "../virtual-list.js";

const PAGE = 200;
// Beyond this number, live messages are dropped: the oldest while the newest are in view, else the
// newest. Both can be loaded again.
const KEEP = 20_000;

export function timeline({ live, parameters }) {
  return new Timeline(live, parameters).view;
}

class Timeline {
  #isLoading = false;
  #isComplete = false;
  #unseen = 0;
  #isBehind = false;  // so many came unseen that they are not kept

  constructor(live, parameters) {
    const { message, ...filters } = parameters;
    this.filters = filters;
    this.list = new VirtualList({
      label: "Messages, the newest first",
      make: makeRow,
      show: showRow,
      onSelect: (item) => this.#open(item.message),
      onEnd: () => this.#loadOlder(),
    });
    this.more = h("button.more.primary", { type: "button", hidden: true, onclick: () => this.#toTop() });
    this.empty = h("p.empty", { hidden: true });
    this.lists = h("div.lists", {}, this.list.element, this.more, this.empty);
    this.split = new Split(this.lists);
    this.list.element.addEventListener("scroll", () => this.#countUnseen(0));
    this.following = follow(live, () => this.#begin(), (messages) => this.#take(messages));
    const element = h("div.view", {}, h("h1.unseen", {}, "Timeline"), this.#bar(), this.split.element);
    this.view = { element, keys: (key) => this.#key(key), close: this.following.stop };
    if (message) attempt(async () => this.#open(await bus.message(message)));
  }

  #bar() {
    const field = (name, label, type = "text") =>
      h("input", { name, type, value: this.filters[name] ?? "", placeholder: label, "aria-label": label, spellcheck: "false", autocomplete: "off" });
    const form = h("form.bar", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      location.hash = address("timeline", "", Object.fromEntries(new FormData(form)));
    } },
    field("q", "Search payloads", "search"), field("type", "Type, like task.*"),
    completing(field("agent", "Agent")), field("conversation", "Conversation"),
    h("button", {}, "Show"),
    this.filters.q ? h("span.muted", {}, "best first; new ones don't appear") : null,
    Object.keys(this.filters).length ? h("a", { href: address("timeline") }, "Clear") : null);
    return form;
  }

  async #begin() {
    this.#isLoading = true;
    this.#isComplete = false;
    this.#isBehind = false;
    this.#tell(this.filters.q ? "Searching …" : "");
    try {
      this.list.replace(this.filters.q ? await this.#search() : await this.#page({}));
    } finally {
      this.#tell("");
      this.#isLoading = false;
    }
  }

  async #search() {
    this.#isComplete = true;
    const { q, ...filters } = this.filters;
    const words = q.match(/"[^"]*"|\S+/g)?.map((word) => word.replaceAll('"', "")).filter(Boolean);
    const found = await bus.search({ ...filters, words, limit: PAGE });
    return found.map(({ message, ...found }) => ({ message, found })).reverse();
  }

  async #page({ before }) {
    const messages = await bus.newest({ ...this.filters, before, limit: PAGE });
    this.#isComplete = messages.length < PAGE;
    return messages.map((message) => ({ message }));
  }

  async #loadOlder() {
    if (this.#isLoading || this.#isComplete || !this.list.length) return;
    this.#isLoading = true;
    const { oldest } = this.list;
    try {
      const items = await this.#page({ before: oldest.message.seq });
      if (this.list.oldest === oldest) this.list.addOlder(items);
    } catch (error) {
      tellProblem(error);
    }
    this.#isLoading = false;
  }

  #take(messages) {
    const last = this.list.newest?.message.seq ?? 0;
    const fresh = this.filters.q ? [] : messages.filter((each) => each.seq > last && fits(this.filters, each));
    const isAway = !this.list.isAtTop;
    this.#isBehind ||= isAway && this.#unseen > KEEP;
    const items = this.#isBehind ? [] : fresh.map((message) => ({ message, fresh: true }));
    if (items.length && this.list.addNewer(items, { keep: KEEP })) this.#isComplete = false;
    this.#countUnseen(isAway ? fresh.length : 0);
    const none = Object.keys(this.filters).length ? "Nothing fits." : "No message yet. They appear here as they are published.";
    this.#tell(this.list.length ? "" : none);
  }

  #tell(text) {
    this.empty.hidden = !text;
    this.empty.textContent = text;
  }

  #countUnseen(more) {
    this.#unseen = this.list.isAtTop ? 0 : this.#unseen + more;
    if (this.#isBehind && !this.#unseen) this.following.again();
    this.more.hidden = !this.#unseen;
    this.more.textContent = `${count(this.#unseen)} new`;
  }

  #toTop() {
    this.list.toTop();
    this.list.element.focus();
  }

  #open(message) {
    this.split.open(detail(message, () => this.#shut()));
  }

  #shut() {
    this.split.shut();
    this.list.element.focus();
  }

  #key(key) {
    const selected = this.list.selected?.message;
    if (key === "j" || key === "ArrowDown") this.list.move(1);
    else if (key === "k" || key === "ArrowUp") this.list.move(-1);
    else if (key === "Home") this.list.toTop();
    else if (key === "/") this.view.element.querySelector("input").focus();
    else if (key === "Escape") this.#shut();
    else if (key === "c" && selected) location.hash = address("conversation", conversationOf(selected));
    else return false;
    return true;
  }
}
