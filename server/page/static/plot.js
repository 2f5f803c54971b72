// A number over time, as a small curve.

import { h, s } from "./dom.js";

const WIDTH = 150;
const HEIGHT = 50;
const SPAN_MS = 5 * 60_000;

/** The samples of the last five minutes, by name, as long as the page is open. */
const samples = new Map();

/** Notes a measurement; null is none. */
export function note(name, value, at = Date.now()) {
  const known = samples.get(name) ?? [];
  known.push([at, value]);
  while (known[0][0] < at - SPAN_MS) known.shift();
  samples.set(name, known);
}

/**
 * A plot of what was noted under a name.
 * @param {string} title - what it is
 * @param {(value: number|null) => string} read - the words for a value
 */
export function plot(name, title, read) {
  const known = (samples.get(name) ?? []).filter(([, value]) => value != null);
  const last = (samples.get(name) ?? []).at(-1)?.[1] ?? null;
  const most = Math.max(...known.map(([, value]) => value), 0);
  return h("div.plot", {},
    h("h3", {}, title),
    h("div.now", {}, read(last)),
    curve(known, most, `${title}: now ${read(last)}, at most ${read(most)} in five minutes`));
}

function curve(known, most, label) {
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(s("title", {}, label));
  if (known.length < 2) return svg;
  const now = known.at(-1)[0];
  const span = Math.max(now - known[0][0], 30_000);
  const points = known.map(([at, value]) => {
    const x = WIDTH * (1 - (now - at) / span);
    const y = HEIGHT - 2 - (most ? value / most : 0) * (HEIGHT - 6);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const [first] = points[0].split(",");
  svg.append(
    s("path.area", { d: `M${first},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z` }),
    s("path.curve", { d: `M${points.join("L")}` }));
  return svg;
}
