// JSON whose integers stay as they are written: JavaScript has those up to 2^53 only.

// A text that may have such a number: to look at each number takes longer.
const SUSPECT = /\d{16}/;
const INTEGER = /^-?\d+$/;

/** The value that a text is; an integer that JavaScript doesn't have is one of `isExact`. */
export function parse(text) {
  return SUSPECT.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

/** Whether a value is a number as it was written: `rawJSON` has it, and JSON.stringify writes it so. */
export function isExact(value) {
  return Boolean(JSON.isRawJSON?.(value));
}

/** Older browsers don't tell what is written, and round. */
function exact(key, value, written) {
  const isLost = typeof value === "number" && !Number.isSafeInteger(value) && INTEGER.test(written?.source);
  return isLost && JSON.rawJSON ? JSON.rawJSON(written.source) : value;
}
