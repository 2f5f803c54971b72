// The payload of a message; that of a large one is read, and what is not JSON can be saved.

import * as bus from "./bus.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { jsonView } from "./json-view.js";
import { attempt } from "./notice.js";

// Bytes that nothing is wrong with: a blob may be anything.
const OTHER = { decode_failed: "not JSON", too_large: "too large to be shown" };

/** The payload of a message: as a list has it, where a large payload is only named, or in full. */
export function payloadView(message) {
  const body = h("div.value");
  show(body, message);
  return body;
}

async function show(body, message) {
  const isNamed = message.payload_ref != null && message.payload === undefined && !message.payload_error;
  if (isNamed) body.append(h("p.muted", {}, "Reading the blob …"));
  try {
    const whole = isNamed ? await bus.message(message.seq) : message;
    body.replaceChildren(...await parts(whole));
  } catch (error) {
    body.replaceChildren(h("p.bad", {}, error.message));
  }
}

async function parts({ payload, payload_ref: ref, payload_error: error }) {
  const value = payload === undefined ? null : jsonView(payload);
  if (ref == null) return [value ?? h("p.muted", {}, "No payload."), error ? h("p.bad", {}, error) : ""];
  if (!error) return [saving(ref), value];
  if (!OTHER[error]) return [h("p.bad", {}, error)];
  return [saving(ref), h("p.muted", {}, `${OTHER[error]}, ${count(await bus.blobSize(ref))} bytes`)];
}

function saving(ref) {
  const save = async () => {
    const link = h("a", { href: URL.createObjectURL(await bus.blob(ref)), download: ref });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return h("p.actions", {}, h("code.cut", { title: ref }, ref),
    h("button", { type: "button", onclick: () => attempt(save) }, "Save the blob"));
}
