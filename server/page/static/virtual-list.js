// A list of any length in a few elements: only the rows that can be seen exist.

import { h } from "./dom.js";

const SPARE_ROWS = 8;

export class VirtualList {
  #items = [];   // the oldest first; row 0 shows the last
  #rows = [];
  #height = 0;
  #selected = null;
  #wantsFrame = false;

  /**
   * @param {object} options
   * @param {string} options.label - what the list is, for those who hear the page
   * @param {() => HTMLElement} options.make - makes an empty row
   * @param {(row: HTMLElement, item: object) => void} options.show - shows an item in a row
   * @param {(item: object) => void} options.onSelect - an item was chosen
   * @param {() => void} options.onEnd - the last row is near: there may be more to load
   */
  constructor(options) {
    this.options = options;
    this.tall = h("div.tall", { role: "presentation" });
    this.element = h("div.list", {
      role: "listbox", tabindex: 0, "aria-label": options.label,
      onscroll: () => this.#draw(),
      onclick: (event) => this.#click(event),
    }, this.tall);
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  get length() { return this.#items.length; }
  get newest() { return this.#items.at(-1); }
  get oldest() { return this.#items[0]; }
  get selected() { return this.#selected; }
  get isAtTop() { return this.element.scrollTop < this.#height; }

  /** Shows these and no others, from the top. */
  replace(items) {
    this.#items = items;
    this.#selected = null;
    this.element.scrollTop = 0;
    this.redraw();
  }

  /** Puts older items below. */
  addOlder(items) {
    this.#items = items.concat(this.#items);
    this.redraw();
  }

  /**
   * Puts newer items on top; what is being read stays where it is.
   * @returns {boolean} whether the oldest were let go: while the top is looked at, `keep` stay
   */
  addNewer(items, { keep }) {
    const hold = !this.isAtTop;
    for (const item of items) this.#items.push(item);
    const excess = hold ? 0 : Math.max(0, this.#items.length - keep);
    this.#items.splice(0, excess);
    if (hold) {
      this.#resize();
      this.element.scrollTop += items.length * this.#height;
    }
    this.redraw();
    return excess > 0;
  }

  /** Moves the selection; brings it into sight. */
  move(steps) {
    const last = this.#items.length - 1;
    if (last < 0) return;
    const at = this.#selected === null ? -1 : this.#indexOf(this.#selected);
    const next = at < 0 ? 0 : Math.min(last, Math.max(0, at + steps));
    this.select(this.#item(next));
    this.#reveal(next);
  }

  select(item) {
    this.#selected = item;
    this.#drawRows();
    if (item) this.options.onSelect(item);
  }

  toTop() { this.element.scrollTop = 0; }

  redraw() {
    if (this.#wantsFrame) return;
    this.#wantsFrame = true;
    requestAnimationFrame(() => {
      this.#wantsFrame = false;
      this.#resize();
      this.#draw();
    });
  }

  #item(index) { return this.#items[this.#items.length - 1 - index]; }
  #indexOf(item) {
    const at = this.#items.lastIndexOf(item);
    return at < 0 ? -1 : this.#items.length - 1 - at;
  }

  #resize() {
    const before = this.#height;
    this.#height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    if (this.#height !== before) for (const row of this.#rows) row.index = -1;
    const height = `${this.#items.length * this.#height}px`;
    if (this.tall.style.height !== height) this.tall.style.height = height;
    const wanted = Math.ceil(this.element.clientHeight / this.#height) + 2 * SPARE_ROWS;
    while (this.#rows.length > wanted) this.#rows.pop().element.remove();
    while (this.#rows.length < wanted) this.#rows.push(this.#newRow());
  }

  #newRow() {
    const element = this.options.make();
    element.setAttribute("role", "option");
    element.id = `row-${this.#rows.length}`;
    this.tall.append(element);
    return { element, item: null, index: -1 };
  }

  #draw() {
    this.#drawRows();
    const { scrollTop, clientHeight } = this.element;
    const left = this.#items.length * this.#height - scrollTop - clientHeight;
    if (left < 2 * clientHeight + 100) this.options.onEnd();
  }

  /** A row stays with its item while that is in sight, so that little changes when others come. */
  #drawRows() {
    if (!this.#height) return;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.#height) - SPARE_ROWS);
    const end = Math.min(first + this.#rows.length, this.#items.length);
    const wanted = new Set();
    for (let index = first; index < end; index += 1) wanted.add(this.#item(index));
    const rows = new Map(this.#rows.map((row) => [row.item, row]));
    const free = this.#rows.filter(({ item }) => !wanted.has(item));
    this.tall.append(...free.map(({ element }) => element));
    for (const item of wanted) if (!rows.has(item)) rows.set(item, this.#fill(free.pop(), item));
    for (const row of free) this.#fill(row, null);
    let next = this.tall.firstChild;
    let index = first;
    for (const item of wanted) next = this.#place(rows.get(item), index++, next);
    const active = wanted.has(this.#selected) ? rows.get(this.#selected).element.id : "";
    this.element.setAttribute("aria-activedescendant", active);
  }

  #fill(row, item) {
    row.element.hidden = item === null;
    row.item = item;
    if (item !== null) this.options.show(row.element, item);
    return row;
  }

  /** Puts a row to its place, also among the elements: who hears the page hears them in order. */
  #place(row, index, next) {
    if (row.index !== index) row.element.style.top = `${index * this.#height}px`;
    row.element.setAttribute("aria-selected", row.item === this.#selected);
    row.element.setAttribute("aria-posinset", index + 1);
    row.element.setAttribute("aria-setsize", this.#items.length);
    row.index = index;
    if (row.element === next) return next.nextSibling;
    this.tall.insertBefore(row.element, next);
    return next;
  }

  #reveal(index) {
    const top = index * this.#height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.#height > scrollTop + clientHeight) {
      this.element.scrollTop = top + this.#height - clientHeight;
    }
  }

  #click(event) {
    const row = this.#rows.find(({ element }) => element.contains(event.target));
    if (row?.item) this.select(row.item);
  }
}
