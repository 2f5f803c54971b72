// The focus stays where a person has put it, while the elements around it are replaced.

const STOPS = "a[href], button, [tabindex]";

/** Remembers which element inside of another has the focus; `restore` gives it to the one like it. */
export class Focus {
  constructor(element) {
    this.element = element;
    this.had = element.contains(document.activeElement) ? document.activeElement : null;
    this.at = this.#stops().indexOf(this.had);
  }

  /** Where there is none like it any more, the one that is in its place has it. */
  restore() {
    if (!this.had || this.element.contains(document.activeElement)) return;
    const stops = this.#stops();
    const like = stops.find((each) => nameOf(each) === nameOf(this.had)) ?? stops[Math.min(this.at, stops.length - 1)];
    like?.focus();
  }

  #stops() {
    return [...this.element.querySelectorAll(STOPS)];
  }
}

/** Puts other children into an element, unless they say the same as those that are there. */
export function renew(element, ...children) {
  const fresh = element.cloneNode(false);
  fresh.append(...children);
  if (fresh.isEqualNode(element)) return;
  const focus = new Focus(element);
  element.replaceChildren(...fresh.childNodes);
  focus.restore();
}

function nameOf(element) {
  return element.getAttribute("aria-label") ?? element.getAttribute("href");
}
