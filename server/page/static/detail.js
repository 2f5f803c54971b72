// One message in full, with its payload, and where to go from it.

import * as bus from "./bus.js";
import { agent, h } from "./dom.js";
import { conversationOf, moment } from "./format.js";
import { jsonView } from "./json-view.js";
import { attempt } from "./notice.js";
import { address } from "./route.js";

/**
 * A panel that shows a message.
 * @param {object} message - as a list has it: a large payload is only named
 * @param {() => void} onClose - the person closes it
 */
export function detail(message, onClose) {
  const conversation = conversationOf(message);
  const body = h("div.value");
  const panel = h("section.detail", { tabindex: -1, "aria-label": `Message ${message.seq}` },
    h("header", {},
      h("h2", {}, message.type),
      h("button.quiet", { type: "button", onclick: onClose, "aria-label": "Close" }, "✕")),
    facts(message, conversation),
    h("div.actions", {},
      h("a", { href: address("conversation", conversation) }, "Conversation"),
      h("a", { href: address("compose", "", { reply: message.seq }) }, "Reply"),
      h("a", { href: address("timeline", "", { type: message.type }) }, "Others of this type")),
    body);
  showPayload(body, message);
  return panel;
}

function facts(message, conversation) {
  const rows = [
    ["seq", message.seq],
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

async function showPayload(body, message) {
  if (message.payload_ref == null) {
    if (message.payload !== undefined) body.append(jsonView(message.payload));
    return;
  }
  body.append(h("p.muted", {}, "Reading the blob …"));
  try {
    const whole = await bus.message(message.seq);
    const value = whole.payload === undefined
      ? h("p.bad", {}, whole.payload_error ?? "it can't be had")
      : jsonView(whole.payload);
    body.replaceChildren(blobLine(message.payload_ref), value);
  } catch (error) {
    body.replaceChildren(h("p.bad", {}, error.message));
  }
}

function blobLine(ref) {
  const save = async () => {
    const link = h("a", { href: URL.createObjectURL(await bus.blob(ref)), download: ref });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return h("p.actions", {}, h("code.cut", { title: ref }, ref),
    h("button", { type: "button", onclick: () => attempt(save) }, "Save the blob"));
}
