// The live stream: every message once, in order, over drops of the connection.
//
// One stream for the whole page, which views filter for themselves: browsers allow few connections
// to a server. It goes on from the seq of the last message that it had.

import { request } from "./api.js";
import { newest } from "./bus.js";
import { batches } from "./sse.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
// The server says something every 15 s.
const SILENCE_MS = 40_000;

export class Live extends EventTarget {
  #cursor = null;
  state = "connecting";

  /**
   * Follows for ever. Events: "messages" (detail: messages in order), "state" (detail: live or
   * down), "another-log" (what was seen before is of a log that is no more).
   */
  async run() {
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      const stop = new AbortController();
      try {
        await this.#follow(stop, () => (pauseMs = FIRST_PAUSE_MS));
      } catch (error) {
        if (error.status === 409) this.#beginAnew();
        else console.info("the stream ended:", error.message);
      }
      stop.abort();
      this.#say("down");
      await pause(pauseMs);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  async #follow(stop, onOpen) {
    if (this.#cursor === null) {
      this.#cursor = (await newest({ limit: 1 })).at(-1)?.seq ?? 0;
    }
    const response = await request(`/v1/events?after=${this.#cursor}`, { signal: stop.signal });
    onOpen();
    this.#say("live");
    let watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
    for await (const batch of batches(response.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
      const fresh = batch.map((data) => JSON.parse(data)).filter(({ seq }) => seq > this.#cursor);
      if (fresh.length) this.#hand(fresh);
    }
  }

  #hand(messages) {
    this.#cursor = messages.at(-1).seq;
    this.dispatchEvent(new CustomEvent("messages", { detail: messages }));
  }

  #beginAnew() {
    this.#cursor = null;
    this.dispatchEvent(new Event("another-log"));
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

function pause(ms) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    // A network that comes back is tried at once.
    addEventListener("online", () => (clearTimeout(timer), done()), { once: true });
  });
}
