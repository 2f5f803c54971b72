// One conversation, drawn, and as it goes on.

import * as bus from "../bus.js";
import { detail } from "../detail.js";
import { h } from "../dom.js";
import { follow } from "../follow.js";
import { conversationOf, count } from "../format.js";
import { attempt } from "../notice.js";
import { address } from "../route.js";
import { sequence } from "../sequence.js";
import { Split } from "../split.js";

const PAGE = 200;
// Beyond this number, the oldest live messages are dropped while the end is in view; they can be
// loaded again.
const KEEP = 600;
// To draw some hundreds takes as long as a few frames.
const DRAW_MS = 250;

export function conversation({ live, subject }) {
  return new Conversation(live, subject).view;
}

class Conversation {
  #messages = [];
  #selected = null;
  #isDrawn = true;
  #drawnAt = -DRAW_MS;
  #isOver = false;
  #isBehind = false;  // so many came while its end is not looked at that they are not drawn

  constructor(live, id) {
    this.id = id;
    this.title = h("h1.cut", { title: id }, "Conversation ", h("code", {}, id));
    this.earlier = h("button", { type: "button", hidden: true, onclick: () => attempt(() => this.#readEarlier()) }, "Earlier");
    this.counted = h("span.muted");
    this.drawing = h("div.sequence", { onscroll: () => this.#catchUp(), role: "listbox", tabindex: 0, "aria-label": "The messages, drawn as a sequence" });
    this.split = new Split(this.drawing);
    const bar = h("div.bar", {}, this.title, this.counted, this.earlier,
      h("a", { href: address("timeline", "", { conversation: id }) }, "As a list"));
    this.following = follow(live, () => this.#read(), (messages) => this.#take(messages));
    const resized = new ResizeObserver(() => this.#draw());
    resized.observe(this.drawing);
    this.view = {
      element: h("div.view", {}, bar, this.split.element),
      keys: (key) => this.#key(key),
      close: () => {
        this.#isOver = true;
        this.following.stop();
        resized.disconnect();
      },
    };
  }

  async #read() {
    this.#isBehind = false;
    this.#messages = await this.#page({});
    this.#draw(true);
  }

  /** Puts earlier ones above; what is being looked at stays where it is. */
  async #readEarlier() {
    const before = this.#messages[0].seq;
    const found = await this.#page({ before });
    if (this.#isOver || this.#messages[0].seq !== before) return;
    this.#messages = found.concat(this.#messages);
    const fromEnd = this.drawing.scrollHeight - this.drawing.scrollTop;
    this.#drawNow();
    this.drawing.scrollTop = this.drawing.scrollHeight - fromEnd;
  }

  async #page({ before }) {
    const found = await bus.newest({ conversation: this.id, before, limit: PAGE });
    this.earlier.hidden = found.length < PAGE;
    return found;
  }

  #take(messages) {
    const last = this.#messages.at(-1)?.seq ?? 0;
    const fresh = messages.filter((each) => conversationOf(each) === this.id && each.seq > last);
    if (!fresh.length || this.#isBehind) return;
    const isAtEnd = this.#isAtEnd();
    this.#isBehind = !isAtEnd && this.#messages.length > KEEP;
    if (this.#isBehind) return this.#draw();
    this.#messages.push(...fresh);
    if (isAtEnd && this.#messages.length > KEEP) {
      this.#messages.splice(0, this.#messages.length - PAGE);
      this.earlier.hidden = false;
    }
    this.#draw(isAtEnd);
  }

  #isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.drawing;
    return scrollTop + clientHeight >= scrollHeight - 60;
  }

  /** Begins again where the end is in view again. */
  #catchUp() {
    if (!this.#isBehind || !this.#isAtEnd()) return;
    this.#isBehind = false;
    this.following.again();
  }

  #draw(toEnd = false) {
    this.toEnd ||= toEnd;
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    const drawn = () => {
      this.#isDrawn = true;
      this.#drawnAt = performance.now();
      if (!this.#isOver) this.#drawNow();
    };
    setTimeout(() => requestAnimationFrame(drawn), Math.max(0, this.#drawnAt + DRAW_MS - performance.now()));
  }

  #drawNow() {
    const there = this.#messages.length;
    this.counted.textContent = `${count(there)}${this.earlier.hidden && !this.#isBehind ? "" : "+"} ${there === 1 ? "message" : "messages"}`;
    if (!there) {
      this.drawing.replaceChildren(h("p.empty", {}, "No message of this conversation yet."));
      return;
    }
    this.drawing.replaceChildren(...sequence(this.#messages, {
      width: this.drawing.clientWidth,
      selected: this.#selected,
      onSelect: (message) => this.#open(message),
    }));
    if (this.toEnd) this.drawing.scrollTop = this.drawing.scrollHeight;
    this.toEnd = false;
  }

  #open(message) {
    this.#selected = message.seq;
    for (const step of this.drawing.querySelectorAll(".step")) {
      const isThis = step.dataset.seq === String(message.seq);
      step.setAttribute("aria-selected", isThis);
      if (isThis) this.#reveal(step);
    }
    this.split.open(detail(message, () => this.#shut()));
  }

  /** Brings a step into sight, also where there are more agents than there is room for. */
  #reveal(step) {
    this.drawing.setAttribute("aria-activedescendant", step.id);
    step.scrollIntoView({ block: "nearest", inline: "nearest" });
    step.querySelector(".arrow").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #shut() {
    this.split.shut();
    this.drawing.focus();
  }

  #key(key) {
    const at = this.#messages.findIndex(({ seq }) => seq === this.#selected);
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    if (steps && this.#messages.length) {
      const next = at < 0 ? 0 : Math.min(this.#messages.length - 1, Math.max(0, at + steps));
      this.#open(this.#messages[next]);
    } else if (key === "Escape") this.#shut();
    else return Boolean(steps);
    return true;
  }
}
