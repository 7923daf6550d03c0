// The answer of one scenario: verdict, strategies, memory over the step, time, traffic, config, reasons.

import { h, icon, show, copy, download } from "./dom.js";
import { SUBJECTS, bar, curve, legend, piecesOf, worstMoments } from "./charts.js";
import { count, gib, grouped, perSecond, percent, seconds } from "./format.js";
import { wordName } from "./names.js";
import { languageOf, t, translated } from "./words.js";

const MOST = 10; // strategies that are shown at once

export const available = (report) => report.cluster.available_memory_bytes;
export const fits = (report) => report.recommended !== null;

/** Returns the plan that stands for a scenario: the chosen one, else the first. */
export const planOf = (report, strategy) => report.plans.find((each) => each.id === strategy) ?? report.plans[0];

/** Returns a sentence of the engine, marked as English where the page is in another language and has no translation of it. */
const said = (sentence) => translated(sentence) ?? h("span", { lang: "en" }, sentence);

// ---- verdict

const needs = (plan, report) => {
  const text = t("{} of {} per GPU", gib(plan.memory.required), `${gib(available(report))} GiB`);
  return plan.memory.host > 0 ? text + t(", {} of host memory per node", `${gib(plan.memory.host)} GiB`) : text;
};
const speed = (plan) => t(", {} a step", seconds(plan.time.step)) + t(", {} tokens/s", perSecond(plan.time.tokens_per_second));

/** Returns the verdict on a plan in one sentence. */
export function verdictOf(report, plan) {
  const end = languageOf() === "zh-CN" ? "。" : ".";
  if (plan.fits) return `${t("Fits with {}: {}", plan.id, needs(plan, report))}${speed(plan)}${end}`;
  if (plan.short_moment && plan.short_moment !== "training") return t("Does not fit: {} lacks memory beside the steps, in {}.", plan.id, t(plan.short_moment));
  if (plan.fits_device) return t("Does not fit the host: {} needs {} per node; {} are available.", plan.id, `${gib(plan.memory.host)} GiB`, `${gib(report.cluster.available_host_memory_bytes_per_node)} GiB`);
  return t("Does not fit: {} needs {}.", plan.id, needs(plan, report));
}

const methodName = (method) => (method === "full" ? t("full fine-tuning") : wordName(method));

function questionOf(report, plan) {
  const { model, cluster, training } = report;
  const nodes = cluster.nodes > 1 ? t(" in {} nodes", cluster.nodes) : "";
  const trained = model.trainable_parameters < model.parameters ? t(", {} of them trained", count(model.trainable_parameters)) : "";
  return t("{}: {} parameters{}; {}, {}, {}. {} × {}{}, {} × {} tokens.", model.name, count(model.parameters), trained, methodName(training.method),
    training.precision, wordName(training.framework), cluster.gpus, cluster.gpu, nodes, plan.strategy.micro_batch_size, grouped(training.sequence_length));
}

function rangeOf(plan) {
  const { required_bytes: memory, step_seconds: step } = plan.ranges ?? {};
  const parts = [];
  if (memory) parts.push(t("{} to {} GiB", gib(memory.low), gib(memory.high)));
  if (step) parts.push(t("{} to {} a step", seconds(step.low), seconds(step.high)));
  return parts.length ? t("80 % of similar measured runs: {}.", parts.join(", ")) : "";
}

const withLevers = ({ levers, plan }) => `${plan.id}${levers.length ? t(" with {}", levers.map((each) => each.name).join(", ")) : ""}`;

/** What would fit, or be faster: sentences, and the commands that plan it. */
function offersOf(report, plan) {
  const { alternative, advice } = report;
  const best = advice?.best;
  const offers = [];
  const fitting = (each) => t("It fits with {}: {} GiB per GPU, {} a step.", withLevers(each), gib(each.required), seconds(each.plan.step));
  if (plan.fits) {
    const times = best ? best.plan.tokens_per_second / plan.time.tokens_per_second : 0;
    if (times > 1.005 && advice.improves)
      offers.push({ text: t("Faster: {}: {} GiB per GPU, {} a step, {} times the speed.", withLevers(best), gib(best.required), seconds(best.plan.step), times.toFixed(2)), command: best.command });
    return offers;
  }
  if (best) offers.push({ fits: true, text: fitting(best), command: best.command });
  if (alternative) {
    const change = alternative.change ? ` (${alternative.change})` : "";
    offers.push({ fits: true, text: t("It fits with {}{}: {}{}.", alternative.plan.id, change, needs(alternative.plan, report), speed(alternative.plan)) });
  }
  if (offers.length === 0 && advice?.offers.length) offers.push({ fits: true, text: fitting(advice.offers[0]), command: advice.offers[0].command });
  return offers;
}

/** What a trainer leaves room for, then what the run takes and leaves room for under the trainer beside it: a sentence each. */
function roomOf(report) {
  const room = ({ longest_sequence: tokens, largest_micro_batch: samples }) => {
    const parts = [tokens && t("up to {} tokens in a sample", grouped(tokens)), samples && t("up to {} samples in a micro-batch", grouped(samples))].filter(Boolean);
    return parts.length ? parts.join(t(", or ")) : t("nothing fits");
  };
  const nameOf = (trainer) => trainer.replace(/^\S+/, wordName);
  return (report.reach ?? []).map((each, i) => (i === 0
    ? t("Room with {}: {}.", nameOf(each.trainer), room(each))
    : t("With {} instead: {} GiB and {} a step, {}.", nameOf(each.trainer), gib(each.required_bytes), seconds(each.step_seconds), room(each))));
}

function verdictCard(report, plan, actions) {
  const range = rangeOf(plan);
  return h("section", { class: `card verdict ${plan.fits ? "is-good" : "is-bad"}`, "aria-labelledby": "verdict" },
    h("h1", { id: "verdict" }, h("span", { class: "mark" }, icon(plan.fits ? "fits" : "short")), h("span", {}, verdictOf(report, plan))),
    h("p", { class: "quiet" }, questionOf(report, plan), range && ` ${range}`),
    offersOf(report, plan).map(({ text, command, fits: isFitting }) => h("p", { class: "offer" },
      h("span", { class: isFitting ? "good" : "tip" }, icon(isFitting ? "fits" : "faster")), h("span", {}, text),
      actions.take && h("button", { type: "button", onclick: () => actions.take(command) }, t("Try it")))),
    roomOf(report).map((sentence) => h("p", { class: "room" }, sentence)),
    report.warnings.length > 0 && h("ul", { class: "warnings" }, report.warnings.map((each) => h("li", {}, icon("warning"), h("span", {}, said(each))))));
}

// ---- strategies

const SUBJECT_NAMES = { memory: "Memory", time: "Time", traffic: "Traffic" };

/** The width of bars: a plan that needs far more would leave nothing to be seen of those that fit. */
function scaleOf(report, subject, plans) {
  const widest = Math.max(...plans.map(SUBJECTS[subject].whole), 1e-9);
  if (subject === "memory") return Math.min(Math.max(widest, available(report)), 1.5 * available(report));
  const sorted = plans.map(SUBJECTS[subject].whole).sort((a, b) => a - b);
  return Math.min(widest, Math.max(4 * sorted[Math.floor(sorted.length / 2)], 1e-9));
}

/** A strategy's name, which may go on in the next line behind a plus. */
const breakable = (id) => id.split("+").map((part, i) => (i === 0 ? part : ["+", h("wbr"), part]));

function strategyRow(report, plan, view, scale, actions) {
  const free = available(report) - plan.memory.required;
  const isShown = plan === planOf(report, view.strategy);
  const limit = view.subject === "memory" ? available(report) : null;
  const figures = [
    ["GiB", gib(plan.memory.required)],
    [free < 0 ? "over" : "free", `${free < 0 ? "−" : ""}${gib(Math.abs(free))}`],
    ["host", plan.memory.host > 0 ? gib(plan.memory.host) : "–"],
    ["step", seconds(plan.time.step)],
    ["tokens/s", perSecond(plan.time.tokens_per_second)],
    ["sent", gib(plan.communication.wire_bytes_per_gpu)],
  ];
  return h("tr", { class: isShown ? "is-shown" : "" },
    h("td", { class: `mark ${plan.fits ? "good" : "bad"}` }, icon(plan.fits ? "fits" : "short"), h("span", { class: "hidden" }, plan.fits ? t("fits") : t("does not fit"))),
    h("th", { scope: "row" }, h("button", { type: "button", class: "name", "data-key": `plan-${plan.id}`, "aria-pressed": String(isShown), onclick: () => actions.choose(plan.id) }, breakable(plan.id)),
      plan.id === report.recommended && [" ", h("span", { class: "tag" }, t("recommended"))]),
    h("td", { class: "drawn" }, bar(plan, SUBJECTS[view.subject], scale, limit)),
    figures.map(([name, value]) => h("td", { class: `figure${name === "over" ? " bad" : ""}`, "data-name": t(name) }, value)));
}

function strategiesCard(report, view, actions) {
  const plans = view.isOpen ? report.plans : report.plans.slice(0, MOST);
  const shown = planOf(report, view.strategy);
  if (!plans.includes(shown)) plans.push(shown);
  const scale = scaleOf(report, view.subject, plans);
  const rest = report.plans.length - plans.length;
  const tabs = h("div", { class: "choices", role: "radiogroup", "aria-label": t("Bars show") }, Object.entries(SUBJECT_NAMES).map(([subject, name]) =>
    h("label", {}, h("input", { type: "radio", name: "subject", "data-key": `subject-${subject}`, checked: view.subject === subject, onchange: () => actions.show({ subject }) }), h("span", {}, t(name)))));
  const about = { memory: t("Memory per GPU at the worst moment; the line is what is available: {} GiB.", gib(available(report))), time: t("What a step's time goes into."), traffic: t("What a GPU sends in one step, by phase.") }[view.subject];
  return h("section", { class: "card strategies", "aria-labelledby": "strategies" },
    h("div", { class: "head" }, h("h2", { id: "strategies" }, t("Strategies")), tabs),
    h("table", { class: "plans" },
      h("caption", {}, about),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "mark" }, h("span", { class: "hidden" }, t("Verdict"))), h("th", { scope: "col" }, t("strategy")), h("th", { scope: "col", class: "drawn" }, t(SUBJECT_NAMES[view.subject])),
        ["GiB/GPU", "free, GiB", "host, GiB", "step", "tokens/s", "sent, GiB"].map((each) => h("th", { scope: "col", class: "figure" }, t(each))))),
      h("tbody", {}, plans.map((plan) => strategyRow(report, plan, view, scale, actions)))),
    h("div", { class: "foot" }, legend(SUBJECTS[view.subject], plans),
      (rest > 0 || view.isOpen && report.plans.length > MOST) && h("button", { type: "button", class: "quiet", "data-key": "all-plans", onclick: () => actions.show({ isOpen: !view.isOpen }) }, view.isOpen ? t("Fewer") : t("{} more", rest))));
}

// ---- details of one plan

const smallTable = (caption, heads, rows, left = 1) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
  h("table", { class: "small" }, h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, heads.map((each, i) => h("th", { scope: "col", class: i < left ? "left" : "" }, t(each))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((each, i) => (i === 0 ? h("th", { scope: "row" }, each) : h("td", { class: i < left ? "left" : "" }, each))))))));

function curveCard(report, plan) {
  if (plan.memory.timeline.length === 0) return null;
  const place = h("div", { class: "drawing" });
  new ResizeObserver(([{ contentRect: { width, height } }]) => width > 0 && show(place, curve(plan, available(report), Math.floor(width), Math.floor(height)))).observe(place);
  return h("section", { class: "card drawn-card", "aria-labelledby": "over-the-step" },
    h("h2", { id: "over-the-step" }, t("Memory over the step"), " ", h("span", { class: "of" }, plan.id)),
    place,
    h("p", { class: "quiet" }, t("What PyTorch's allocator has handed out. CUDA's context, NCCL's buffers and what the allocator cannot use come on top: {} GiB are needed.", gib(plan.memory.required))),
    smallTable(t("The worst moment of each phase"), ["Phase", "Moment", "GiB"], worstMoments(plan), 2));
}

function partsCard(report, plan) {
  const memory = SUBJECTS.memory;
  const pieces = piecesOf(memory, plan);
  const whole = memory.whole(plan);
  return h("section", { class: "card", "aria-labelledby": "parts" },
    h("h2", { id: "parts" }, t("What fills the memory"), " ", h("span", { class: "of" }, plan.id)),
    smallTable(t("What the memory holds at the worst moment"), ["part", "GiB", "share"],
      [...pieces.map((each) => [keyed(each), gib(each.value), percent(each.value / whole)]), [h("strong", {}, t("needs")), h("strong", {}, gib(whole)), ""]]));
}

const keyed = ({ key, name }) => h("span", { class: "keyed" }, h("span", { class: `swatch swatch-${key}`, "aria-hidden": "true" }), name);

function timeCard(plan) {
  const { time } = plan;
  const pieces = piecesOf(SUBJECTS.time, plan);
  return h("section", { class: "card", "aria-labelledby": "time" },
    h("h2", { id: "time" }, t("Time of a step"), " ", h("span", { class: "of" }, plan.id)),
    bar(plan, SUBJECTS.time, time.step),
    smallTable(t("What a step's time goes into."), ["part", "time", "share"], [...pieces.map((each) => [keyed(each), each.text, percent(each.value / time.step)]),
      [h("strong", {}, t("step")), h("strong", {}, seconds(time.step)), ""]]),
    h("p", { class: "quiet" }, t("{} tokens/s, {} per GPU; {} model FLOPs utilisation; bound by {}.", perSecond(time.tokens_per_second), perSecond(time.tokens_per_second_per_gpu), percent(time.mfu), t(time.bound))));
}

function trafficCard(plan) {
  const { collectives, host_to_device_bytes: up, device_to_host_bytes: down } = plan.communication;
  const rows = collectives.map((each) => [each.operation, t(each.purpose), t("{}, {} ranks", t(each.group), each.group_size), t(each.phase), grouped(each.count), gib(each.bytes), gib(each.wire_bytes_per_gpu), typeof each.seconds === "number" ? seconds(each.seconds) : ""]);
  return h("section", { class: "card wide", "aria-labelledby": "traffic" },
    h("h2", { id: "traffic" }, t("Traffic of a step"), " ", h("span", { class: "of" }, plan.id)),
    (up > 0 || down > 0) && h("p", {}, t("Offload copies {} GiB to the host and {} GiB to the device, per GPU.", gib(down), gib(up))),
    rows.length === 0 ? h("p", { class: "quiet" }, t("Nothing is sent between GPUs.")) : smallTable(t("Collectives of one optimizer step"), ["operation", "what", "group", "phase", "calls", "GiB", "sent per GPU, GiB", "time"], rows, 4));
}

// ---- config, launch line

/** Returns words of a command line that break between words alone: browsers would break it behind the dashes of an option. */
const commandWords = (text) => text.split(/( +)/).map((word, i) => (i % 2 ? word : h("span", { class: "word" }, word)));

const codeBlock = (title, text, { name = null, isCommand = false } = {}) => h("figure", { class: "code" },
  h("figcaption", {}, h("span", {}, title),
    h("button", { type: "button", class: "quiet", onclick: () => copy(text, t("%1 is copied", title)) }, icon("copy"), t("Copy")),
    name && h("button", { type: "button", class: "quiet", onclick: () => download(name, new Blob([text], { type: "text/plain" })) }, icon("save"), t("Save"))),
  h("pre", { tabindex: "0", class: isCommand ? "is-command" : "" }, h("code", {}, isCommand ? commandWords(text) : text)));

/** `config`: {name, text} of the plan that is shown, once the engine has written it, with the report of its own question, if any; or {problem}. */
function configCard(report, plan, config, command) {
  const isFirst = plan === report.plans[0];
  const launch = config?.report?.launch ?? (isFirst ? report.launch : null);
  const script = config?.report?.script ?? (isFirst ? report.script : null);
  const lines = plan.fits && launch ? Object.entries(launch).filter(([name, line]) => name !== "launcher" && typeof line === "string" && line !== "") : [];
  const [first, ...others] = lines.sort(([a], [b]) => (b === launch.launcher) - (a === launch.launcher));
  return h("section", { class: "card wide", "aria-labelledby": "config" },
    h("h2", { id: "config" }, t("Start it"), " ", h("span", { class: "of" }, plan.id)),
    !plan.fits && h("p", { class: "quiet" }, t("This plan does not fit, so there is nothing to start.")),
    config?.problem && h("p", { class: "quiet" }, config.problem),
    plan.fits && !first && !config?.text && !config?.problem && (isFirst || config) && h("p", { class: "quiet" }, t("zplan writes no config and no launch line for this strategy.")),
    h("div", { class: "blocks" },
      h("div", {}, codeBlock(t("Command line"), command, { isCommand: true }),
        first && codeBlock(t("Launch with {}", wordName(first[0])), first[1], { isCommand: true }),
        others.length > 0 && h("details", {}, h("summary", {}, t("Other launchers")), others.map(([name, line]) => codeBlock(wordName(name), line, { isCommand: true }))),
        script?.length > 0 && codeBlock(t("In the training script"), script.map((each) => each.text).join("\n"))),
      h("div", {}, config?.text && codeBlock(config.name, config.text, { name: config.name }))));
}

// ---- why

function whyCard(report, plan) {
  const others = report.plans.filter((each) => each !== plan && each.why.length > 0);
  const reasons = (each) => h("ul", {}, each.why.map((sentence) => h("li", {}, said(sentence))));
  return h("section", { class: "card", "aria-labelledby": "why" },
    h("h2", { id: "why" }, t("Why"), " ", h("span", { class: "of" }, plan.id)), reasons(plan),
    others.length > 0 && h("details", {}, h("summary", {}, t("The other strategies")), others.map((each) => [h("h3", {}, each.id), reasons(each)])),
    report.rejected.length > 0 && h("details", {}, h("summary", {}, t("Not possible")), h("ul", {}, report.rejected.map((each) => h("li", {}, h("strong", {}, each.id), ": ", each.reasons.map((reason, i) => [i > 0 && "; ", said(reason)]))))));
}

function assumptionsCard(report) {
  const { origin } = report.model;
  return h("section", { class: "card", "aria-labelledby": "assumed" },
    h("h2", { id: "assumed" }, t("Assumed")), h("ul", {},
      origin && h("li", {}, t("Model: {}", ""), said(origin)), report.cluster.assumptions.map((each) => h("li", {}, said(each)))),
    languageOf() !== "en" && h("p", { class: "quiet" }, t("Sentences of the engine that have no translation stand in English.")),
    h("p", { class: "quiet" }, t("Every figure is a prediction, not a measurement. zplan {}", report.zplan_version)));
}

/** Shows an answer. `view`: {strategy, subject, isOpen}; `actions`: {take, choose, show}. */
export function showAnswer(parent, report, view, config, command, actions) {
  const plan = planOf(report, view.strategy);
  show(parent,
    verdictCard(report, plan, actions), strategiesCard(report, view, actions),
    h("div", { class: "cards" }, curveCard(report, plan), h("div", { class: "stack" }, timeCard(plan), partsCard(report, plan)),
      trafficCard(plan), configCard(report, plan, config, command), whyCard(report, plan), assumptionsCard(report)));
}
