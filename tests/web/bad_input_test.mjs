// Broken links, configs and recipes end in a sentence: bad_input_test.mjs MODULE_FOLDER
import fs from "fs";
import path from "path";
import { createRequire } from "module";
import { BadInput } from "../../web/page/input.js";
import { emptyState, filesOf, linkOf, makeScenario, readLink } from "../../web/page/scenario.js";
import { openText, openTogether } from "../../web/page/files.js";
import { zipOf } from "../../web/page/zip.js";
import { questionOf, readAnswer, refusal } from "../../web/page/question.js";

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
const dropped = (name, text) => [`${name}: ${JSON.stringify(text).slice(0, 60)}`, () => openText(name, typeof text === "string" ? text : JSON.stringify(text), makeScenario(good), table)];

const llama = { model_type: "llama", architectures: ["LlamaForCausalLM"], hidden_size: 2048, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, intermediate_size: 8192, vocab_size: 128256 };
const recipe = "base_model: Qwen/Qwen3-8B\nadapter: qlora\nload_in_4bit: true\nsequence_len: 2048\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\noptimizer: adamw_bnb_8bit\nbf16: true\n";

const LINKS = [
  "#", "#;;;", "#&&&", "#%", "#%E0%A4%A", "#model=%GG", "#model=8B", "#gpus=8", "#model=8B&gpus=0&mem=44", "#model=8B&gpus=-1&mem=44", "#model=8B&gpus=1e9&mem=44",
  "#model=8B&gpus=five&mem=44", "#model=8B&gpus=5&mem=-44", "#model=8B&gpus=5&mem=NaN", "#model=8B&gpus=5&mem=1e400", "#model=none/such&gpus=5&mem=44", "#model=8B&gpu=GTX-9999&gpus=5", "#model=",
  "#json", "#model=8B&json", "#model=8B&help", "#model=8B&emit=x.json&gpus=8&mem=80", "#model=8B&html=/etc/passwd", "#model=/etc/passwd&gpus=1&mem=80", "#model=../../../../dev/zero&gpus=1&mem=80", "#no-such-option=3",
  "#model=8B&gpus=5&mem=44&fused-loss=yes", "#model=8B&gpus", "#model=8B&gpus=8&nodes=3&mem=80", "#model=8B&method=lara&gpus=1&mem=80", "#model=8B&lora-rank=0&method=lora&gpus=1&mem=80",
  "#model=8B&framework=jax&gpus=8&mem=80", "#.file:x=!!!!&model=8B", "#.file:config.json=AAAA&model=8B", "#.file:../../x=q1bKz1eyUlBKSU3LSazUUaoFAA&model=../../x", "#<script>alert(1)</script>=1", "#model=8B&zero=9&gpus=8&mem=80",
  "#model=8B&seq=0&gpus=8&mem=80", "#model=8B&seq=999999999999999999999&gpus=8&mem=80", "#recipe=absent.yaml&gpus=8&mem=80", "#ds-config=absent.json&model=8B&gpus=8&mem=80", `#model=${"x".repeat(20000)}`, `#${"a&".repeat(3000)}`, "#model=8B&gpus=8&mem=80&.plan=none;.at=99&.view=nothing;model=",
];

const CONFIGS = [
  "", " ", "{", "[]", "null", "3", "\"text\"", "\0\0\0", "{}x", { schema: "zplan.check/1" }, { schema: "zplan.report/1" }, { schema: "zplan.report/1", plans: [{}] }, { schema: "zplan.scenarios/1" }, { schema: "zplan.scenarios/1", scenarios: [{}] },
  { schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["plan"] }] }, { schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["--model"] }] }, { schema: "zplan.scenarios/1", scenarios: [{ name: "a", report: "x.json" }] },
  { schema: "zplan.scenarios/1", scenarios: [null] }, { model_type: "llama" }, { model_type: 7 }, { model_type: "no-such-architecture", hidden_size: 1, num_hidden_layers: 1 }, { ...llama, hidden_size: -1 }, { ...llama, hidden_size: "big" }, { ...llama, num_hidden_layers: 0 },
  { ...llama, num_hidden_layers: 1e300 }, { ...llama, num_attention_heads: 0 }, { ...llama, num_key_value_heads: 7 }, { ...llama, vocab_size: null }, { ...llama, hidden_size: 2 ** 62 }, { architectures: [] }, { architectures: "x" },
  { zero_optimization: { stage: 7 } }, { zero_optimization: { stage: "three" } }, { zero_optimization: [] }, { train_batch_size: -1 }, { train_batch_size: 7, train_micro_batch_size_per_gpu: 3 }, { zero_optimization: { stage: 3, offload_param: { device: "moon" } } }, { bf16: { enabled: "perhaps" }, zero_optimization: { stage: 2 } },
];

const RECIPES = [
  "a: b", "- 1\n- 2\n", "a: [1, 2", "a: *missing\n", "&a [*a]", "\t- x", "%YAML 9.9\n---\n", "key: \"unclosed", "base_model: none/such\n", "base_model: Qwen/Qwen3-8B\nmicro_batch_size: none\n", recipe.replace("2048", "-5"), recipe.replace("adamw_bnb_8bit", "no_such_optimizer"),
  recipe.replace("qlora", "no_such_adapter"), recipe.replace("base_model: Qwen/Qwen3-8B\n", ""), `${recipe}base_model: two\n`, "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b]\n", `${"[".repeat(500)}${"]".repeat(500)}`, "#!/bin/sh\necho hello\n", "import torch\nprint(1)\n", "\u0001\u0002", "<html></html>",
];

const whole = new Uint8Array(await zipOf({ "a.zplan": JSON.stringify({ schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["--model", "8B", "--gpus", "0", "--mem", "44"] }] }) }).arrayBuffer());
const cut = (from, until) => whole.slice(from, until);
const changedAt = (at, value) => whole.map((byte, i) => (i === at ? value : byte));
const ARCHIVES = [[], [1, 2, 3], new Uint8Array(4096), cut(0, -1), cut(1), cut(0, 40), cut(whole.length - 22), changedAt(8, 99), changedAt(whole.length - 22 + 10, 250), changedAt(whole.length - 22 + 16, 255), changedAt(whole.length - 22 + 19, 255),
  changedAt(26, 255), changedAt(30, 0), whole];
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
