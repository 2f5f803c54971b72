// The token of whoever looks. It is kept for this tab alone, and never in the address.

const KEY = "ackbus.token";

/** The token, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Keeps a token until the tab is closed; null forgets it. */
export function keepToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** Takes over a token that stands in the address, and removes it from there, and from history. */
export function takeTokenFromAddress() {
  const handed = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!handed) return;
  keepToken(handed);
  history.replaceState(null, "", location.pathname);
}
