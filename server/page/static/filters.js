// Filters of messages, as the server understands them: what arrives live is filtered here.

import { conversationOf } from "./format.js";

/** Whether a type fits a pattern: `*` stands for one part, `>` for all that is left. */
export function typeFits(pattern, type) {
  const wanted = pattern.split(".");
  const parts = type.split(".");
  for (const [at, part] of wanted.entries()) {
    if (part === ">") return parts.length > at;
    if (at >= parts.length || (part !== "*" && part !== parts[at])) return false;
  }
  return wanted.length === parts.length;
}

/** Whether a message passes every filter that is set. */
export function fits({ type, agent, conversation }, message) {
  return (!type || typeFits(type, message.type))
    && (!agent || agent === message.from || agent === message.to)
    && (!conversation || conversation === conversationOf(message));
}
