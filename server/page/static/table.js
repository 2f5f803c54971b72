// Tables that are shown again and again: what has not changed is left as it is.

import { h } from "./dom.js";

/** A table that `show` fills. */
export class Table {
  #shown = null;

  /**
   * @param {string} label - what it lists
   * @param {Array} columns - [title, cell] or [title, cell, class]: `cell` makes what a record shows
   * @param {string} empty - what is said when there is nothing
   */
  constructor(label, columns, empty) {
    this.columns = columns;
    this.body = h("tbody");
    this.empty = h("p.empty", {}, empty);
    const heads = columns.map(([title, , kind]) => h(kind ? `th.${kind}` : "th", { scope: "col" }, title));
    this.table = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, heads)), this.body);
    this.element = h("div.scroll", { tabindex: -1 }, this.table, this.empty);
    this.table.hidden = true;
  }

  show(records) {
    const now = JSON.stringify(records);
    if (now === this.#shown) return;
    this.#shown = now;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.stop : null;
    this.body.replaceChildren(...records.map((record) => this.#row(record)));
    this.table.hidden = !records.length;
    this.empty.hidden = records.length > 0;
    if (focused) this.body.querySelector(`[data-stop="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(record) {
    return h("tr", {}, this.columns.map(([title, cell, kind]) => h(kind ? `td.${kind}` : "td", { "data-label": title }, cell(record))));
  }
}

/** Moves the focus to the next or the previous of the things that can be had in a view. */
export function moveFocus(element, steps) {
  const stops = [...element.querySelectorAll("[data-stop]")].filter((each) => each.offsetParent);
  const at = stops.indexOf(document.activeElement);
  stops[at < 0 ? 0 : Math.min(stops.length - 1, Math.max(0, at + steps))]?.focus();
}

/** The keys of a view of tables. */
export function tableKeys(element) {
  return (key) => {
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    if (steps) moveFocus(element, steps);
    return Boolean(steps);
  };
}
