// Writing a message, as a person.

import { completing } from "../agent-names.js";
import * as bus from "../bus.js";
import { confirmed } from "../confirm.js";
import { h } from "../dom.js";
import { conversationOf } from "../format.js";
import { parse } from "../json.js";
import { attempt, hush } from "../notice.js";
import { address } from "../route.js";

const NAME = "ackbus.name";
const PRIORITIES = ["interactive", "normal", "background"];

export function compose({ parameters }) {
  return new Compose(parameters).view;
}

class Compose {
  // The same until the message is stored or changed: sent again, after a broken connection, it is no other.
  #id = newId();

  constructor(parameters) {
    this.said = h("p.said", { role: "status" });
    this.kind = h("span.muted");
    this.form = this.#form(parameters);
    const element = h("div.view", {}, h("div.bar", {}, h("h1", {}, "Write a message")),
      h("div.page", {}, h("section.panel", {}, this.form)));
    this.view = { element, keys: () => false };
    if (parameters.reply) attempt(() => this.#answer(parameters.reply));
  }

  #form({ to }) {
    const payload = h("textarea", { name: "payload", spellcheck: "true", oninput: () => this.#tellKind() });
    const input = (name, more) => h("input", { name, autocomplete: "off", spellcheck: "false", ...more });
    const field = (name, label, more = {}) => h("label", {}, label, input(name, more));
    const onsubmit = (event) => (event.preventDefault(), attempt(() => this.#send()));
    return h("form.form", { onsubmit, oninput: () => (this.#id = newId()) },
      h("div.pair", {},
        field("from", "From: your name on the bus", { required: true, value: localStorage.getItem(NAME) ?? "human" }),
        h("label", {}, "To: an agent, or empty for everyone", completing(input("to", { value: to })))),
      h("div.pair", {},
        field("type", "Type", { required: true, value: "message" }),
        h("label", {}, "Priority", h("select", { name: "priority" },
          PRIORITIES.map((each) => h("option", { selected: each === "normal" }, each))))),
      h("div.pair", {},
        field("correlation_id", "Conversation: empty begins one"),
        field("in_reply_to", "In reply to: the id of a message")),
      h("label", {}, h("span", {}, "Payload: JSON, or plain text ", this.kind), payload),
      h("div.actions", {}, h("button.primary", {}, "Publish"), this.said));
  }

  async #answer(seq) {
    const message = await bus.message(seq);
    const { to, correlation_id, in_reply_to } = this.form.elements;
    to.value = message.from;
    correlation_id.value = conversationOf(message);
    in_reply_to.value = message.id;
    this.form.elements.payload.focus();
  }

  #tellKind() {
    const text = this.form.elements.payload.value;
    this.kind.textContent = text === "" ? "" : isJson(text) ? "– sent as JSON" : isMeantAsJson(text) ? "– not JSON" : "– sent as text";
    this.kind.classList.toggle("bad", isMeantAsJson(text));
  }

  async #send() {
    const { payload, ...fields } = Object.fromEntries(new FormData(this.form));
    const draft = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
    if (payload !== "") draft.payload = isJson(payload) ? parse(payload) : payload;
    this.said.textContent = "";
    hush();
    if (!await isMeant(payload)) return;
    const receipt = await bus.publish({ ...draft, id: this.#id });
    localStorage.setItem(NAME, fields.from);
    const conversation = draft.correlation_id ?? receipt.id;
    this.said.replaceChildren("Published as ",
      h("a", { href: address("conversation", conversation) }, receipt.seq), receipt.warning ? `; ${receipt.warning}` : "");
    this.#id = newId();
    this.form.elements.payload.value = "";
    this.#tellKind();
  }
}

/** Asks about what may be a slip: a message can't be taken back. */
async function isMeant(payload) {
  if (payload === "") return confirmed("Publish it without a payload?", "Publish");
  return !isMeantAsJson(payload) || confirmed("The payload begins as JSON does, and is none. Publish it as text?", "Publish as text");
}

function isMeantAsJson(text) {
  return /^\s*[{["]/.test(text) && !isJson(text);
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
