// A text field with suggestions, after the combobox pattern of WAI-ARIA.

import { h, show } from "./dom.js";

let next = 0;
const MOST = 60;

/** Marks where the words of a query stand in a name. */
const rank = (query, texts) => {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const all = texts.map((each) => each.toLowerCase());
  if (!words.every((word) => all.some((text) => text.includes(word)))) return -1;
  const whole = words.join(" ");
  if (all.some((text) => text === whole)) return 0;
  if (all.some((text) => text.startsWith(whole))) return 1;
  return all[0].includes(whole) ? 2 : 3;
};

/** Returns what fits a query, best first. An entry: {value, texts, detail}. */
export const matching = (entries, query) =>
  query.trim() === ""
    ? entries.slice(0, MOST)
    : entries.map((entry) => ({ entry, order: rank(query, entry.texts) })).filter((each) => each.order >= 0)
        .sort((a, b) => a.order - b.order).slice(0, MOST).map((each) => each.entry);

/**
 * Makes the input with id `id`. `entries()`: what is suggested; `changed(value)`: what was typed or chosen; `none()`: what is said where nothing
 * fits, if anything; `isList`: the value is a list, of which the part behind the last comma is completed.
 */
export function combobox({ id, entries, changed, placeholder, describedBy, none, isList = false }) {
  const list = `${id}-list-${next++}`;
  let shown = [], active = -1, isOpen = false, before = "";
  const input = h("input", {
    id, type: "text", role: "combobox", autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-autocomplete": "list",
    "aria-expanded": "false", "aria-controls": list, placeholder, "aria-describedby": describedBy,
    oninput: () => open(partOf(input.value)), onfocus: () => { before = input.value; input.select(); }, onclick: () => isOpen || open(""),
    onblur: () => { close(); if (input.value !== before) take(input.value); }, onkeydown: key,
  });
  const box = h("ul", { id: list, role: "listbox", class: "suggestions", hidden: true, "aria-label": placeholder || id });

  function partOf(value) {
    return isList ? value.slice(value.lastIndexOf(",") + 1) : value;
  }
  function draw() {
    box.hidden = shown.length === 0 && !none;
    show(box, shown.length ? shown.map((entry, i) => h("li", {
      id: `${list}-${i}`, role: "option", "aria-selected": String(i === active), onpointerdown: (event) => { event.preventDefault(); choose(i); },
    }, h("span", { class: "what" }, entry.value), h("span", { class: "detail" }, entry.detail))) : h("li", { class: "none", role: "option", "aria-disabled": "true" }, none?.()));
    input.setAttribute("aria-activedescendant", active < 0 ? "" : `${list}-${active}`);
    if (active >= 0) box.children[active].scrollIntoView({ block: "nearest" });
  }
  function open(query) {
    shown = matching(entries(), query);
    active = -1;
    isOpen = true;
    input.setAttribute("aria-expanded", "true");
    draw();
    box.scrollIntoView({ block: "nearest" });
  }
  function close() {
    isOpen = false;
    box.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-activedescendant", "");
  }
  function take(value) {
    before = value.trim();
    changed(before);
  }
  function choose(i) {
    input.value = input.value.slice(0, input.value.length - partOf(input.value).length) + shown[i].value;
    close();
    take(input.value);
  }
  function key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) return open("");
      const step = event.key === "ArrowDown" ? 1 : -1;
      active = shown.length ? (active + step + shown.length) % shown.length : -1;
      draw();
    } else if (event.key === "Enter") {
      if (isOpen && active >= 0) choose(active);
      else { close(); take(input.value); }
      event.preventDefault();
    } else if (event.key === "Escape" && isOpen) {
      event.stopPropagation();
      close();
      input.value = before;
    }
  }
  return h("div", { class: "combobox" }, input, box);
}
