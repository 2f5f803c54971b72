// Ages and times left, which go on while nothing else changes.

import { h, setText } from "./dom.js";
import { duration, moment } from "./format.js";

const EVERY_MS = 1000;

/** How long ago a stamp was. */
export function since(ts) {
  return element(ts, "since");
}

/** How long it is until a stamp; "over" when it is past. */
export function until(ts) {
  return element(ts, "until");
}

function element(ts, kind) {
  if (ts == null) return "–";
  const made = h("time", { datetime: ts, title: moment(ts), "data-age": kind });
  tell(made);
  return made;
}

function tell(time) {
  const at = new Date(time.dateTime).getTime();
  const isSince = time.dataset.age === "since";
  const ms = isSince ? Math.max(0, Date.now() - at) : at - Date.now();
  setText(time, !isSince && ms <= 0 ? "over" : duration(Math.max(1, Math.floor(ms / 1000)) * 1000));
}

setInterval(() => document.querySelectorAll("[data-age]").forEach(tell), EVERY_MS);
