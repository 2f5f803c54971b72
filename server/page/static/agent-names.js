// The names of the agents that the bus knows, for fields in which one is written.

import * as bus from "./bus.js";
import { h } from "./dom.js";
import { attempt } from "./notice.js";

const ID = "agent-names";

/** Lets a field complete names of agents. They are asked for when it is first used. */
export function completing(field) {
  const names = h("datalist", { id: ID });
  const fill = async () => names.append(...(await bus.inboxes()).map(({ agent }) => h("option", { value: agent })));
  field.setAttribute("list", ID);
  field.addEventListener("focus", () => attempt(fill), { once: true });
  return [field, names];
}
