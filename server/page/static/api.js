// Asking the server. An error is a Problem with the words of the server.

import { parse } from "./json.js";
import { forgetToken, token } from "./token.js";
import { askForToken } from "./token-dialog.js";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Asks, with the token if there is one; when one is needed, asks the person for it and again. */
export async function request(path, options = {}) {
  for (;;) {
    const shown = token();
    const headers = { ...options.headers };
    if (shown) headers.Authorization = `Bearer ${shown}`;
    const response = await fetch(path, { ...options, headers, cache: "no-store" }).catch(unreachable);
    if (response.ok) return response;
    const detail = await detailOf(response);
    if (response.status !== 401) throw new Problem(response.status, detail);
    // Another request may have asked for it meanwhile.
    if (token() === shown) {
      forgetToken();
      await askForToken(shown, detail);
    }
  }
}

/** Each browser has words of its own for this. */
function unreachable(error) {
  throw error.name === "AbortError" ? error : new Problem(0, "the server can't be reached");
}

async function detailOf(response) {
  try {
    return (await response.json()).detail ?? response.statusText;
  } catch {
    return `the server answered ${response.status}`;
  }
}

/** The JSON at a path; parameters that are empty are left out. */
export async function get(path, parameters = {}, options = {}) {
  const response = await request(path + query(parameters), options);
  return parse(await response.text());
}

/** Sends JSON, and returns the JSON of the answer, if it has any. */
export async function post(path, body) {
  const response = await request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.status === 204 ? null : response.json();
}

function query(parameters) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) if (each != null && each !== "") parts.append(key, each);
  }
  return parts.size ? `?${parts}` : "";
}

/** A name as one part of a path: names of agents and queues may have slashes. */
export function inPath(name) {
  return encodeURIComponent(name);
}
