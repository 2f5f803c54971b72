// Reads the stored records, then follows new ones, and misses none between the two.

import { hush, tellProblem } from "./notice.js";

/**
 * Reads what there is, and then takes what comes. Reads again where the stream begins again, and
 * where it failed, once there is a connection again.
 * @param {Live} live - the stream
 * @param {() => Promise<void>} read - reads and shows what there is, and nothing that was before
 * @param {(messages: object[]) => void} take - shows what comes; some may have been read already
 * @returns {{ again: () => void, stop: () => void }} reads again; ends it
 */
export function follow(live, read, take) {
  const over = new AbortController();
  let waiting = null;  // what comes while it is read
  let hasFailed = false;
  const begin = async () => {
    const came = (waiting = []);
    try {
      await read();
      if (hasFailed && !over.signal.aborted) hush();
      hasFailed = false;
    } catch (error) {
      if (over.signal.aborted) return;
      hasFailed = true;
      tellProblem(error);
    }
    if (over.signal.aborted || waiting !== came) return;
    waiting = null;
    if (!hasFailed) take(came);
  };
  const hear = (name, act) => live.addEventListener(name, ({ detail }) => act(detail), { signal: over.signal });
  hear("messages", (messages) => {
    if (waiting) waiting.push(...messages);
    else if (!hasFailed) take(messages);
  });
  hear("restart", begin);
  hear("state", (state) => state === "live" && hasFailed && begin());
  begin();
  return { again: begin, stop: () => over.abort() };
}
