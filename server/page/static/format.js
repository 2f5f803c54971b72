// How values read: times, ages, counts, and payloads in one line.

import { isExact } from "./json.js";

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 2, hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "short",
});
const COUNT = new Intl.NumberFormat();

const MAX_LINE = 300;

/** The time of day of a stamp; of one of another day, the day. */
export function clock(ts) {
  const at = new Date(ts);
  if (Number.isNaN(at.getTime())) return String(ts);
  return at.toDateString() === new Date().toDateString() ? CLOCK.format(at) : `${DAY.format(at)} ${minute(ts)}`;
}

/** The hour and the minute of a stamp. */
export function minute(ts) {
  const at = new Date(ts);
  return Number.isNaN(at.getTime()) ? "" : CLOCK.format(at).slice(0, 5);
}

/** A stamp in full, with the time zone of who looks. */
export function moment(ts) {
  const at = new Date(ts);
  return Number.isNaN(at.getTime()) ? String(ts) : FULL.format(at);
}

/** A number with its thousands apart; a dash for none. */
export function count(value) {
  return value == null ? "–" : COUNT.format(value);
}

/** How many wait for an agent; they are counted up to 1,000. */
export function unreadCount(value) {
  return value >= 1000 ? `${count(value)}+` : count(value);
}

/** A duration in its two largest units; a dash for none. */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${Number.isInteger(s) ? s : s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** The payload of a message, in one line. */
export function oneLine(message) {
  if (message.payload_ref) return message.payload_ref;
  const { payload } = message;
  if (payload === undefined) return "";
  const isObject = typeof payload === "object" && payload !== null && !Array.isArray(payload) && !isExact(payload);
  const text = isObject
    ? Object.entries(payload).map(([key, value]) => `${key}: ${inLine(value)}`).join("  ·  ")
    : inLine(payload);
  return visible(text.slice(0, MAX_LINE));
}

/** A text, or its beginning where there is no room for all. */
export function shortened(text, room) {
  return text.length <= room ? text : `${text.slice(0, Math.max(room - 1, 1))}…`;
}

/** A value of JSON as text: a text as it is. */
export function inLine(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Control characters, and those that turn the direction of text, made visible. */
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (letter) => `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** The conversation of a message: that of its first message, as a rule. */
export function conversationOf(message) {
  return message.correlation_id ?? message.id;
}
