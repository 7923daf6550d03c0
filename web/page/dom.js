// Elements of the page, made by functions.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** Returns an element: h("p", {class: "quiet"}, "text"). Attributes that begin with "on" are listeners. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
/** The same for drawings. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** An icon of the page's set (index.html). */
export const icon = (name) => s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `#icon-${name}` }));

/** Replaces the children; what has the focus keeps it where a child has the same `data-key`. */
export function show(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
  parent.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  if (key !== null) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

let announced;
/** Says a sentence to screen readers, and shows it for a moment. */
export function announce(text, isError = false) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.className = isError ? "is-shown is-error" : "is-shown";
  clearTimeout(announced);
  announced = setTimeout(() => (toast.className = ""), isError ? 8000 : 2500);
}

export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or not over https: by a selection.
    const area = h("textarea", { value: text, class: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(said);
}

export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
