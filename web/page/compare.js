// Scenarios side by side: bars against their limits, and a table with differences from the baseline.

import { h, icon, show } from "./dom.js";
import { MEMORY, SUBJECTS, bar, legend, memoryOf } from "./charts.js";
import { available, planOf } from "./answer.js";
import { count, gib, grouped, percent, perSecond, seconds } from "./format.js";
import { nameOf } from "./scenario.js";
import { t } from "./words.js";

const bytes = (of) => ({ of, text: (value) => (value === 0 ? "–" : gib(value)), difference: true, less: true });
const figure = (of, text, less = null) => ({ of, text, difference: true, less });
const word = (of) => ({ of, text: (value) => value });

/** Lines of the table: a value of a report and its plan, and whether less of it is better. */
const LINES = [
  ["model", word((report) => report.model.name)],
  ["GPUs", word((report) => `${report.cluster.gpus} × ${report.cluster.gpu}`)],
  ["nodes", word((report) => String(report.cluster.nodes))],
  ["strategy", word((_, plan) => plan.id)],
  ["method", word((report) => report.training.method)],
  ["framework", word((report) => report.training.framework)],
  ["precision", word((report) => report.training.precision)],
  ["optimizer used", word((report) => report.training.optimizer)],
  ["checkpointing", word((_, plan) => plan.strategy.activation_checkpointing)],
  ["sequence length", word((report) => grouped(report.training.sequence_length))],
  ["micro-batch", word((_, plan) => String(plan.strategy.micro_batch_size))],
  ["micro-batches per step", word((_, plan) => String(plan.strategy.gradient_accumulation_steps))],
  ["samples per step", word((_, plan) => String(plan.strategy.global_batch_size))],
  ["verdict", word((_, plan) => (plan.fits ? t("fits") : t("does not fit")))],
  ["needs, GiB", bytes((_, plan) => plan.memory.required)],
  ["available, GiB", { of: (report) => available(report), text: gib, difference: true, less: false }],
  ...MEMORY.map(([key, name]) => [name, { ...bytes((_, plan) => memoryOf(plan)[key]), less: null, isPart: true }]),
  ["host memory per node, GiB", bytes((_, plan) => plan.memory.host)],
  ["sent per GPU, GiB", bytes((_, plan) => plan.communication.wire_bytes_per_gpu)],
  ["step", figure((_, plan) => plan.time.step, seconds, true)],
  ["of that compute", figure((_, plan) => plan.time.compute, seconds)],
  ["exposed communication", figure((_, plan) => plan.time.exposed_communication, seconds)],
  ["offload", { ...figure((_, plan) => plan.time.offload, seconds), isPart: true }],
  ["tokens per second", figure((_, plan) => plan.time.tokens_per_second, perSecond, false)],
  ["MFU", figure((_, plan) => plan.time.mfu, percent, false)],
  ["trained parameters", figure((report) => report.model.trainable_parameters, count)],
];

function difference(value, base, line) {
  if (!line.difference || value === base) return null;
  if (base === 0) return null;
  const share = value / base - 1;
  if (Math.abs(share) < 0.005 || share > 999) return null; // a base that is next to nothing
  const better = line.less === null ? "" : (share < 0) === line.less ? "good" : "bad";
  return h("span", { class: `difference ${better}` }, share >= 2 ? `× ${(value / base).toFixed(1)}` : `${share > 0 ? "+" : "−"}${Math.round(Math.abs(share) * 100)} %`);
}

function tableLine(name, line, shown, base, differencesOnly) {
  const values = shown.map(({ report, plan }) => line.of(report, plan) ?? 0);
  if (line.isPart && values.every((each) => each === 0)) return null;
  if (differencesOnly && values.every((each) => each === values[0])) return null;
  const numbers = line.less === null || line.less === undefined || new Set(values).size < 2 ? null : values;
  const best = numbers && (line.less ? Math.min(...numbers) : Math.max(...numbers));
  return h("tr", { class: line.isPart ? "part" : "" }, h("th", { scope: "row" }, t(name)), values.map((value, i) =>
    h("td", { class: typeof value === "number" ? "figure" : "words" }, line.text(value), best !== null && value === best && h("span", { class: "best", title: t("the best of the line") }, " *"), i !== base && difference(value, values[base], line))));
}

/** `entries`: {scenario, answer: {report} | {problem} | null}; `actions`: {open, baseline, toggleDifferences}. */
export function showComparison(parent, entries, state, actions) {
  const shown = entries.map((entry, index) => ({ ...entry, index })).filter(({ scenario, answer }) => scenario.compared && answer?.report)
    .map((each) => ({ ...each, report: each.answer.report, plan: planOf(each.answer.report, each.scenario.strategy) }));
  const problems = entries.filter(({ scenario, answer }) => scenario.compared && answer?.problem);
  const waiting = entries.filter(({ scenario, answer }) => scenario.compared && !answer).length;
  if (shown.length === 0) {
    show(parent, h("section", { class: "card empty" }, h("h1", {}, waiting ? t("Planning…") : t("Nothing to compare")), h("p", { class: "quiet" }, t("Tick two scenarios or more in the list.")), problems.map(({ answer }) => h("p", { class: "bad", lang: "en" }, answer.problem.whole))));
    return;
  }
  const base = Math.max(0, shown.findIndex((each) => each.index === state.baseline));
  const scale = Math.max(...shown.map(({ report, plan }) => Math.max(Math.min(plan.memory.required, 1.5 * available(report)), available(report))));
  const fastest = shown.filter(({ plan }) => plan.fits).reduce((a, b) => (!a || b.plan.time.tokens_per_second > a.plan.time.tokens_per_second ? b : a), null);
  const verdict = !fastest ? t("None of the {} scenarios fits.", shown.length)
    : shown.length === 1 ? t("{} fits.", nameOf(fastest.scenario))
    : t("{} of {} fit; the fastest is {}: {} tokens/s.", shown.filter(({ plan }) => plan.fits).length, shown.length, nameOf(fastest.scenario), perSecond(fastest.plan.time.tokens_per_second));
  show(parent,
    h("section", { class: `card verdict ${fastest ? "is-good" : "is-bad"}` }, h("h1", {}, h("span", { class: "mark" }, icon(fastest ? "fits" : "short")), h("span", {}, verdict)),
      waiting > 0 && h("p", { class: "quiet" }, t("{} more are being planned…", waiting)), problems.map(({ scenario, answer }) => h("p", { class: "bad" }, `${nameOf(scenario)}: `, h("span", { lang: "en" }, answer.problem.whole)))),
    h("section", { class: "card", "aria-labelledby": "side-by-side" },
      h("div", { class: "head" }, h("h2", { id: "side-by-side" }, t("Memory")), h("p", { class: "quiet" }, t("Each bar against its own limit, the line"))),
      h("div", { class: "bars" }, shown.map(({ scenario, report, plan, index }) => h("div", { class: "compared" },
        h("button", { type: "button", class: "name", "data-key": `bar-${index}`, onclick: () => actions.open(index) }, nameOf(scenario)), bar(plan, SUBJECTS.memory, scale, available(report)),
        h("span", { class: `figure ${plan.fits ? "" : "bad"}` }, t("{} of {} GiB", gib(plan.memory.required), gib(available(report))))))),
      legend(SUBJECTS.memory, shown.map(({ plan }) => plan))),
    h("section", { class: "card", "aria-labelledby": "figures" },
      h("div", { class: "head" }, h("h2", { id: "figures" }, t("Figures")),
        h("label", { class: "check" }, h("input", { type: "checkbox", "data-key": "differences", checked: state.differencesOnly, onchange: actions.toggleDifferences }), t("Differences only"))),
      h("p", { class: "quiet" }, t("* the best of the line; ± the difference from the baseline")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Comparison") }, h("table", { class: "comparison" },
        h("caption", { class: "hidden" }, t("Comparison")),
        h("thead", {}, h("tr", {}, h("td", {}), shown.map(({ scenario, index }, i) => h("th", { scope: "col" }, h("button", { type: "button", class: "name", "data-key": `column-${index}`, onclick: () => actions.open(index) }, nameOf(scenario)),
          i === base ? h("span", { class: "tag" }, t("baseline")) : h("button", { type: "button", class: "quiet", "data-key": `base-${index}`, onclick: () => actions.baseline(index) }, t("as baseline")))))),
        h("tbody", {}, LINES.map(([name, line]) => tableLine(name, line, shown, base, state.differencesOnly)))))));
}
