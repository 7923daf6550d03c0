// Files dropped on the page: what they are, and the scenarios that they make.

import { BadInput } from "./input.js";
import { copyOf, makeScenario, readScenarios, safePath } from "./scenario.js";
import { readZip } from "./zip.js";

const ACCEPTED = "Accepted: a model's config.json, a ds_config, a trainer's recipe (YAML, JSON, Python or a shell script), a .zplan file or a .zip of one with what it reads, a report saved with --json";
const MOST = 8 << 20;
const IS_TEXT = /^[^\0]*$/;

/** Options of a plan that a ds_config sets: one that contradicts it is an error. */
const OF_DS_CONFIG = ["zero", "offload", "tp", "sp", "cp", "ep", "dp-replicate", "buckets", "grad-accum", "global-batch"];
/** What stays of a scenario when a recipe says the rest. */
const OF_CLUSTER = ["gpus", "nodes", "gpu", "mem", "instance", "node", "network", "host-mem", "pcie", "topology", "headroom"];

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
const isObject = (json) => typeof json === "object" && json !== null && !Array.isArray(json);
const has = (json, ...keys) => keys.some((key) => Object.hasOwn(json, key));

const isModel = (json) => has(json, "model_type", "architectures") || (has(json, "hidden_size") && has(json, "num_hidden_layers"));
const isDsConfig = (json) => has(json, "zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer", "wall_clock_breakdown", "steps_per_print")
  || (has(json, "fp16", "bf16", "optimizer", "scheduler") && Object.values(json).some(isObject));

/** A model is called after what its config was loaded from, else after its file or architecture. */
function modelName(json, file) {
  const stem = file.replace(/\.json$/i, "");
  const given = typeof json._name_or_path === "string" ? json._name_or_path.replace(/\/+$/, "").split("/").pop() : "";
  const name = given || (stem !== "config" ? stem : "") || (typeof json.model_type === "string" ? json.model_type : "");
  return name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[.-]+/, "").slice(0, 60) || "model";
}

const changed = (scenario, change) => {
  const made = copyOf(scenario);
  made.name = "";
  made.strategy = "";
  made.report = null;
  change(made);
  // Files that no option names any more.
  const named = new Set([...made.options.values()].flatMap((each) => String(each).split(",")));
  for (const path of Object.keys(made.files)) if (!named.has(path)) delete made.files[path];
  return made;
};

/** Reads a report that was saved. Throws BadInput. */
function reportOf(name, json) {
  if (!isReport(json)) throw new BadInput(`${name}: a report without plans, or of another release. Accepted: what zplan --json prints`);
  return json;
}

/**
 * Returns what files make that were opened together, each {name, scenarios, baseline}, {name, scenario} or {name, error}: a .zplan file takes the
 * files that its scenarios read from the others. `files`: as a browser gives them.
 */
export async function openTogether(files, current, table) {
  const texts = {}, opened = [];
  for (const file of files) {
    try {
      if (file.size > MOST) throw new BadInput(`${file.name}: ${file.size} bytes. Accepted: at most ${MOST}`);
      if (/\.zip$/i.test(file.name)) Object.assign(texts, await readZip(await file.arrayBuffer(), file.name));
      else texts[file.name] = await file.text();
    } catch (error) {
      opened.push({ name: file.name, error });
    }
  }
  const used = new Set();
  let start = current; // a second file changes what the first has made
  const isScenarios = (name) => /\.zplan$/i.test(name);
  for (const name of Object.keys(texts).sort((a, b) => isScenarios(b) - isScenarios(a))) {
    if (used.has(name)) continue;
    try {
      const made = openText(name, texts[name], start, table, { texts, used, reportOf: (path) => reportOf(path, parsed(texts[path])) });
      start = made.scenario ?? start;
      opened.push({ name, ...made });
    } catch (error) {
      opened.push({ name, error });
    }
  }
  return opened;
}

/**
 * Returns what a file makes: {scenarios, baseline} of a .zplan file, else {scenario}. `current`: the scenario that is changed;
 * `table`: the options of a plan; `beside`: what was opened together with it. Throws BadInput.
 */
export function openText(name, text, current, table, beside = { texts: {}, used: new Set() }) {
  if (text.length > MOST) throw new BadInput(`${name}: ${text.length} bytes. Accepted: at most ${MOST}`);
  if (!IS_TEXT.test(text) || text.trim() === "") throw new BadInput(`${name}: ${text.trim() === "" ? "an empty file" : "no text"}. ${ACCEPTED}`);
  const json = parsed(text);
  const start = current && !current.report ? current : makeScenario({ model: "8B", gpus: "8", gpu: "H100-SXM-80GB" });
  if (isObject(json)) {
    if (json.schema === "zplan.scenarios/1") return readScenarios(json, name, table, beside);
    if (json.schema === "zplan.report/1") {
      return { scenario: makeScenario({}, { name: name.replace(/\.json$/i, ""), report: reportOf(name, json) }) };
    }
    if (typeof json.schema === "string" && json.schema.startsWith("zplan.")) throw new BadInput(`${name}: ${json.schema}. ${ACCEPTED}`);
    if (isModel(json)) {
      const path = `${modelName(json, name)}/config.json`;
      return { scenario: changed(start, (made) => { made.options.delete("recipe"); made.options.set("model", path); made.files[path] = text; }) };
    }
    if (isDsConfig(json)) {
      const path = safePath(name);
      return { scenario: changed(start, (made) => { for (const each of OF_DS_CONFIG) made.options.delete(each); made.options.set("ds-config", path); made.files[path] = text; }) };
    }
  }
  if (json !== undefined && !isObject(json)) throw new BadInput(`${name}: JSON, but no object. ${ACCEPTED}`);
  if (/\.(png|jpe?g|pdf|zip|gz|safetensors|bin|pt|pth|gguf)$/i.test(name)) throw new BadInput(`${name}: no format that zplan knows. ${ACCEPTED}`);
  const path = safePath(name);
  return {
    scenario: changed(start, (made) => {
      made.options = new Map([["recipe", path], ...[...made.options].filter(([option]) => OF_CLUSTER.includes(option))]);
      made.files[path] = text;
    }),
  };
}

/** True if a report has what the page shows. */
export function isReport(json) {
  const isPlan = (plan) => isObject(plan) && typeof plan.id === "string" && isObject(plan.memory) && Array.isArray(plan.memory.timeline) && isObject(plan.time)
    && isObject(plan.strategy) && isObject(plan.communication) && Array.isArray(plan.communication.collectives) && Array.isArray(plan.why);
  return isObject(json) && json.schema === "zplan.report/1" && Array.isArray(json.plans) && json.plans.length > 0 && json.plans.every(isPlan) && isObject(json.model)
    && isObject(json.cluster) && isObject(json.training) && Array.isArray(json.cluster.assumptions) && Array.isArray(json.warnings) && Array.isArray(json.rejected);
}
