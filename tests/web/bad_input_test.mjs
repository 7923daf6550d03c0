// Broken links, configs and recipes end in a sentence: bad_input_test.mjs MODULE_FOLDER
import fs from "fs";
import path from "path";
import { createRequire } from "module";
import { BadInput } from "../../web/page/input.js";
import { emptyState, filesOf, linkOf, makeScenario, readLink } from "../../web/page/scenario.js";
import { openText, openTogether } from "../../web/page/files.js";
import { zipOf } from "../../web/page/zip.js";
import { questionOf, readAnswer, refusal } from "../../web/page/question.js";
import { ARCHIVES, CONFIGS, LINKS, RECIPES, llama, textOf } from "./broken_inputs.mjs";

const require = createRequire(import.meta.url);
const { makeAsk } = require("../../web/engine/ask.js");
const moduleFolder = path.resolve(process.argv[2]);
const module = await require(path.join(moduleFolder, "zplan-engine.js"))({ wasmBinary: fs.readFileSync(path.join(moduleFolder, "zplan-engine.wasm")) });
const ask = makeAsk(module);
const options = JSON.parse(ask({ words: ["--help", "--json"] }).output).options;
const table = new Map(options.filter(({ commands, group }) => commands.includes("plan") && group !== "Output").map((each) => [each.name.slice(2), { ...each, name: each.name.slice(2) }]));

/** What the page says of a scenario: a problem's sentence, or null where it is planned. */
function sentenceOf(scenario) {
  const problem = refusal(scenario, table) ?? readAnswer(ask(questionOf(scenario))).problem;
  return problem ? problem.whole : null;
}

async function saidOf(make) {
  try {
    const made = await make();
    const scenarios = made.scenarios ?? [made.scenario];
    if (scenarios.length === 0) return "the start page";
    return scenarios.map(sentenceOf).find((each) => each !== null) ?? null;
  } catch (error) {
    if (error instanceof BadInput) return error.message;
    throw error;
  }
}

const good = { model: "8B", gpus: "8", gpu: "H100-SXM-80GB" };
const file = Object.fromEntries;
const link = (hash) => [`link ${hash.slice(0, 60)}`, () => readLink(hash)];
const dropped = (name, text) => [`${name}: ${JSON.stringify(text).slice(0, 60)}`, () => openText(name, textOf(text), makeScenario(good), table)];

const archive = (bytes, i) => [`archive ${i}`, async () => {
  const [{ error, ...made }] = await openTogether([{ name: "x.zip", size: bytes.length, arrayBuffer: async () => new Uint8Array(bytes).buffer }], makeScenario(good), table);
  if (error) throw error;
  return made;
}];

const cases = [...ARCHIVES.map(archive), ...LINKS.map(link), ...CONFIGS.map((each) => dropped("config.json", each)), ...RECIPES.map((each) => dropped("recipe.yaml", each))];
let passed = 0, failed = 0, planned = 0;
for (const [name, make] of cases) {
  try {
    const said = await saidOf(make);
    if (said === null) ++planned;
    const isSentence = said === null || (said.length > 8 && !said.includes("\n") && !/RuntimeError|undefined|\[object/.test(said));
    if (isSentence) ++passed;
    else {
      ++failed;
      console.log(`${name}: ${JSON.stringify(said)} is no sentence`);
    }
    if (process.env.VERBOSE) console.log(`${name}\n    ${said}`);
  } catch (error) {
    ++failed;
    console.log(`${name}: ${error.stack}`);
  }
}

// What a link says is what was in the page, and so is what a saved comparison says.
const plain = (value) => JSON.stringify(value, (_, each) => (each instanceof Map ? [...each] : each));
function compare(what, after, before) {
  if (plain(after) === plain(before)) ++passed;
  else {
    ++failed;
    console.log(`${what} loses something:`, plain(after));
  }
}
const other = { ...llama, hidden_size: 4096 };
const scenarios = [
  makeScenario({ model: "m/config.json", gpus: "8", "fused-loss": true }, { name: "a; b&c=d/é %", strategy: "tp2+zero1", files: file([["m/config.json", JSON.stringify(llama)]]) }),
  makeScenario(good, { compared: false }),
];
const before = { ...emptyState(), scenarios, current: 1, view: "compare" };
compare("a link", await readLink(`#${await linkOf(before)}`), before);

const report = readAnswer(ask(questionOf(makeScenario(good)))).report;
const texts = filesOf({ ...before, scenarios: [...scenarios, makeScenario({}, { name: "saved", report })] }, "0", "comparison.zplan");
const asFile = (name, blob) => ({ name, size: blob.size, text: () => blob.text(), arrayBuffer: () => blob.arrayBuffer() });
const [saved, ...rest] = await openTogether([asFile("comparison.zip", zipOf(texts))], null, table);
compare("a saved archive", [saved.scenarios, rest], [[...scenarios, makeScenario({}, { name: "saved", report })].map((each) => (each.name ? each : { ...each })), []]);
// Two models of one name keep their own configs.
const two = [llama, other].map((each, i) => makeScenario({ ...good, model: "m/config.json" }, { name: String(i), files: file([["m/config.json", JSON.stringify(each)]]) }));
const [apart] = await openTogether([asFile("two.zip", zipOf(filesOf({ ...before, scenarios: two }, "0", "two.zplan")))], null, table);
compare("two files of one name", apart.scenarios.map(({ files }) => Object.values(files)), two.map(({ files }) => Object.values(files)));

console.log(`${cases.length} broken inputs, of which ${planned} can be planned all the same`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
