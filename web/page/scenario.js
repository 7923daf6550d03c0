// A scenario: a named question, as in .zplan files (docs/scenarios.md); scenarios as words, as links and as files.

import { BadInput, readAll } from "./input.js";

/** Keys of a link that are no options. */
const NAME = ".name", PLAN = ".plan", APART = ".apart", FILE = ".file:", AT = ".at", BASELINE = ".baseline", VIEW = ".view";
const MOST_SCENARIOS = 200, MOST_WORDS = 200, MOST_LINK = 1 << 20, MOST_FILE = 4 << 20;

export const makeScenario = (options = {}, rest = {}) => ({
  name: "",
  options: new Map(Object.entries(options)),
  strategy: "", // id of the plan that stands for the scenario; "" is the recommended one
  compared: true,
  files: {}, // texts that options name, by path
  report: null, // of a saved report, which is shown and not asked again
  ...rest,
});

export const copyOf = (scenario) => ({ ...scenario, options: new Map(scenario.options), files: { ...scenario.files } });

export const emptyState = () => ({ scenarios: [], current: 0, baseline: 0, view: "plan" });

/** Returns the words behind `zplan plan`. */
export const wordsOf = (scenario) =>
  [...scenario.options].flatMap(([name, value]) => (value === true ? [`--${name}`] : value.startsWith("-") ? [`--${name}=${value}`] : [`--${name}`, value]));

const quoted = (word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
/** Returns the command to paste into a shell. */
export const commandOf = (words) => ["zplan", ...words].map(quoted).join(" ");

/** Returns the words of a command line, quotes removed. */
export function splitCommand(line) {
  const words = [];
  for (const [word] of line.matchAll(/(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+/g))
    words.push(word.replace(/\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)"/g, (_, one, single, double) => one ?? single ?? double.replace(/\\(.)/g, "$1")));
  return words;
}

/** Returns options by name; `table`: the options of a plan. Throws BadInput. */
export function optionsOf(words, table) {
  const options = new Map();
  for (let i = 0; i < words.length; ++i) {
    const match = /^--([^=]+)(?:=(.*))?$/s.exec(words[i]);
    const spec = match && table.get(match[1]);
    if (!spec) throw new BadInput(`${words[i]}: no option of a plan. Accepted: options as in zplan --model 8B --gpus 5 --mem 44`);
    if (spec.value === "") {
      options.set(match[1], true);
    } else if (match[2] !== undefined) {
      options.set(match[1], match[2]);
    } else {
      if (i + 1 >= words.length) throw new BadInput(`${words[i]}: no value`);
      options.set(match[1], words[++i]);
    }
  }
  return options;
}

/** Returns a name that says what differs from others at a glance: "8B, 5 × 44 GiB, qlora". */
export function nameOf(scenario) {
  if (scenario.name) return scenario.name;
  const value = (name) => scenario.options.get(name);
  const base = (path) => String(path).replace(/\/config\.json$/, "").split("/").pop();
  const what = value("recipe") ? base(value("recipe")) : value("model") ? base(value("model")) : "";
  const card = value("gpu") ?? value("instance") ?? (value("mem") ? `${value("mem")} GiB` : "");
  const on = [value("gpus"), card].filter(Boolean).join(" × ");
  const parts = [what, on, value("method"), value("framework"), value("seq") && `seq ${value("seq")}`];
  return parts.filter(Boolean).join(", ") || "…";
}

// ---- links

const encode = (text) => encodeURIComponent(text).replace(/%(2F|2C|3A|40|20)/g, (all, code) => ({ "2F": "/", "2C": ",", "3A": ":", "40": "@", 20: "+" })[code]);
const decode = (text) => {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new BadInput(`The link is damaged at “${text.slice(0, 40)}”. Accepted: what “Copy link” copies`);
  }
};

const through = (bytes, stream, name) => readAll(new Blob([bytes]).stream().pipeThrough(stream), MOST_FILE, name);

async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), "The link");
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(text, name) {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (each) => each.charCodeAt(0));
    return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"), name));
  } catch {
    throw new BadInput(`The link is damaged: the file ${name} in it cannot be read. Accepted: what “Copy link” copies`);
  }
}

async function scenarioPart(scenario) {
  const parts = [...scenario.options].map(([name, value]) => (value === true ? encode(name) : `${encode(name)}=${encode(value)}`));
  if (scenario.name) parts.push(`${NAME}=${encode(scenario.name)}`);
  if (scenario.strategy) parts.push(`${PLAN}=${encode(scenario.strategy)}`);
  if (!scenario.compared) parts.push(APART);
  for (const [path, text] of Object.entries(scenario.files)) parts.push(`${FILE}${encode(path)}=${await packed(text)}`);
  return parts.join("&");
}

/** Returns what stands behind # in the address: all scenarios, with the files that they read. */
export async function linkOf(state) {
  const asked = state.scenarios.filter((each) => !each.report);
  if (asked.length === 0) return "";
  const parts = await Promise.all(asked.map(scenarioPart));
  const about = [];
  const current = asked.indexOf(state.scenarios[state.current]), baseline = asked.indexOf(state.scenarios[state.baseline]);
  if (current > 0) about.push(`${AT}=${current}`);
  if (baseline > 0) about.push(`${BASELINE}=${baseline}`);
  if (state.view !== "plan") about.push(`${VIEW}=${state.view}`);
  if (about.length) parts.push(about.join("&"));
  return parts.join(";");
}

const place = (text, size) => (/^\d{1,3}$/.test(text) && Number(text) < size ? Number(text) : 0);

/** Reads a link. Throws BadInput. */
export async function readLink(hash) {
  const text = hash.replace(/^#/, "");
  const state = emptyState();
  if (text.length > MOST_LINK) throw new BadInput(`The link has ${text.length} characters. Accepted: at most ${MOST_LINK}`);
  const about = {};
  for (const part of text.split(";").filter(Boolean)) {
    const scenario = makeScenario();
    let hasOptions = false;
    for (const pair of part.split("&").filter(Boolean)) {
      const at = pair.indexOf("=");
      const key = decode(at < 0 ? pair : pair.slice(0, at));
      const value = at < 0 ? true : pair.slice(at + 1);
      if ([AT, BASELINE, VIEW].includes(key)) {
        about[key] = value === true ? "" : decode(value);
        continue;
      }
      hasOptions = true;
      if (key === NAME) scenario.name = value === true ? "" : decode(value).slice(0, 200);
      else if (key === PLAN) scenario.strategy = value === true ? "" : decode(value);
      else if (key === APART) scenario.compared = false;
      else if (key.startsWith(FILE)) scenario.files[safePath(key.slice(FILE.length))] = await unpacked(value === true ? "" : value, key.slice(FILE.length));
      else scenario.options.set(key.replace(/^--/, ""), value === true ? true : decode(value));
    }
    if (hasOptions) state.scenarios.push(scenario);
  }
  if (state.scenarios.length > MOST_SCENARIOS) throw new BadInput(`The link has ${state.scenarios.length} scenarios. Accepted: at most ${MOST_SCENARIOS}`);
  state.current = place(about[AT], state.scenarios.length);
  state.baseline = place(about[BASELINE], state.scenarios.length);
  state.view = about[VIEW] === "compare" ? "compare" : "plan";
  return state;
}

/** Returns the path without anything that leads out of its folder. */
export const safePath = (path) =>
  path.split(/[/\\]+/).filter((each) => each !== "" && each !== "." && each !== "..").slice(-2).join("/").slice(-200) || "file";

// ---- .zplan files

/** Returns a path that no other text of `texts` has, as `path` with a folder in front where one has it. */
function freePath(texts, path, text) {
  let free = path;
  for (let i = 2; texts[free] !== undefined && texts[free] !== text; ++i) free = `${i}/${path}`;
  return free;
}

const withPaths = (options, pathOf) => new Map([...options].map(([name, value]) => [name, value === true ? value : value.split(",").map(pathOf).join(",")]));

/**
 * Returns the texts by path that keep the scenarios: the .zplan file `name` first, then the files that scenarios read, and saved reports, as
 * `zplan compare` and the window look for them beside it.
 */
export function filesOf(state, version, name) {
  const texts = { [name]: "" };
  const scenarios = state.scenarios.map((each) => {
    const about = { ...(each.strategy && { strategy: each.strategy }), ...(!each.compared && { compared: false }) };
    if (each.report) {
      const text = `${JSON.stringify(each.report, null, 2)}\n`, path = freePath(texts, `${safePath(nameOf(each))}.json`, text);
      texts[path] = text;
      return { name: nameOf(each), report: path, ...about };
    }
    const paths = new Map(Object.entries(each.files).map(([path, text]) => [path, [freePath(texts, path, text), text]]));
    for (const [path, text] of paths.values()) texts[path] = text;
    return { name: nameOf(each), arguments: wordsOf({ options: withPaths(each.options, (path) => paths.get(path)?.[0] ?? path) }), ...about };
  });
  texts[name] = `${JSON.stringify({ schema: "zplan.scenarios/1", zplan_version: version, baseline: scenarios.length ? state.baseline : null, scenarios }, null, 2)}\n`;
  return texts;
}

/** Returns the path in `texts` of the file that a .zplan file names: the same, else the only one of this name; undefined where there is none. */
function pathIn(texts, path) {
  if (Object.hasOwn(texts, path)) return path;
  const last = path.split("/").pop();
  const alike = Object.keys(texts).filter((each) => each.split("/").pop() === last);
  return last !== "" && alike.length === 1 ? alike[0] : undefined;
}

const isWord = (each) => typeof each === "string";

function readScenario(json, at, table, beside) {
  if (typeof json !== "object" || json === null) throw new BadInput(`${at}: no object. Accepted: {"name", "arguments"}`);
  if (!isWord(json.name)) throw new BadInput(`${at}/name: missing. Accepted: a text`);
  const rest = { name: json.name, strategy: isWord(json.strategy) ? json.strategy : "", compared: json.compared !== false };
  if (json.report !== undefined) {
    const path = isWord(json.report) ? pathIn(beside.texts, json.report) : undefined;
    if (path === undefined) throw new BadInput(`${at}/report: names the file ${json.report}, which a page cannot read. Accepted: the report, dropped together with this file`);
    beside.used.add(path);
    return makeScenario({}, { ...rest, report: beside.reportOf(path) });
  }
  if (!Array.isArray(json.arguments) || !json.arguments.every(isWord) || json.arguments.length > MOST_WORDS)
    throw new BadInput(`${at}/arguments: missing. Accepted: up to ${MOST_WORDS} words, options and their values`);
  const files = {};
  const options = withPaths(optionsOf(json.arguments, table), (word) => {
    const path = pathIn(beside.texts, word);
    if (path === undefined) return word;
    beside.used.add(path);
    files[safePath(word)] = beside.texts[path];
    return safePath(word);
  });
  return makeScenario({}, { ...rest, options, files });
}

/**
 * Reads a .zplan file that JSON.parse has read. `beside`: {texts, used, reportOf}, the texts by path that were dropped together with it, the set
 * of those that scenarios read, and what reads a saved report of them. Throws BadInput.
 */
export function readScenarios(json, name, table, beside) {
  if (!Array.isArray(json.scenarios) || json.scenarios.length > MOST_SCENARIOS)
    throw new BadInput(`${name}#/scenarios: missing. Accepted: a list of up to ${MOST_SCENARIOS}`);
  const scenarios = json.scenarios.map((each, i) => readScenario(each, `${name}#/scenarios/${i}`, table, beside));
  const named = new Set(scenarios.map(nameOf));
  // A name that follows from the question goes on following it.
  if (named.size === scenarios.length) for (const each of scenarios) if (nameOf({ ...each, name: "" }) === each.name) each.name = "";
  return { scenarios, baseline: Number.isInteger(json.baseline) ? place(String(json.baseline), scenarios.length) : 0 };
}
