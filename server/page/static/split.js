// A view that has room at its side for one thing in full. On a narrow screen that takes all the room.

import { h } from "./dom.js";

export class Split {
  #main;
  #panel = null;
  #opener = null;

  constructor(main) {
    this.#main = main;
    this.element = h("div.split", {}, main);
  }

  /** Shows a panel, in place of one that is shown; the rest is left as it is, with its focus. */
  open(panel) {
    if (this.#main.contains(document.activeElement)) this.#opener = document.activeElement;
    const isWatched = this.#panel?.contains(document.activeElement);
    if (this.#panel) this.#panel.replaceWith(panel);
    else this.element.append(panel);
    this.#panel = panel;
    this.element.classList.add("open");
    if (isWatched || !this.#main.checkVisibility()) panel.focus();
  }

  /** Takes the panel away; what opened it has the focus again. */
  shut() {
    if (!this.#panel) return;
    const isWatched = this.#panel.contains(document.activeElement);
    this.#panel.remove();
    this.#panel = null;
    this.element.classList.remove("open");
    if (isWatched) this.#opener?.focus();
  }
}
