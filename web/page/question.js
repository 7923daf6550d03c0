// A scenario as a question to the engine, and what comes back: a report, or a sentence that says what is wrong.

import { isReport } from "./files.js";
import { wordsOf } from "./scenario.js";

/** Returns what is wrong: of which option, in a sentence. `whole` names the option, `text` does not. */
export function problemOf(message) {
  const whole = message.trim().split("\n")[0].replace(/^zplan: /, "") || "The engine gave no answer";
  const match = /^--([a-z0-9-]+): (.*)$/s.exec(whole);
  return { option: match?.[1] ?? null, text: match?.[2] ?? whole, whole };
}

/** Returns the problem of options that no plan has, which a link may name; null where there is none. */
export function refusal(scenario, table) {
  for (const [name, value] of scenario.options) {
    const spec = table.get(name);
    if (!spec) return problemOf(`"--${name}": no such option of a plan; zplan --help lists the options`);
    if (spec.value === "" && value !== true) return problemOf(`--${name}: "${value}"; accepted: no value`);
    if (spec.value !== "" && value === true) return problemOf(`--${name}: no value; accepted: ${spec.value}`);
  }
  return null;
}

const CONFIGS = { deepspeed: "ds_config.json", fsdp: "accelerate.yaml" };

/** Returns the file that --emit writes for a scenario; null where the framework has none or a recipe says what is written. */
export const configName = (scenario) => (scenario.options.has("recipe") ? null : CONFIGS[scenario.options.get("framework") ?? "deepspeed"] ?? null);

/** Returns the question: {words, files, reads}. */
export function questionOf(scenario) {
  const config = configName(scenario);
  return { words: ["plan", ...wordsOf(scenario), ...(config ? ["--emit", config] : []), "--json"], files: scenario.files, reads: config ? [config] : [] };
}

/** Strategies that are tried before there is an answer. */
const USUAL = { deepspeed: ["zero1", "zero2", "zero3", "zero3+offload-all"], fsdp: ["fsdp", "fsdp+no-reshard"] };

/**
 * Returns a question whose answer comes in half the time: the strategies of the last answer, if any, under the options of this scenario,
 * without advice; null where there are too few.
 */
export function quickQuestionOf(scenario, before) {
  const usual = scenario.options.has("recipe") ? [] : USUAL[scenario.options.get("framework") ?? "deepspeed"] ?? [];
  const ids = before?.plans.slice(0, 8).map(({ id }) => id) ?? usual;
  return ids.length < 2 ? null : { words: ["compare", ...wordsOf(scenario), "--json", "--", ...ids], files: scenario.files, reads: [] };
}

/** Returns a report with what fits in front, fastest first. */
export const ranked = (report) => ({ ...report, plans: [...report.plans].sort((a, b) => b.fits - a.fits || b.time.tokens_per_second - a.time.tokens_per_second) });

/** Reads an answer: {report, config} or {problem}. */
export function readAnswer({ status, output, messages, written }) {
  if (status !== 0 && status !== 1) return { problem: problemOf(messages) };
  try {
    const report = JSON.parse(output);
    if (!isReport(report)) return { problem: problemOf("The engine's answer is no plan") };
    const [[name, text] = []] = Object.entries(written ?? {});
    return { report, config: text ? { name, text } : null };
  } catch {
    return { problem: problemOf(messages) };
  }
}
