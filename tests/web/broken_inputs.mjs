// Broken links, configs, recipes and archives, which end in a sentence: under Node (bad_input_test.mjs) and in a browser (browser_test.py).
// Run as a program it prints them as JSON: {links: [hash], files: [{name, base64}]}.
import { zipOf } from "../../web/page/zip.js";

export const llama = { model_type: "llama", architectures: ["LlamaForCausalLM"], hidden_size: 2048, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, intermediate_size: 8192, vocab_size: 128256 };
const recipe = "base_model: Qwen/Qwen3-8B\nadapter: qlora\nload_in_4bit: true\nsequence_len: 2048\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\noptimizer: adamw_bnb_8bit\nbf16: true\n";

export const LINKS = [
  "#", "#;;;", "#&&&", "#%", "#%E0%A4%A", "#model=%GG", "#model=8B", "#gpus=8", "#model=8B&gpus=0&mem=44", "#model=8B&gpus=-1&mem=44", "#model=8B&gpus=1e9&mem=44",
  "#model=8B&gpus=five&mem=44", "#model=8B&gpus=5&mem=-44", "#model=8B&gpus=5&mem=NaN", "#model=8B&gpus=5&mem=1e400", "#model=none/such&gpus=5&mem=44", "#model=8B&gpu=GTX-9999&gpus=5", "#model=",
  "#json", "#model=8B&json", "#model=8B&help", "#model=8B&emit=x.json&gpus=8&mem=80", "#model=8B&html=/etc/passwd", "#model=/etc/passwd&gpus=1&mem=80", "#model=../../../../dev/zero&gpus=1&mem=80", "#no-such-option=3",
  "#model=8B&gpus=5&mem=44&fused-loss=yes", "#model=8B&gpus", "#model=8B&gpus=8&nodes=3&mem=80", "#model=8B&method=lara&gpus=1&mem=80", "#model=8B&lora-rank=0&method=lora&gpus=1&mem=80",
  "#model=8B&framework=jax&gpus=8&mem=80", "#.file:x=!!!!&model=8B", "#.file:config.json=AAAA&model=8B", "#.file:../../x=q1bKz1eyUlBKSU3LSazUUaoFAA&model=../../x", "#<script>alert(1)</script>=1", "#model=8B&zero=9&gpus=8&mem=80",
  "#model=8B&seq=0&gpus=8&mem=80", "#model=8B&seq=999999999999999999999&gpus=8&mem=80", "#recipe=absent.yaml&gpus=8&mem=80", "#ds-config=absent.json&model=8B&gpus=8&mem=80", `#model=${"x".repeat(20000)}`, `#${"a&".repeat(3000)}`, "#model=8B&gpus=8&mem=80&.plan=none;.at=99&.view=nothing;model=",
];

export const CONFIGS = [
  "", " ", "{", "[]", "null", "3", "\"text\"", "\0\0\0", "{}x", { schema: "zplan.check/1" }, { schema: "zplan.report/1" }, { schema: "zplan.report/1", plans: [{}] }, { schema: "zplan.scenarios/1" }, { schema: "zplan.scenarios/1", scenarios: [{}] },
  { schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["plan"] }] }, { schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["--model"] }] }, { schema: "zplan.scenarios/1", scenarios: [{ name: "a", report: "x.json" }] },
  { schema: "zplan.scenarios/1", scenarios: [null] }, { model_type: "llama" }, { model_type: 7 }, { model_type: "no-such-architecture", hidden_size: 1, num_hidden_layers: 1 }, { ...llama, hidden_size: -1 }, { ...llama, hidden_size: "big" }, { ...llama, num_hidden_layers: 0 },
  { ...llama, num_hidden_layers: 1e300 }, { ...llama, num_attention_heads: 0 }, { ...llama, num_key_value_heads: 7 }, { ...llama, vocab_size: null }, { ...llama, hidden_size: 2 ** 62 }, { architectures: [] }, { architectures: "x" },
  { zero_optimization: { stage: 7 } }, { zero_optimization: { stage: "three" } }, { zero_optimization: [] }, { train_batch_size: -1 }, { train_batch_size: 7, train_micro_batch_size_per_gpu: 3 }, { zero_optimization: { stage: 3, offload_param: { device: "moon" } } }, { bf16: { enabled: "perhaps" }, zero_optimization: { stage: 2 } },
];

export const RECIPES = [
  "a: b", "- 1\n- 2\n", "a: [1, 2", "a: *missing\n", "&a [*a]", "\t- x", "%YAML 9.9\n---\n", "key: \"unclosed", "base_model: none/such\n", "base_model: Qwen/Qwen3-8B\nmicro_batch_size: none\n", recipe.replace("2048", "-5"), recipe.replace("adamw_bnb_8bit", "no_such_optimizer"),
  recipe.replace("qlora", "no_such_adapter"), recipe.replace("base_model: Qwen/Qwen3-8B\n", ""), `${recipe}base_model: two\n`, "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b]\n", `${"[".repeat(500)}${"]".repeat(500)}`, "#!/bin/sh\necho hello\n", "import torch\nprint(1)\n", "\u0001\u0002", "<html></html>",
];

const whole = new Uint8Array(await zipOf({ "a.zplan": JSON.stringify({ schema: "zplan.scenarios/1", scenarios: [{ name: "a", arguments: ["--model", "8B", "--gpus", "0", "--mem", "44"] }] }) }).arrayBuffer());
const cut = (from, until) => whole.slice(from, until);
const changedAt = (at, value) => whole.map((byte, i) => (i === at ? value : byte));
export const ARCHIVES = [[], [1, 2, 3], new Uint8Array(4096), cut(0, -1), cut(1), cut(0, 40), cut(whole.length - 22), changedAt(8, 99), changedAt(whole.length - 22 + 10, 250), changedAt(whole.length - 22 + 16, 255), changedAt(whole.length - 22 + 19, 255),
  changedAt(26, 255), changedAt(30, 0), whole];

/** Returns the text of a file: what is no text is written as JSON. */
export const textOf = (content) => (typeof content === "string" ? content : JSON.stringify(content));

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const file = (name, bytes) => ({ name, base64: Buffer.from(bytes).toString("base64") });
  const files = [...CONFIGS.map((each) => file("config.json", textOf(each))), ...RECIPES.map((each) => file("recipe.yaml", each)), ...ARCHIVES.map((each) => file("x.zip", each))];
  console.log(JSON.stringify({ links: LINKS, files }));
}
