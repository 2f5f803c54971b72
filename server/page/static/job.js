// One job in full: its message, and every attempt at it.

import { until } from "./ages.js";
import { h } from "./dom.js";
import { clock, conversationOf, duration, moment, inLine, visible } from "./format.js";
import { payloadView } from "./payload.js";
import { address } from "./route.js";

const KINDS = { completed: ".good", failed: ".bad", timed_out: ".warn", lost: ".warn" };

/** A panel that shows a job. */
export function jobPanel(job, onClose) {
  const { message } = job;
  return h("section.detail", { tabindex: -1, "aria-label": `Job ${job.seq}` },
    h("header", {},
      h("h2", {}, h("a", { href: address("queue", job.queue, { job: job.seq }), title: "A link to this job" }, `Job ${job.seq}`)),
      h("button.quiet", { type: "button", onclick: onClose, "aria-label": "Close" }, "✕")),
    h("dl.facts", {},
      fact("state", job.state), fact("type", message.type), fact("queue", job.queue),
      fact("attempt", `${job.attempt} of ${job.max_attempts}`),
      fact("created", moment(job.created_at)),
      job.ended_at ? fact("ended", moment(job.ended_at)) : null,
      job.error ? fact("error", job.error) : null),
    h("div.actions", {}, h("a", { href: address("conversation", conversationOf(message)) }, "Conversation")),
    h("h3", {}, "Attempts"),
    job.attempts.length ? job.attempts.map(attemptOf) : h("p.muted", {}, "None yet."),
    job.acts.length ? [h("h3", {}, "By hand"), job.acts.map(actOf)] : null,
    h("h3", {}, "Payload"),
    payloadView(message));
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function actOf(act) {
  return h("p", {}, `${act.act} by ${act.who}, `, moment(act.at), act.detail ? `: ${act.detail}` : "");
}

function attemptOf(claim) {
  const took = claim.ended_at
    ? ["took ", duration(new Date(claim.ended_at) - new Date(claim.claimed_at))]
    : ["its lease ends in ", until(claim.until)];
  const outputs = [["stderr", claim.stderr || null], ["result", claim.result]].filter(([, value]) => value != null);
  return h("section.attempt", { "aria-label": `Attempt ${claim.attempt}` },
    h("div.actions", {},
      h("b", {}, claim.attempt),
      h(`span.tag${KINDS[claim.status] ?? ""}`, {}, claim.status),
      h("span", {}, claim.worker),
      h("span.muted", {}, clock(claim.claimed_at), ", ", took),
      claim.exit_code == null ? null : h("span.muted", {}, `exit ${claim.exit_code}`)),
    claim.error ? h("p.bad", {}, visible(claim.error)) : null,
    outputs.map(([name, value]) => [h("h3", {}, name), h("pre.payload", { tabindex: 0 }, visible(inLine(value)))]));
}
