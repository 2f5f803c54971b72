// A conversation as a sequence diagram: a line for each agent, an arrow for each message.

import { h, hue, s } from "./dom.js";
import { clock, minute, oneLine, shortened } from "./format.js";

const LEFT = 108;
// Where there is little room, times have no seconds.
const NARROW = 500;
const NARROW_LEFT = 50;
const STEP = 40;
const HEAD = 36;
const LEAST_COLUMN = 104;
const RIGHT = 8;
// About how wide a letter is.
const LETTER = 6.9;
const BOLD_LETTER = 7.8;
const EVERYONE = "everyone";

/**
 * Draws messages.
 * @param {object[]} messages - in order
 * @param {object} options - `width`: the room there is; `selected`: a seq; `onSelect(message)`
 * @returns {Node[]} the names, and below them the steps
 */
export function sequence(messages, { width, selected, onSelect }) {
  const names = participants(messages);
  const isNarrow = width < NARROW;
  const left = isNarrow ? NARROW_LEFT : LEFT;
  const column = Math.max(LEAST_COLUMN, (width - left - RIGHT) / Math.max(names.length, 1));
  const whole = Math.floor(left + column * names.length + RIGHT);
  const x = new Map(names.map((name, at) => [name, left + column * (at + 0.5)]));
  const height = messages.length * STEP + 12;
  const size = (tall) => ({ width: whole, height: tall, viewBox: `0 0 ${whole} ${tall}` });
  const heads = s("svg", { ...size(HEAD), "aria-hidden": "true" }, names.map((name) => head(name, x.get(name), column)));
  const lives = names.map((name) => s("line.life", { x1: x.get(name), x2: x.get(name), y1: 0, y2: height }));
  const steps = messages.map((message, at) =>
    step(message, at, { x, column, whole, isNarrow, isSelected: message.seq === selected, onSelect }));
  const body = s("svg", { ...size(height), role: "presentation" }, lives, steps);
  return [h("div.heads", {}, heads), body];
}

function participants(messages) {
  const names = new Set();
  for (const { from, to } of messages) names.add(from).add(to ?? EVERYONE);
  if (names.delete(EVERYONE)) names.add(EVERYONE);
  return [...names];
}

function head(name, x, column) {
  const room = Math.floor((column - 30) / BOLD_LETTER);
  const dot = hue(s("tspan.head-dot", {}, "● "), name);
  return s("text.head", { x, y: 22, "text-anchor": "middle" }, dot, shortened(name, room), s("title", {}, name));
}

function step(message, at, { x, column, whole, isNarrow, isSelected, onSelect }) {
  const y = at * STEP + 26;
  const from = x.get(message.from);
  const to = x.get(message.to ?? EVERYONE);
  const classes = /(^|\.)(failed|error|dead)$/.test(message.type) ? ".failed" : "";
  const says = oneLine(message);
  const words = `${message.seq}: ${message.from} to ${message.to ?? EVERYONE}, ${message.type}: ${says}`;
  return s(`g.step${classes}`, {
    role: "option", id: `step-${message.seq}`, "data-seq": message.seq, "aria-selected": isSelected, "aria-label": words,
    onclick: () => onSelect(message),
  },
  s("rect.hit", { x: 0, y: at * STEP + 4, width: whole, height: STEP }),
  s("text.stamp", { x: isNarrow ? 8 : 14, y: y + 4 }, isNarrow ? minute(message.ts) : clock(message.ts)),
  from === to ? loop(from, y) : arrow(from, to, y, message.in_reply_to),
  label(message.type, says, from, to, y, column),
  s("title", {}, `${message.type}\n${says}`));
}

function arrow(from, to, y, isReply) {
  const way = Math.sign(to - from);
  return [
    s("line.arrow", { x1: from, x2: to - way * 7, y1: y, y2: y, "stroke-dasharray": isReply ? "5 3" : null }),
    s("path.tip", { d: `M${to},${y}l${-way * 8},-4v8z` }),
  ];
}

function loop(x, y) {
  return [
    s("path.arrow", { d: `M${x},${y - 8}h20v14h-13` }),
    s("path.tip", { d: `M${x},${y + 6}l8,-4v8z` }),
  ];
}

/** The label of a message: its type above the arrow, its payload below. */
function label(type, says, from, to, y, column) {
  const isLoop = from === to;
  const room = Math.floor((isLoop ? column - 40 : Math.abs(to - from) - 20) / LETTER);
  const place = isLoop ? { x: from + 28 } : { x: (from + to) / 2, "text-anchor": "middle" };
  return [
    s("text.halo", { ...place, y: isLoop ? y + 1 : y - 7 }, shortened(type, room)),
    s("text.says.halo", { ...place, y: y + 14 }, shortened(says, room)),
  ];
}
