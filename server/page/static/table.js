// Tables that are shown again and again: what has not changed is left as it is.

import { h } from "./dom.js";
import { Focus } from "./focus.js";

/** A table that `show` fills. */
export class Table {
  #rows = [];   // what each record says, and its row

  /**
   * @param {string} label - what it lists
   * @param {Array} columns - [title, cell] or [title, cell, class]: `cell` makes what a record shows
   * @param {string} empty - what is said when there is nothing
   * @param {(record: object) => void} [onOpen] - a person opens a record; it has an `opener`
   */
  constructor(label, columns, empty, onOpen = null) {
    this.columns = columns;
    this.onOpen = onOpen;
    this.body = h("tbody");
    this.empty = h("p.empty", { hidden: true }, empty);  // until it is known
    const heads = columns.map(([title, , kind]) => h(`${title ? "th" : "td"}${kind ? `.${kind}` : ""}`, { scope: title ? "col" : null }, title));
    this.table = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, heads)), this.body);
    this.element = h("div.scroll", { tabindex: -1 }, this.table, this.empty);
    this.table.hidden = true;
  }

  /** Shows records. A row that says the same stays the element it was: it may be clicked just now. */
  show(records) {
    const old = new Map(this.#rows);
    this.#rows = records.map((record) => {
      const said = JSON.stringify(record);
      const row = old.get(said) ?? this.#row(record);
      old.delete(said);
      return [said, row];
    });
    const focus = new Focus(this.body);
    for (const gone of old.values()) gone.remove();
    let next = this.body.firstChild;
    for (const [, row] of this.#rows) {
      if (row === next) next = next.nextSibling;
      else this.body.insertBefore(row, next);
    }
    focus.restore();
    this.table.hidden = !records.length;
    this.empty.hidden = records.length > 0;
  }

  #row(record) {
    const cells = this.columns.map(([title, cell, kind]) => h(kind ? `td.${kind}` : "td", { "data-label": title }, cell(record)));
    if (!this.onOpen) return h("tr", {}, cells);
    return h("tr.opens", { onclick: ({ target }) => isFree(target) && this.onOpen(record) }, cells);
  }
}

/** Whether a click on an element of a row means the row: no other thing to click, and no text to copy. */
function isFree(element) {
  return !element.closest("a, button:not([data-opens])") && getSelection().isCollapsed;
}

/** A button that opens a record without a mouse: a click on it is one on its row. */
export function opener(text, label) {
  return h("button.quiet", { type: "button", "data-stop": text, "data-opens": "", "aria-label": label }, text);
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
