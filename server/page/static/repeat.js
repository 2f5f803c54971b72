// Doing something again and again while the page can be seen: for what no stream tells of.

import { Problem } from "./api.js";
import { hush, tellProblem } from "./notice.js";

const EVERY_MS = 2000;
// A busy bus would have it done a hundred times a second.
const SOON_MS = 250;

/**
 * Does something at once and then every two seconds, one at a time.
 * @param {() => Promise<void>} act - asks, and shows the answer
 * @returns {{ soon: () => void, stop: () => void }} does it soon; ends it
 */
export function repeat(act) {
  let timer = 0;
  let isOver = false;
  let isRunning = false;
  let isWanted = false;
  let told = null;
  let isRead = false;
  const run = async () => {
    if (isOver) return;
    isRunning = true;
    isWanted = false;
    if (!document.hidden) await once();
    isRunning = false;
    plan();
  };
  const plan = () => {
    clearTimeout(timer);
    if (!isOver && !isRunning) timer = setTimeout(run, isWanted ? SOON_MS : EVERY_MS);
  };
  const soon = () => {
    if (isWanted) return;
    isWanted = true;
    plan();
  };
  const once = async () => {
    try {
      await act();
      if (told && !isOver) hush();
      told = null;
      isRead = true;
    } catch (error) {
      // That the connection is gone is said in the bar, and more only where there is nothing to see;
      // the same trouble is told one time.
      if (!(error instanceof Problem)) console.error(error);
      else if (!isOver && (error.status || !isRead) && error.message !== told) {
        told = error.message;
        tellProblem(error);
      }
    }
  };
  run();
  return { soon, stop: () => ((isOver = true), clearTimeout(timer)) };
}
