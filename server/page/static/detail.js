// One message in full, with its payload, and where to go from it.

import * as bus from "./bus.js";
import { agent, h } from "./dom.js";
import { conversationOf, moment } from "./format.js";
import { payloadView } from "./payload.js";
import { address } from "./route.js";

/**
 * A panel that shows a message.
 * @param {object} message - as a list has it: a large payload is only named
 * @param {() => void} onClose - the person closes it
 */
export function detail(message, onClose) {
  const conversation = conversationOf(message);
  return h("section.detail", { tabindex: -1, "aria-label": `Message ${message.seq}` },
    h("header", {},
      h("h2", {}, message.type),
      h("button.quiet", { type: "button", onclick: onClose, "aria-label": "Close" }, "✕")),
    facts(message, conversation),
    h("div.actions", {},
      h("a", { href: address("conversation", conversation) }, "Conversation"),
      h("a", { href: address("compose", "", { reply: message.seq }) }, "Reply"),
      h("a", { href: address("timeline", "", { type: message.type }) }, "Others of this type")),
    payloadView(message),
    receiptsView(message.seq));
}

/** The readers of a message, and its state at each. */
function receiptsView(seq) {
  const rows = h("dl.facts");
  bus.receipts(seq).then(
    (found) => rows.append(...found.flatMap(({ kind, name, state }) =>
      [h("dt", {}, state), h("dd", {}, kind === "queue" ? `queue ${name}` : agent(name))])),
    (error) => rows.append(h("p.bad", {}, error.message)));
  return h("section.receipts", { "aria-label": "Readers" }, h("h3", {}, "Readers"), rows);
}

function facts(message, conversation) {
  const rows = [
    ["seq", h("a", { href: address("timeline", "", { message: message.seq }), title: "A link to this message" }, message.seq)],
    ["time", moment(message.ts)],
    ["from", agent(message.from)],
    ["to", message.to == null ? "everyone" : agent(message.to)],
    ["id", h("code", {}, message.id)],
    ["conversation", h("code", {}, conversation)],
    message.in_reply_to ? ["in reply to", h("code", {}, message.in_reply_to)] : null,
    message.priority && message.priority !== "normal" ? ["priority", message.priority] : null,
    message.headers ? ["headers", h("code", {}, JSON.stringify(message.headers))] : null,
  ];
  return h("dl.facts", {}, rows.filter(Boolean).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
