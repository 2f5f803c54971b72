// The queues: how much waits in each, how long, how fast it is worked off.

import * as bus from "../bus.js";
import { h } from "../dom.js";
import { renew } from "../focus.js";
import { count, duration } from "../format.js";
import { note, plot } from "../plot.js";
import { repeat } from "../repeat.js";
import { address } from "../route.js";
import { tableKeys } from "../table.js";

/** Rates and waits are those of the last minute. */
export const WINDOW_S = 60;

const KINDS = { open: ".good", paused: ".warn", saturated: ".warn", stuck: ".bad" };

export function queues() {
  const page = h("div.page");
  const element = h("div.view", {},
    h("div.bar", {}, h("h1", {}, "Queues"), h("span.muted", {}, "waits and rates of the last minute; plots while this page is open")), page);
  const panels = new Map();
  const asking = repeat(async () => {
    const found = await bus.queues(WINDOW_S);
    if (!found.length) page.replaceChildren(h("p.empty", {}, "No queue yet. Make one: ", h("code", {}, "bus queue create reviews --type 'review.*'")));
    for (const stats of found) {
      noteStats(stats);
      if (!panels.has(stats.queue)) {
        if (!panels.size) page.replaceChildren();
        panels.set(stats.queue, panel(stats.queue));
        page.append(panels.get(stats.queue).element);
      }
      panels.get(stats.queue).show(stats);
    }
  });
  return { element, keys: tableKeys(element), close: asking.stop };
}

/** Notes what the plots show. */
export function noteStats(stats) {
  note(`${stats.queue} depth`, stats.waiting + stats.delayed + stats.held + stats.running);
  note(`${stats.queue} wait`, stats.wait.p95_ms);
  note(`${stats.queue} rate`, stats.rate_per_s);
}

/** The plots of a queue. */
export function plots(name) {
  return [
    plot(`${name} depth`, "Depth", count),
    plot(`${name} wait`, "Wait, p95", duration),
    plot(`${name} rate`, "Ends a second", (value) => value == null ? "–" : value.toFixed(value < 10 ? 2 : 0)),
  ];
}

// The counts of a queue: label, colour of a count above 0, state of the jobs, field with the age of
// the oldest.
const COUNTED = [
  ["waiting", "", "queued", "oldest_wait_ms"], ["delayed"], ["held"], ["running", "", "running", "longest_run_ms"],
  ["failed", "warn", "failed"], ["timed_out", "warn", "timed_out"], ["dead", "bad", "dead"],
];

/** How a queue is, in figures; those that are jobs of a state lead to these jobs. */
export function figures(stats) {
  const tag = h(`span.tag${KINDS[stats.state] ?? ""}`, {}, stats.state);
  return [tag, ...COUNTED.map((counted) => figure(stats, ...counted))];
}

function figure(stats, name, kind, state, age) {
  const number = stats[name];
  const classes = `.${number && kind ? kind : "muted"}`;
  const words = [h("b", {}, count(number)), ` ${name.replace("_", " ")}`, stats[age] == null ? null : ` for up to ${duration(stats[age])}`];
  if (!number || !state) return h(`span${classes}`, {}, words);
  return h(`a${classes}`, { href: address("queue", stats.queue, { state }) }, words);
}

function panel(name) {
  const state = h("div.actions");
  const curves = h("div.plots");
  const link = h("a", { href: address("queue", name), "data-stop": name }, name);
  const element = h("section.panel", { "aria-label": `Queue ${name}` },
    h("header", {}, h("h2", {}, link), state), curves);
  const show = (stats) => {
    renew(state, ...figures(stats));
    curves.replaceChildren(...plots(name));
  };
  return { element, show };
}
