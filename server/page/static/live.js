// The live stream: every message once, in order, over drops of the connection.
//
// One stream for the whole page, which views filter for themselves: a browser allows six connections
// to a server, for all its tabs together. So a tab that nobody looks at has none. It goes on from the
// seq of the last message that it had.

import { request } from "./api.js";
import { newest } from "./bus.js";
import { parse } from "./json.js";
import { batches } from "./sse.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
// The server says something every 15 s.
const SILENCE_MS = 40_000;
// A page that was away for longer reloads: it shows little of all that came meanwhile.
const FAR_BEHIND = 20_000;

export class Live extends EventTarget {
  #cursor = null;
  state = "connecting";

  /**
   * Follows for ever. Events: "messages" (detail: messages in order), "state" (detail: live or
   * down), "restart" (what comes does not go on from what came: read again what there is).
   */
  async run() {
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      await beingSeen();
      const stop = new AbortController();
      document.addEventListener("visibilitychange", () => document.hidden && stop.abort(), { signal: stop.signal });
      try {
        await this.#follow(stop, () => (pauseMs = FIRST_PAUSE_MS));
      } catch (error) {
        if (error.status === 409) this.#beginAnew();
        else console.info("the stream ended:", error.message);
      }
      stop.abort();
      if (document.hidden) continue;
      this.#say("down");
      await pause(pauseMs);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  async #follow(stop, onOpen) {
    const last = (await newest({ limit: 1 })).at(-1)?.seq ?? 0;
    if (this.#cursor !== null && last - this.#cursor > FAR_BEHIND) this.#beginAnew();
    this.#cursor ??= last;
    const response = await request(`/v1/events?after=${this.#cursor}`, { signal: stop.signal });
    onOpen();
    this.#say("live");
    let watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
    for await (const batch of batches(response.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
      const fresh = batch.map((data) => parse(data)).filter(({ seq }) => seq > this.#cursor);
      if (fresh.length) this.#hand(fresh);
    }
  }

  #hand(messages) {
    this.#cursor = messages.at(-1).seq;
    this.dispatchEvent(new CustomEvent("messages", { detail: messages }));
  }

  #beginAnew() {
    this.#cursor = null;
    this.dispatchEvent(new Event("restart"));
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

/** Waits until somebody looks at this tab. */
async function beingSeen() {
  while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

/** Waits; a network that comes back ends it. */
function pause(ms) {
  return new Promise((done) => {
    const over = new AbortController();
    const end = () => (over.abort(), clearTimeout(timer), done());
    const timer = setTimeout(end, ms);
    addEventListener("online", end, { signal: over.signal });
  });
}
