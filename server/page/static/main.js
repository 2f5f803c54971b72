// Starts the page: the bar, the live stream, and the view that the address names.

import { project } from "./bus.js";
import { h, setText } from "./dom.js";
import { listenToKeys, showKeys } from "./keys.js";
import { Live } from "./live.js";
import { attempt, hush } from "./notice.js";
import { address, route } from "./route.js";
import { startTheme, switchTheme } from "./theme.js";
import { takeTokenFromAddress } from "./token.js";
import { agents } from "./views/agents.js";
import { compose } from "./views/compose.js";
import { conversation } from "./views/conversation.js";
import { conversations } from "./views/conversations.js";
import { holds } from "./views/holds.js";
import { inbox, inboxes } from "./views/inboxes.js";
import { queue } from "./views/queue.js";
import { queues } from "./views/queues.js";
import { timeline } from "./views/timeline.js";

// Each view: its name in the address; its name in the bar, or the view in the bar that it is a part
// of; and its maker.
// A maker takes { live, subject, parameters }, and returns { element, keys, close }.
const VIEWS = [
  ["timeline", "Timeline", timeline],
  ["conversations", "Conversations", conversations],
  ["conversation", { of: "conversations" }, conversation],
  ["agents", "Agents", agents],
  ["inboxes", "Inboxes", inboxes],
  ["inbox", { of: "inboxes" }, inbox],
  ["queues", "Queues", queues],
  ["queue", { of: "queues" }, queue],
  ["holds", "Leases", holds],
  ["compose", "Write", compose],
];
const SHOWN = VIEWS.filter(([, title]) => !title.of);

const live = new Live();
const main = document.querySelector("main");
let shown = null;
let projectName = "ackbus";  // what this is, until its name is known

function show() {
  const { view, subject, parameters } = route();
  const [name, title, make] = VIEWS.find(([each]) => each === view) ?? VIEWS[0];
  shown?.close?.();
  hush();
  shown = make({ live, subject, parameters });
  main.replaceChildren(shown.element);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (title.of ?? name)) mark(link);
    else link.removeAttribute("aria-current");
  }
  showName();
}

/** Says which bus it is, of several that a person may look at. */
function showName() {
  const { subject } = route();
  const view = document.querySelector("nav [aria-current]").textContent;
  document.title = `${subject || view} – ${projectName}`;
  setText(document.querySelector(".brand span"), projectName);
}

async function readName() {
  projectName = await project();
  showName();
}

function mark(link) {
  link.setAttribute("aria-current", "page");
  link.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function act(key) {
  if (shown.keys?.(key)) return true;
  const numbered = SHOWN[Number(key) - 1];
  if (numbered) location.hash = address(numbered[0]);
  else if (key === "?") showKeys();
  else if (key === "d") switchTheme();
  else if (key === "n") location.hash = address("compose");
  else return false;
  return true;
}

function showState({ detail: state }) {
  if (state === "live") attempt(readName);
  const link = document.querySelector(".link");
  link.dataset.state = state;
  link.textContent = { live: "live", down: "no connection" }[state];
  link.title = { live: "What is published appears at once", down: "It is tried again; nothing will be missed" }[state];
}

takeTokenFromAddress();
startTheme();
document.querySelector("nav").append(
  ...SHOWN.map(([name, title]) => h("a", { href: address(name), "data-view": name }, title)));
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", showKeys);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => takeTokenFromAddress() ? location.reload() : show());
live.addEventListener("state", showState);
listenToKeys(act);
show();
live.run();
