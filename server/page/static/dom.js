// Making elements. All text goes in as text: nothing on this page is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Makes an element.
 * @param {string} tag - a tag, with classes after dots, such as "div.row.fresh"
 * @param {object} [attributes] - attributes; a function is a listener ("onclick"); null leaves out
 * @param {...(Node|string|number|null|Array)} children - nodes, what becomes text, or lists of these
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElement(name), classes, attributes, children);
}

/** Makes an SVG element, as `h` makes others. */
export function s(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElementNS(SVG, name), classes, attributes, children);
}

function fill(element, classes, attributes, children) {
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) {
    if (value == null) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria-")) element.setAttribute(key, value);
    else if (value === false) continue;
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null).map(textOrNode));
  return element;
}

function textOrNode(child) {
  return child instanceof Node ? child : String(child);
}

/** Sets a text only where it changes, so that nothing is laid out for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Gives an element the colour of a name, which is always the same. */
export function hue(element, name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 65_521;
  // The golden angle: names whose sums are close get colours that are not.
  element.style.setProperty("--hue", Math.round((sum * 137.508) % 360));
  return element;
}

/** An agent's name behind its dot. */
export function agent(name) {
  return h("span.who", { title: name }, hue(h("i.dot"), name), h("span.cut", {}, name));
}
