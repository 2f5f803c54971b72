// One queue: its jobs, each with every attempt, and its dead letters.

import { since } from "../ages.js";
import * as bus from "../bus.js";
import { confirmed } from "../confirm.js";
import { h } from "../dom.js";
import { renew } from "../focus.js";
import { duration } from "../format.js";
import { jobPanel } from "../job.js";
import { attempt, tellDone } from "../notice.js";
import { repeat } from "../repeat.js";
import { address } from "../route.js";
import { Split } from "../split.js";
import { opener, Table, tableKeys } from "../table.js";
import { figures, noteStats, plots, WINDOW_S } from "./queues.js";

const SHOWN = 100;
const STATES = ["queued", "running", "succeeded", "failed", "timed_out", "dead", "cancelled"];
const KINDS = { succeeded: ".good", failed: ".warn", timed_out: ".warn", dead: ".bad" };

export function queue({ subject, parameters }) {
  return new QueueView(subject, parameters).view;
}

class QueueView {
  constructor(name, parameters) {
    this.name = name;
    this.state = parameters.state ?? "";
    this.figures = h("div.actions");
    this.plots = h("div.plots");
    this.jobs = new Table("Jobs", this.#columns(), "No job in this state.", ({ seq }) => attempt(() => this.#open(seq)));
    this.page = h("div.page", {},
      h("section.panel", {}, h("header", {}, h("h2", {}, "Now"), this.figures), this.plots),
      h("section.panel", {}, this.#jobsHead(), this.jobs.element));
    this.split = new Split(this.page);
    this.job = null;
    const element = h("div.view", {},
      h("div.bar", {}, h("h1", {}, "Queue ", name), h("a", { href: address("queues") }, "All queues")), this.split.element);
    this.asking = repeat(() => this.#refresh());
    const tables = tableKeys(element);
    const keys = (key) => key === "Escape" ? (this.#shut(), true) : tables(key);
    this.view = { element, keys, close: this.asking.stop };
    if (parameters.job) attempt(() => this.#open(Number(parameters.job)));
  }

  #jobsHead() {
    const choice = h("select", { "aria-label": "State", onchange: () => {
      location.hash = address("queue", this.name, { state: choice.value });
    } }, h("option", { value: "" }, "all states"), STATES.map((each) => h("option", { value: each, selected: each === this.state }, each)));
    const all = h("button", { type: "button", hidden: this.state !== "dead", onclick: () => attempt(() => this.#requeueAll()) }, "Requeue all shown");
    return h("header", {}, h("h2", {}, "Jobs"), h("span.muted", {}, `the newest ${SHOWN}`), all, choice);
  }

  #columns() {
    return [
      ["seq", ({ seq }) => opener(seq, `Job ${seq}`), "number"],
      ["type", ({ type }) => type ?? ""],
      ["state", ({ state }) => h(`span.tag${KINDS[state] ?? ""}`, {}, state)],
      ["attempt", (job) => `${job.attempt} of ${job.max_attempts}`, "number"],
      ["age", (job) => since(job.created_at), "number"],
      ["took", took, "number"],
      ["error", ({ error }) => error ?? "", "wide"],
      ["", (job) => h("div.actions", {}, this.#actions(job))],
    ];
  }

  /** The actions on a job, in the words of the command line. */
  #actions({ state, seq }) {
    const button = (verb, act) => h("button.quiet", { type: "button", "aria-label": `${verb} ${seq}`, onclick: () => attempt(act) }, verb);
    if (state === "dead") return [button("Requeue", () => this.#requeue([seq])), button("Drop", () => this.#drop(seq))];
    if (state === "queued" || state === "running") return button("Cancel", () => this.#cancel(seq));
    return state === "succeeded" ? null : button("Retry", () => this.#retry(seq));
  }

  async #refresh() {
    const stats = await bus.queue(this.name, WINDOW_S);
    noteStats(stats);
    renew(this.figures, ...figures(stats));
    this.plots.replaceChildren(...plots(this.name));
    this.listed = await bus.jobs(this.name, { state: this.state, limit: SHOWN });
    this.jobs.show(this.listed);
    await this.#refreshJob();
  }

  async #requeue(seqs) {
    await bus.requeueDead(this.name, seqs);
    tellDone(seqs.length === 1 ? `${seqs[0]} is queued again` : `${seqs.length} are queued again`);
    await this.#refresh();
  }

  async #requeueAll() {
    const seqs = this.listed.map(({ seq }) => seq);
    if (seqs.length && await confirmed(`Let ${seqs.length} dead letters be tried again?`, "Requeue them")) await this.#requeue(seqs);
  }

  async #drop(seq) {
    if (!await confirmed(`Give ${seq} up? It ends as cancelled, and stays on record.`, "Drop it")) return;
    await bus.dropDead(this.name, [seq]);
    await this.#refresh();
  }

  async #retry(seq) {
    await bus.retryJob(this.name, seq);
    tellDone(`${seq} is queued again`);
    await this.#refresh();
  }

  async #cancel(seq) {
    if (!await confirmed(`Give ${seq} up? A worker that is at it loses it. It stays on record.`, "Cancel the job")) return;
    await bus.cancelJob(this.name, seq);
    await this.#refresh();
  }

  async #open(seq) {
    this.#show(await bus.job(this.name, seq));
  }

  async #refreshJob() {
    const shown = this.job;
    if (!shown) return;
    const job = await bus.job(this.name, shown.seq);
    if (this.job === shown && JSON.stringify(job) !== JSON.stringify(shown)) this.#show(job);
  }

  #show(job) {
    this.job = job;
    this.split.open(jobPanel(job, () => this.#shut()));
  }

  #shut() {
    this.job = null;
    this.split.shut();
  }
}

/** How long the last attempt took, or takes. One that was cancelled may have waited long before that. */
function took({ state, started_at, ended_at }) {
  if (state === "running") return since(started_at);
  return state === "cancelled" || !started_at || !ended_at ? "" : duration(new Date(ended_at) - new Date(started_at));
}
