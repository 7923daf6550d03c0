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

const OFFLOAD = { "none none": "none", "cpu none": "optimizer", "cpu cpu": "all", "none cpu": "param", "nvme none": "optimizer-nvme", "nvme nvme": "all-nvme", "nvme cpu": "optimizer-nvme+param", "cpu nvme": "optimizer+param-nvme" };
/** Options by the key that a report's strategy has for them. One that is absent there is not divided by. */
const DEGREES = { tensor_parallel: "tp", pipeline_parallel: "pp", virtual_stages: "vpp", sequence_parallel: "sp", context_parallel: "cp", expert_parallel: "ep", expert_tensor_parallel: "etp", dp_replicate: "dp-replicate" };

/** Returns options by name that leave this strategy alone of all that a scenario's options allow. */
export function strategyOptions(strategy, scenario) {
  const options = { framework: strategy.framework, zero: String(strategy.zero_stage) };
  const offload = OFFLOAD[`${strategy.offload_optimizer} ${strategy.offload_parameters}`];
  if (offload) options.offload = offload;
  for (const [key, option] of Object.entries(DEGREES))
    if (strategy[key] !== undefined || scenario.options.has(option)) options[option] = String(strategy[key] ?? 1);
  return options;
}

/** What a glance leaves out before there is an answer, by framework. */
const USUAL = { deepspeed: { tp: "1", offload: "none" }, fsdp: { tp: "1", offload: "none" } };
const GLANCE = "glance.zplan";
/** How many plans of the last answer a glance looks at. */
const GLANCED = 4;

/** Returns values of options, each of them as `lists` of options by name have it. */
function joined(lists) {
  const values = {};
  for (const list of lists) for (const [name, value] of Object.entries(list)) (values[name] ??= new Set()).add(value);
  return Object.fromEntries(Object.entries(values).map(([name, set]) => [name, [...set].join(",")]));
}

/**
 * Returns a question whose answer comes several times as fast as the whole one: a file of one scenario, which is compared without advice
 * and with few strategies: those of the first of `plans`, which the last answer had, or those that divide no layer and offload nothing.
 */
export function quickQuestionOf(scenario, plans) {
  const framework = scenario.options.get("framework") ?? "deepspeed";
  const alike = plans.slice(0, GLANCED).filter(({ strategy }) => strategy.framework === framework);
  const few = alike.length ? joined(alike.map(({ strategy }) => strategyOptions(strategy, scenario))) : USUAL[framework] ?? {};
  const options = new Map(scenario.options);
  if (!options.has("recipe") && !options.has("ds-config")) for (const [name, value] of Object.entries(few)) if (!options.has(name)) options.set(name, value);
  const file = { schema: "zplan.scenarios/1", scenarios: [{ name: GLANCE, arguments: wordsOf({ options }) }] };
  return { words: ["compare", GLANCE, "--json"], files: { ...scenario.files, [GLANCE]: JSON.stringify(file) } };
}

/** Returns the report of a quick answer; null where there is none. */
export function readQuickAnswer({ status, output }) {
  if (status !== 0 && status !== 1) return null;
  try {
    const { report } = JSON.parse(output).scenarios[0];
    return isReport(report) ? report : null;
  } catch {
    return null;
  }
}

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
