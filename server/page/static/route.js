// Where one is on the page: `#/queue/NAME?state=dead`. What can be seen can be linked to.

/** The view, its subject (or ""), and its parameters, as the address has them. */
export function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const parameters = Object.fromEntries(new URLSearchParams(search));
  return { view: view || "timeline", subject: decoded(rest.join("/")), parameters };
}

/** The address of a view. */
export function address(view, subject = "", parameters = {}) {
  const set = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
  const search = set.length ? `?${new URLSearchParams(set)}` : "";
  return `#/${view}${subject && `/${encodeURIComponent(subject)}`}${search}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
