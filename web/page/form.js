// The options of the current scenario: six questions, and everything else behind "More options".

import { h, icon, show } from "./dom.js";
import { combobox } from "./combobox.js";
import { count, gib } from "./format.js";
import { wordName } from "./names.js";
import { t } from "./words.js";

/** Options that have a place of their own, by section. */
const SECTIONS = [
  ["Model", ["model", "recipe", "ds-config"]],
  ["GPUs", ["gpu", "instance", "gpus", "nodes", "mem"]],
  ["Training", ["method", "lora-rank", "quantization", "framework", "trainer", "tp", "pp", "ep"]],
  ["Batch", ["seq", "micro-batch", "grad-accum", "global-batch"]],
];
/** Shown only where they are set: a file that was dropped, or a link has them. */
const ONLY_WHERE_SET = new Set(["recipe", "ds-config", "instance"]);
/** Widths in sixths of the form. */
const WIDTHS = { gpus: 2, nodes: 2, mem: 2, "lora-rank": 3, quantization: 3, framework: 3, trainer: 3, tp: 3, pp: 3, ep: 3, seq: 3, "micro-batch": 3, "grad-accum": 3, "global-batch": 3 };
const LEFT_OUT = new Set(["hub", "offline"]);
/** True of a list of names; one of numbers is suggested as a whole. */
const isNamesList = (spec) => spec.type !== "integer" && (spec.list || spec.value.startsWith("LIST"));

/** What the answer used where an option is not given. */
function used(name, report) {
  const plan = report?.plans[0];
  if (!plan) return "";
  switch (name) {
    case "seq": return String(report.training.sequence_length);
    case "micro-batch": return String(plan.strategy.micro_batch_size);
    case "grad-accum": return String(plan.strategy.gradient_accumulation_steps);
    case "global-batch": return String(plan.strategy.global_batch_size);
    case "tp": return String(plan.strategy.tensor_parallel);
    case "pp": return String(plan.strategy.pipeline_parallel ?? "");
    case "ep": return String(plan.strategy.expert_parallel ?? "");
    case "nodes": return String(report.cluster.nodes);
    case "gpus": return String(report.cluster.gpus);
    case "gpu": return report.cluster.gpu;
    case "mem": return gib(report.cluster.memory_bytes);
    case "model": return report.model.name;
    default: return "";
  }
}

export class Form {
  #fields = new Map();
  #table;
  #catalogue;
  #changed;
  #filter = "";

  /** `changed(name, value)`: what the user set; "" unsets. */
  constructor(parent, table, catalogue, changed) {
    this.#table = table;
    this.#catalogue = catalogue;
    this.#changed = changed;
    const main = SECTIONS.map(([title, names]) =>
      h("fieldset", { class: "section" }, h("legend", {}, t(title)), h("div", { class: "fields" }, names.map((name) => this.#field(table.get(name), true)))));
    this.#more = h("details", { class: "more" },
      h("summary", {}, t("More options")),
      h("input", { type: "search", id: "filter", placeholder: t("Search options"), "aria-label": t("Search options"), oninput: (event) => { this.#filter = event.target.value.toLowerCase(); this.#arrange(); } }),
      this.#groups(new Set(SECTIONS.flatMap(([, names]) => names))),
      h("p", { class: "none quiet", hidden: true }, t("No option fits")));
    show(parent, main, this.#more);
  }

  #more;
  #scenario = null;
  #report = null;

  #groups(placed) {
    const groups = new Map();
    for (const spec of this.#table.values()) {
      if (placed.has(spec.name) || LEFT_OUT.has(spec.name)) continue;
      if (!groups.has(spec.group)) groups.set(spec.group, []);
      groups.get(spec.group).push(this.#field(spec, false));
    }
    return [...groups].map(([title, fields]) => h("fieldset", { class: "section group" }, h("legend", {}, t(title)), h("div", { class: "fields" }, fields)));
  }

  // ---- fields

  #field(spec, isMain) {
    const id = `option-${spec.name}`, about = `about-${spec.name}`;
    const set = (value) => this.#changed(spec.name, value);
    const control = this.#control(spec, id, about, set, isMain);
    const message = h("p", { id: about, class: "message" });
    const label = t(spec.label || `--${spec.name}`);
    const isGroup = control.classList.contains("choices");
    const head = isGroup ? h("span", { class: "label", id: `${id}-label` }, label) : h("label", { class: "label", for: id }, label);
    head.title = `--${spec.name}: ${t(spec.help)}`;
    if (isGroup) control.setAttribute("aria-labelledby", `${id}-label`);
    const element = spec.value === ""
      ? h("div", { class: "field flag" }, control, head, message)
      : h("div", { class: `field${WIDTHS[spec.name] ? ` of-${WIDTHS[spec.name]}` : ""}` }, head, control, message);
    if (spec.name === "model") head.classList.add("hidden");
    this.#fields.set(spec.name, { spec, element, control, message, isMain, placeholder: (control.querySelector("input") ?? control).placeholder ?? "", words: `${spec.name} ${label} ${t(spec.help)}`.toLowerCase() });
    return element;
  }

  #control(spec, id, about, set, isMain) {
    if (spec.value === "") return h("input", { id, type: "checkbox", "aria-describedby": about, onchange: (event) => set(event.target.checked ? true : "") });
    if (spec.name === "model")
      return combobox({ id, describedBy: about, changed: set, placeholder: t("a name, or a size such as 8B"), entries: () => this.#models(), none: () => t("No model of this name: drop its config.json here") });
    if (spec.name === "gpu")
      return combobox({ id, describedBy: about, changed: set, placeholder: t("any, of this memory"), entries: () => this.#gpus(), none: () => t("No GPU of this name: give its memory") });
    if (spec.name === "method") return this.#choices(spec, id, set);
    if (spec.type === "file" || spec.name === "recipe" || spec.name === "ds-config")
      return h("div", { class: "file" }, h("output", { id, class: "path" }), h("button", { type: "button", class: "quiet", "aria-label": t("Remove the file"), title: t("Remove the file"), onclick: () => set("") }, icon("close")));
    if (spec.type === "word" && !spec.list && !spec.other_words || spec.name === "trainer")
      return h("select", { id, "aria-describedby": about, onchange: (event) => set(event.target.value) },
        h("option", { value: "" }, spec.default ? (isMain ? wordName(spec.default) : t("default (%1)", wordName(spec.default))) : spec.name === "trainer" ? t("none") : t("default")),
        spec.words.filter((word) => word !== spec.default).map((word) => h("option", { value: word }, wordName(word))));
    const placeholder = spec.default || (isMain ? "" : spec.value);
    if (spec.words.length > 1)
      return combobox({
        id, describedBy: about, changed: set, placeholder, isList: isNamesList(spec), entries: () => spec.words.map((word) => ({ value: word, texts: [word, wordName(word)], detail: "" })),
      });
    const isNumber = (spec.type === "integer" || spec.type === "number") && !spec.list;
    const isOnlyNumber = isNumber && spec.words.length === 0;
    return h("input", {
      id, type: "text", inputmode: isOnlyNumber ? (spec.type === "integer" ? "numeric" : "decimal") : null, autocomplete: "off", spellcheck: "false", "aria-describedby": about,
      placeholder: isOnlyNumber ? spec.default : placeholder, onchange: (event) => set(event.target.value.trim()),
      oninput: ({ target: { value } }) => isNumber && (isOnlyNumber || /^[\d\s.]*$/.test(value)) && set(value.trim()),
      onkeydown: (event) => isNumber && spec.type === "integer" && this.#stepBy(event, spec.name, set),
    });
  }

  /** Arrows count up and down, as in a spin box; with Shift they double and halve. */
  #stepBy(event, name, set) {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = Number(event.target.value || event.target.placeholder);
    if (!Number.isInteger(now)) return;
    const next = event.shiftKey ? (step > 0 ? now * 2 : Math.floor(now / 2)) : now + step;
    event.target.value = String(Math.max(1, next));
    set(event.target.value);
  }

  #choices(spec, id, set) {
    return h("div", { class: "choices", role: "radiogroup", id }, spec.words.map((word) => h("label", {},
      h("input", { type: "radio", name: id, value: word, onchange: () => set(word === spec.default ? "" : word) }), h("span", {}, wordName(word)))));
  }

  #models() {
    return this.#catalogue.models.map(({ name, aliases, parameters }) => ({
      value: name, texts: [name, ...aliases], detail: count(parameters),
    }));
  }

  #gpus() {
    return this.#catalogue.gpus.map(({ name, aliases, memory }) => ({ value: name, texts: [name, ...aliases], detail: memory }));
  }

  // ---- values

  /** Shows a scenario, what its last answer used, and what is wrong with it: {option, text}. */
  update(scenario, report, problem) {
    this.#scenario = scenario;
    this.#report = report;
    for (const [name, field] of this.#fields) {
      const value = scenario.options.get(name) ?? "";
      this.#setValue(field, value);
      const isWrong = problem?.option === name;
      field.message.textContent = isWrong ? problem.text : this.#aside(name);
      field.message.lang = isWrong ? "en" : "";
      field.element.classList.toggle("is-wrong", isWrong);
      const input = field.control.matches("input, select") ? field.control : field.control.querySelector("input");
      if (isWrong) input?.setAttribute("aria-invalid", "true");
      else input?.removeAttribute("aria-invalid");
    }
    this.#arrange();
  }

  #setValue({ spec, control, placeholder }, value) {
    if (spec.value === "") control.checked = value === true;
    else if (control.classList.contains("choices")) for (const each of control.querySelectorAll("input")) each.checked = each.value === (value || this.#standing(spec.name)[0]);
    else if (control.classList.contains("file")) control.querySelector("output").textContent = value;
    else {
      const input = control.matches("input, select") ? control : control.querySelector("input");
      if (control.matches("select") && value && ![...control.options].some((each) => each.value === value)) control.append(h("option", { value }, value));
      if (control.matches("select") && value === spec.default) value = "";
      if (input !== document.activeElement || control.matches("select")) input.value = value;
      const now = used(spec.name, this.#report);
      if (!control.matches("select")) input.placeholder = now || placeholder;
    }
  }

  /** What stands below a field that is right. */
  #aside(name) {
    const model = this.#report?.model;
    if (name === "model" && model) {
      const active = model.active_parameters < model.parameters ? `, ${t("%1 active", count(model.active_parameters))}` : "";
      return t("%1 parameters%2, %3 layers", count(model.parameters), active, model.layers);
    }
    return "";
  }

  #standing(name) {
    const given = this.#scenario.options.get(name);
    if (given !== undefined) return String(given).split(",");
    const training = this.#report?.training;
    if (this.#scenario.options.has("recipe") && training && typeof training[name] === "string") return [training[name]];
    return (this.#table.get(name)?.default ?? "").split(",");
  }

  #applies(spec) {
    return spec.conditions.every((each) => {
      if (each.of) return true;
      if (each.values.length) return each.options.some((option) => this.#standing(option.replace(/^--/, "")).some((word) => each.values.includes(word)));
      return each.options.some((option) => this.#scenario.options.has(option.replace(/^--/, ""))) !== each.excluded;
    });
  }

  /** True where a degree of expert parallelism has something to divide. */
  #mayHaveExperts() {
    const model = this.#report?.model;
    return Boolean(model) && model.active_parameters < model.parameters;
  }

  /** Shows the fields that apply or are set; of those behind "More options", what the search looks for. */
  #arrange() {
    for (const [name, { spec, element, isMain, words }] of this.#fields) {
      const isSet = this.#scenario.options.has(name);
      const isFound = isMain || this.#filter.split(/\s+/).every((word) => words.includes(word));
      element.hidden = !isSet && (ONLY_WHERE_SET.has(name) || name === "ep" && !this.#mayHaveExperts() || !isFound || !this.#applies(spec));
      element.classList.toggle("is-set", isSet && !isMain);
    }
    let isAny = false;
    for (const group of this.#more.querySelectorAll(".group")) {
      group.hidden = ![...group.querySelectorAll(".field")].some((each) => !each.hidden);
      isAny ||= !group.hidden;
    }
    this.#more.querySelector(".none").hidden = isAny;
    const set = [...this.#scenario.options.keys()].filter((name) => this.#fields.has(name) && !this.#fields.get(name).isMain).length;
    this.#more.querySelector("summary").textContent = set ? t("More options (%1 set)", set) : t("More options");
  }
}
