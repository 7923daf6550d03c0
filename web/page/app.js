// The page: scenarios on top, options of the current one on the left, its answer beside them.

import { announce, copy, download, h, icon, show } from "./dom.js";
import { Engine, Superseded } from "./engine.js";
import { Form } from "./form.js";
import { available, planOf, showAnswer } from "./answer.js";
import { SUBJECTS, bar } from "./charts.js";
import { gib, seconds } from "./format.js";
import { showComparison } from "./compare.js";
import { BadInput } from "./input.js";
import { commandOf, copyOf, emptyState, filesOf, linkOf, makeScenario, nameOf, optionsOf, readLink, splitCommand, wordsOf } from "./scenario.js";
import { openTogether } from "./files.js";
import { problemOf, questionOf, quickQuestionOf, readAnswer, readQuickAnswer, refusal, strategyOptions } from "./question.js";
import { zipOf } from "./zip.js";
import { languageOf, loadWords, setLanguage, t, translatePage } from "./words.js";

const EXAMPLES = [
  ["8B on 5 GPUs of 44 GiB, all weights", { model: "8B", gpus: "5", mem: "44" }],
  ["8B with QLoRA on one RTX 4090", { model: "8B", gpus: "1", gpu: "RTX-4090-24GB", method: "qlora" }],
  ["70B on 16 H100 in 2 nodes, all weights", { model: "70B", gpus: "16", nodes: "2", gpu: "H100-SXM-80GB" }],
];

const $ = (id) => document.getElementById(id);
const engine = new Engine();
let table = new Map(), catalogue = { models: [], gpus: [], options: [], version: "" };
let state = { ...emptyState(), differencesOnly: false };
let view = { subject: "memory", isOpen: false };
let form = null;
let draft = makeScenario(); // what is typed while there is no scenario
const undone = [];
const answers = new Map(); // by question: {report, config} or {problem: {option, text, whole}}
const last = new WeakMap(); // of a scenario: the report that is shown while a newer one is made
const configs = new Map(); // by question and strategy
const asked = new Map(); // by question: promises of answers

const current = () => state.scenarios[state.current];
const keyOf = (scenario) => JSON.stringify([wordsOf(scenario), scenario.files]);
const answerOf = (scenario) => (scenario.report ? { report: scenario.report } : answers.get(keyOf(scenario)));

// ---- answers

/** Shows what is known soon, where it says that something fits: a part of the strategies without advice. The whole answer follows. */
function glance(scenario) {
  const before = last.get(scenario);
  if (scenario.report || answerOf(scenario) || refusal(scenario, table)) return;
  const key = keyOf(scenario);
  const { words, files } = quickQuestionOf(scenario, before?.plans ?? []);
  engine.ask(words, { files, kind: "glance" }).then((answer) => {
    const report = readQuickAnswer(answer);
    if (!report || keyOf(scenario) !== key || answerOf(scenario) || report.recommended === null) return;
    last.set(scenario, report);
    if (current() === scenario) render();
  }, () => {});
}

/** Asks for a scenario's answer, once; a promise that it is there, or that a newer question of its kind came first. */
function plan(scenario, kind) {
  const key = keyOf(scenario);
  if (scenario.report || answers.has(key)) return Promise.resolve();
  const problem = refusal(scenario, table);
  if (problem) answers.set(key, { problem });
  else if (!asked.has(key)) asked.set(key, ask(scenario, key, kind).finally(() => asked.delete(key)));
  return asked.get(key) ?? Promise.resolve();
}

async function ask(scenario, key, kind) {
  try {
    const began = performance.now();
    const { words, files, reads } = questionOf(scenario);
    answers.set(key, readAnswer(await engine.ask(words, { files, reads, kind })));
    performance.measure("zplan-answer", { start: began });
  } catch (error) {
    if (error instanceof Superseded) return;
    answers.set(key, { problem: problemOf(error.message) });
  }
}

/** Returns the config of the plan that is shown. Another than the recommended one is asked for with its strategy pinned. */
function configOf(scenario, { report, config }, shown) {
  if (scenario.report) return report.ds_config && shown === report.plans[0] ? { name: "ds_config.json", text: `${JSON.stringify(report.ds_config, null, 2)}\n` } : null;
  if (shown === report.plans[0]) return config;
  if (!shown.fits) return null;
  const key = `${keyOf(scenario)} ${shown.id}`;
  if (configs.has(key)) return configs.get(key);
  configs.set(key, null);
  const { words, files, reads } = questionOf(withOptions(scenario, strategyOptions(shown.strategy, scenario)));
  engine.ask(words, { files, reads, kind: "config" }).then((answer) => {
    const made = readAnswer(answer);
    const isThis = made.report?.plans[0].id === shown.id;
    configs.set(key, isThis ? { ...made.config, report: made.report } : { problem: made.problem?.whole ?? t("The engine recommends another plan with these options.") });
    if (current() === scenario) render();
  }, () => configs.delete(key));
  return null;
}

function withOptions(scenario, options) {
  const made = copyOf(scenario);
  made.name = "";
  made.strategy = "";
  for (const [name, value] of Object.entries(options)) made.options.set(name, value);
  // The default needs no word.
  if (made.options.get("framework") === "deepspeed" && !scenario.options.has("framework")) made.options.delete("framework");
  return made;
}

// ---- what the page shows

function update() {
  render();
  keepLink();
  const scenario = current();
  if (!scenario) planExamples();
  if (scenario) glance(scenario);
  if (scenario) plan(scenario, "current").then(() => current() === scenario && (answerOf(scenario) ? render() : update()));
  if (state.view === "compare") for (const each of state.scenarios) if (each !== scenario && each.compared && !answerOf(each)) plan(each, null).then(render);
}

let linkTimer = 0;
function keepLink() {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(async () => {
    const link = await linkOf(state);
    if (`#${link}` !== location.hash && !(link === "" && location.hash === "")) history.replaceState(null, "", link ? `#${link}` : location.pathname + location.search);
  }, 150);
}

function render() {
  const scenario = current();
  document.body.classList.toggle("is-empty", !scenario);
  renderScenarios();
  $("undo").hidden = undone.length === 0;
  if (!scenario) {
    form.update(draft, null, null);
    showStart();
    return;
  }
  const answer = answerOf(scenario);
  if (answer?.report) last.set(scenario, answer.report);
  const report = answer?.report ?? last.get(scenario) ?? null;
  form.update(scenario, report, answer?.problem ?? null);
  $("form").toggleAttribute("inert", scenario.report !== null);
  const isWaiting = !answer;
  $("answer").setAttribute("aria-busy", String(isWaiting));
  document.body.classList.toggle("is-waiting", isWaiting && report !== null);
  showProblem(answer?.problem ?? null, report !== null);
  document.title = `zplan: ${nameOf(scenario)}`;
  if (state.view === "compare") {
    showComparison($("answer"), state.scenarios.map((each) => ({ scenario: each, answer: answerOf(each) })), state, {
      open: (index) => change(() => { state.current = index; state.view = "plan"; }),
      baseline: (index) => change(() => (state.baseline = index)),
      toggleDifferences: () => change(() => (state.differencesOnly = !state.differencesOnly)),
    });
  } else if (report) {
    const shown = planOf(report, scenario.strategy);
    if (scenario.report && !isDrawn(report, shown)) return;
    showAnswer($("answer"), report, { ...view, strategy: scenario.strategy }, answer?.report ? configOf(scenario, answer, shown) : null, scenario.report ? t("A report that was saved: {}", nameOf(scenario)) : commandOf(wordsOf(scenario)), {
      take: scenario.report ? null : (command) => takeOffer(command, report),
      choose: (id) => change(() => (scenario.strategy = id === report.plans[0].id ? "" : id)),
      show: (what) => { view = { ...view, ...what }; render(); },
    });
    sayOnce(report, shown);
  } else if (answer?.problem) {
    show($("answer"), h("section", { class: "card empty" }, h("span", { class: "mark bad" }, icon("warning")), h("h1", {}, t("This cannot be planned yet")), h("p", { lang: "en" }, answer.problem.whole),
      answer.problem.option === "model" && /no file or folder|known as/.test(answer.problem.text) && h("p", { class: "quiet" }, t("The page knows the models of its catalogue. Drop any other model's config.json on it."))));
  } else {
    show($("answer"), h("section", { class: "card loading" }, h("div", { class: "line wide" }), h("div", { class: "line" }), h("div", { class: "block" }), h("p", { class: "quiet", role: "status" }, t("Planning…"))));
  }
}

/** The last answer stays visible below what is wrong now. */
function showProblem(problem, isAbove) {
  const place = $("problem");
  place.hidden = !problem || !isAbove || state.view === "compare";
  if (!place.hidden) show(place, icon("warning"), h("span", {}, h("span", { lang: "en" }, problem.whole), " ", h("span", { class: "quiet" }, t("Below is the last answer."))));
}

/** Of a saved report whose figures cannot be drawn says so. */
function isDrawn(report, shown) {
  const place = h("div");
  try {
    showAnswer(place, report, { ...view, strategy: shown.id }, null, "", { take: null, choose() {}, show() {} });
    return true;
  } catch {
    show($("answer"), h("section", { class: "card empty" }, h("span", { class: "mark bad" }, icon("warning")), h("h1", {}, t("This report cannot be shown")), h("p", {}, t("It is damaged, or of another release. Its question can be planned anew."))));
    return false;
  }
}

let said = "";
function sayOnce(report, shown) {
  const text = `${shown.id} ${shown.fits} ${shown.memory.required}`;
  if (text === said) return;
  said = text;
  $("spoken").textContent = $("verdict")?.textContent ?? "";
}

function renderScenarios() {
  const list = state.scenarios.map((scenario, i) => {
    const answer = answerOf(scenario);
    const shown = answer?.report && planOf(answer.report, scenario.strategy);
    const isCurrent = i === state.current && state.view === "plan";
    return h("li", { class: isCurrent ? "is-current" : "" },
      state.scenarios.length > 1 && h("input", { type: "checkbox", "data-key": `compared-${i}`, checked: scenario.compared, "aria-label": t("compare %1", nameOf(scenario)), title: t("compare %1", nameOf(scenario)), onchange: (event) => change(() => (scenario.compared = event.target.checked)) }),
      h("button", { type: "button", class: "name", "data-key": `scenario-${i}`, "aria-current": isCurrent ? "true" : null, title: t("Double-click renames"), onclick: () => change(() => { state.current = i; state.view = "plan"; }), ondblclick: () => rename(scenario) },
        shown && h("span", { class: shown.fits ? "good" : "bad" }, icon(shown.fits ? "fits" : "short")), nameOf(scenario)),
      isCurrent && h("button", { type: "button", class: "quiet", "data-key": "rename", "aria-label": t("rename %1", nameOf(scenario)), title: t("rename %1", nameOf(scenario)), onclick: () => rename(scenario) }, icon("edit")),
      h("button", { type: "button", class: "quiet", "data-key": `delete-${i}`, "aria-label": t("delete %1", nameOf(scenario)), title: t("delete %1", nameOf(scenario)), onclick: () => remove(i) }, icon("close")));
  });
  show($("scenarios"), list, h("li", { class: "add" }, h("button", { type: "button", "data-key": "add", onclick: duplicate }, icon("add"), t("Add"))));
  const compared = state.scenarios.filter((each) => each.compared).length;
  const button = $("compare");
  button.hidden = state.scenarios.length < 2;
  button.setAttribute("aria-pressed", String(state.view === "compare"));
  show(button, icon("compare"), t("Compare (%1)", compared));
}

/** What an example ends in: its bar of memory and its verdict, once they are known. */
function exampleFound(options) {
  const report = answerOf(makeScenario(options))?.report ?? examples.get(options);
  if (!report) return h("span", { class: "found is-waiting" }, h("span", { class: "line" }));
  const [plan] = report.plans;
  return h("span", { class: "found" },
    bar(plan, SUBJECTS.memory, Math.max(plan.memory.required, available(report)), available(report)),
    h("span", { class: plan.fits ? "good" : "bad" }, icon(plan.fits ? "fits" : "short"), plan.id),
    h("span", {}, t("{} of {} GiB", gib(plan.memory.required), gib(available(report))), t(", {} a step", seconds(plan.time.step))));
}

const exampleWords = (scenario) => ["plan", ...wordsOf(scenario), "--no-advice", "--json"];
const examples = new Map(); // by example: its report without advice
let isPlanningExamples = false;
/** Plans the examples one after the other, as long as there is nothing else to plan. Without advice they keep a question waiting for less. */
async function planExamples() {
  if (isPlanningExamples) return;
  isPlanningExamples = true;
  for (const [, options] of EXAMPLES) {
    if (current()) break;
    if (examples.has(options)) continue;
    const answer = await engine.ask(exampleWords(makeScenario(options)), { kind: null }).then(readAnswer, () => ({}));
    if (answer.report) examples.set(options, answer.report);
    if (!current()) showStart();
  }
  isPlanningExamples = false;
}

function showStart() {
  document.title = "zplan";
  showProblem(null, false);
  $("answer").setAttribute("aria-busy", "false");
  const take = (options) => change(() => { state.scenarios.push(makeScenario(options)); state.current = state.scenarios.length - 1; });
  show($("answer"), h("section", { class: "card start" },
    h("h1", {}, t("What do you want to train?")),
    h("p", { class: "quiet" }, t("zplan plans memory, traffic and time of training a language model before it runs. Everything is computed in this page; nothing is sent anywhere.")),
    h("h2", {}, t("Take an example:")),
    h("div", { class: "examples" }, EXAMPLES.map(([text, options]) => h("button", { type: "button", class: "example", "data-key": `example-${options.model}-${options.gpus}`, onclick: () => take(options) }, h("strong", {}, t(text)), h("code", {}, commandOf(wordsOf(makeScenario(options))).replaceAll("-", "\u2011")), exampleFound(options)))),
    h("p", { class: "quiet" }, t("Or drop a config.json, a trainer's recipe, a ds_config or a .zplan file anywhere on this page."))));
}

// ---- changes

function change(make) {
  make();
  update();
}

function keepForUndo() {
  undone.push({ scenarios: state.scenarios.map((each) => each), current: state.current, baseline: state.baseline });
  if (undone.length > 50) undone.shift();
}

function remove(i) {
  keepForUndo();
  change(() => {
    state.scenarios.splice(i, 1);
    if (state.current >= i && state.current > 0) --state.current;
    if (state.baseline >= i && state.baseline > 0) --state.baseline;
    if (state.scenarios.length < 2) state.view = "plan";
  });
  announce(t("Deleted. Undo brings it back"));
}

function undo() {
  const before = undone.pop();
  if (before) change(() => Object.assign(state, before));
}

function add(scenario) {
  keepForUndo();
  if (current() && last.has(current())) last.set(scenario, last.get(current())); // until its own answer is there
  change(() => {
    state.scenarios.push(scenario);
    state.current = state.scenarios.length - 1;
    state.view = "plan";
  });
}

const duplicate = () => {
  const made = current() ? copyOf(current()) : makeScenario(EXAMPLES[0][1]);
  if (made.report) return;
  if (made.name) made.name = t("{}, copy", made.name);
  add(made);
};

function rename(scenario) {
  const dialog = $("rename"), field = $("new-name");
  field.value = scenario.name || nameOf(scenario);
  dialog.returnValue = "";
  dialog.onclose = () => { if (dialog.returnValue === "ok") change(() => (scenario.name = field.value.trim().slice(0, 200))); };
  dialog.showModal();
  field.select();
}

function takeOffer(command, report) {
  try {
    const scenario = current();
    let made;
    if (command) made = { ...copyOf(scenario), name: "", strategy: "", options: optionsOf(splitCommand(command).slice(1), table) };
    else {
      const { change: words, plan: other } = report.alternative;
      made = withOptions(scenario, { ...strategyOptions(other.strategy, scenario), ...Object.fromEntries(optionsOf(splitCommand(words), table)) });
    }
    add(made);
    announce(t("Added beside the first"));
  } catch (error) {
    announce(error.message, true);
  }
}

let typing = 0;
function edit(name, value) {
  const scenario = current() ?? draft;
  const before = scenario.options.get(name) ?? "";
  if (before === value) return;
  if (value === "") {
    scenario.options.delete(name);
    delete scenario.files[before];
  } else {
    scenario.options.set(name, value);
  }
  scenario.strategy = "";
  if (scenario === draft && scenario.options.has("model")) {
    state.scenarios = [draft];
    draft = makeScenario();
  }
  clearTimeout(typing);
  typing = setTimeout(update, 20);
}

// ---- files

async function openFiles(files) {
  for (const { name, scenarios, baseline, scenario, error } of await openTogether(files, current(), table)) {
    if (error) {
      announce(error instanceof BadInput ? error.message : `${name}: ${error.message}`, true);
    } else if (scenarios) {
      keepForUndo();
      change(() => {
        const offset = state.scenarios.length;
        state.scenarios.push(...scenarios);
        state.current = offset;
        if (offset === 0) state.baseline = baseline;
        if (scenarios.length > 1) state.view = "compare";
      });
      announce(t("%1 is open", name));
    } else {
      add(scenario);
      announce(t("%1 is open", name));
    }
  }
}

function save() {
  const name = "comparison.zplan";
  const texts = filesOf(state, catalogue.version, name);
  if (Object.keys(texts).length === 1) {
    download(name, new Blob([texts[name]], { type: "application/json" }));
  } else {
    download("comparison.zip", zipOf(texts));
    announce(t("Saved with the files that it reads. Unpack it for zplan compare; the page opens it as it is."));
  }
}

async function copyLink() {
  const url = new URL(location.href);
  url.hash = await linkOf(state);
  const reports = state.scenarios.filter((each) => each.report).length;
  await copy(url.href, reports ? t("The link is copied, without saved reports") : t("The link is copied"));
}

// ---- start

function listen() {
  $("open").onclick = () => $("file").click();
  $("file").onchange = (event) => { openFiles([...event.target.files]); event.target.value = ""; };
  $("save").onclick = save;
  $("link").onclick = copyLink;
  $("undo").onclick = undo;
  $("theme").onclick = () => zplanTheme.toggle();
  $("compare").onclick = () => change(() => (state.view = state.view === "compare" ? "plan" : "compare"));
  $("language").onclick = () => { setLanguage(languageOf() === "en" ? "zh-CN" : "en"); location.reload(); };
  document.querySelector(".skip").onclick = (event) => { event.preventDefault(); document.querySelector("main").focus(); };
  let depth = 0;
  const dropping = (on) => document.body.classList.toggle("is-dropping", on);
  addEventListener("dragenter", (event) => { event.preventDefault(); dropping(++depth > 0); });
  addEventListener("dragleave", () => dropping(--depth > 0));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); depth = 0; dropping(false); if (event.dataTransfer.files.length) openFiles([...event.dataTransfer.files]); });
  addEventListener("hashchange", loadLink);
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const isText = event.target.matches?.("input[type=text], input[type=search], textarea");
    const does = { s: save, o: () => $("file").click(), z: isText ? null : undo, d: duplicate }[event.key.toLowerCase()];
    if (does && !event.shiftKey) { event.preventDefault(); does(); }
  });
}

/** On a phone the options are folded, so that the verdict comes first. */
function foldOptions() {
  const narrow = matchMedia("(max-width: 58rem)");
  const fold = () => ($("options").open = !narrow.matches || state.scenarios.length === 0);
  narrow.addEventListener("change", fold);
  fold();
}

async function loadLink() {
  try {
    const read = await readLink(location.hash);
    state = { ...state, ...read };
  } catch (error) {
    state = { ...state, ...emptyState() };
    announce(error.message, true);
  }
  update();
}

async function start() {
  const [, data] = await Promise.all([loadWords(), fetch("catalogue.json").then((response) => response.json())]);
  catalogue = data;
  table = new Map(catalogue.options.map((each) => [each.name, each]));
  translatePage();
  $("language").textContent = languageOf() === "en" ? "中文" : "English";
  form = new Form($("form"), table, catalogue, edit);
  listen();
  await loadLink();
  foldOptions();
  if ("serviceWorker" in navigator && isSecureContext) navigator.serviceWorker.register("service-worker.js").catch(() => {});
}

start().catch((error) => announce(error.message, true));
