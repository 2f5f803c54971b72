// The token of whoever looks. It is kept for this tab alone, and never in the address; the tabs that
// are open tell it each other, so that a person is asked one time.

const KEY = "ackbus.token";

const tabs = new BroadcastChannel(KEY);

/** The token, or null. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Keeps a token until the tab is closed, and tells the other tabs. */
export function keepToken(text) {
  sessionStorage.setItem(KEY, text);
  tabs.postMessage({ token: text });
}

/** Forgets the token, which is no good. */
export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

/**
 * Takes over a token that stands in the address, and removes it from there, and from history.
 * @returns {boolean} whether there was one
 */
export function takeTokenFromAddress() {
  const handed = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!handed) return false;
  keepToken(handed);
  history.replaceState(null, "", location.pathname);
  return true;
}

/** Asks the other tabs for a token, and hears it until the signal; they may get one later. */
export function hearToken(hear, signal) {
  tabs.addEventListener("message", ({ data }) => data.token && hear(data.token), { signal });
  tabs.postMessage({ isWanted: true });
}

tabs.addEventListener("message", ({ data }) => {
  if (data.isWanted && token()) tabs.postMessage({ token: token() });
});
