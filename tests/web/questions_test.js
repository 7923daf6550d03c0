// The engine for WebAssembly answers as the command line does, byte for byte: questions_test.js MODULE_FOLDER ZPLAN [COUNT [SEED]]
"use strict";
const { spawnSync } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");
const { makeAsk } = require("../../web/engine/ask.js");

const [, , moduleFolder, program, count = "200", seed = "1"] = process.argv;

/** Numbers from 0 to 1 that follow from a seed. Source: mulberry32, public domain. */
function randomNumbers(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = randomNumbers(Number(seed));
const pick = (list) => list[Math.floor(random() * list.length)];
const often = (share, words) => (random() < share ? words : []);

const MODELS = ["8B", "0.5B", "1.5B", "13B", "70B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-7B", "google/gemma-2-9b", "microsoft/phi-4",
  "Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1", "openai-community/gpt2", "EleutherAI/pythia-1.4b"];
const GPUS = [["--gpu", "H100-SXM-80GB"], ["--gpu", "A100-SXM-80GB"], ["--gpu", "RTX-4090-24GB"], ["--gpu", "L4-24GB"], ["--mem", "44"], ["--mem", "24"], ["--mem", "141"]];

/** Options that go with each other, and now and then one that does not: refusals are answers, too. */
function question() {
  const gpus = pick([1, 2, 4, 5, 8, 16, 32]);
  const words = ["--model", pick(MODELS), "--gpus", String(gpus), ...pick(GPUS), ...often(0.3, ["--nodes", String(Math.max(1, gpus / 8))])];
  const framework = pick(["", "", "", "fsdp", "torch", "megatron", "torchtitan"]);
  const hasStages = framework === "megatron" || framework === "torchtitan";
  const method = hasStages ? "full" : pick(["full", "full", "lora", "qlora"]);
  if (framework) words.push("--framework", framework);
  if (method !== "full") words.push("--method", method, ...often(0.4, ["--lora-rank", pick(["8", "64"])]));
  if (hasStages) words.push(...often(0.6, ["--pp", pick(["2", "1,2"])]));
  if (framework !== "" && framework !== "megatron") words.push(...often(0.2, ["--float8", pick(["rowwise", "tensorwise"])]), ...often(0.2, ["--compile", "layer"]));
  if (framework === "fsdp") words.push(...often(0.3, ["--checkpoint-offload", pick(["trl", "unsloth"])]));
  words.push(...often(0.5, ["--seq", pick(["512", "1024", "4096", "8192"])]), ...often(0.4, ["--micro-batch", pick(["2", "4", "max"])]), ...often(0.3, ["--grad-accum", pick(["2", "8"])]));
  words.push(...often(0.2, ["--precision", pick(["fp16", "fp32"])]), ...often(hasStages ? 0.05 : 0.3, ["--optimizer", pick(["adamw8bit", "sgd", "adafactor", "lion"])]));
  words.push(...often(0.3, ["--checkpointing", pick(["none", "selective"])]), ...often(0.2, ["--attention", pick(["sdpa", "eager"])]), ...often(hasStages ? 0.05 : 0.2, ["--fused-loss"]));
  words.push(...often(hasStages ? 0.05 : 0.2, ["--zero", pick(["2,3", "3", "1"])]), ...often(0.15, ["--tp", pick(["1,2", "2"])]), ...often(hasStages ? 0.05 : 0.15, ["--offload", pick(["none", "all", "optimizer"])]));
  words.push(...often(0.1, ["--trainer", pick(["trl", "axolotl", "torchtune", "unsloth"])]), ...often(0.1, ["--headroom", "5"]), ...often(0.05, ["--gpus", "0"]), ...often(0.05, ["--no-such-option"]));
  const command = random() < 0.85 ? ["plan"] : pick([["fit", "--solve", "micro-batch"], ["fit", "--solve", "sequence"], ["search"]]);
  // Searches over everything take long.
  if (command[0] === "search") words.splice(0, words.length, "--model", pick(["1.5B", "8B"]), "--gpus", pick(["1", "2"]), "--mem", pick(["24", "80"]));
  return [...command, ...words, "--json"];
}

/**
 * The GNU C library takes exp, log and pow with fused multiplication where the processor has it, which rounds some results otherwise;
 * WebAssembly has none.
 */
const NO_FUSED = { GLIBC_TUNABLES: "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2" };

function byProgram(words, home) {
  const { status, stdout, stderr } = spawnSync(path.resolve(program), words, { encoding: "utf8", maxBuffer: 1 << 28, cwd: home, env: { LC_ALL: "C.UTF-8", HOME: home, ...NO_FUSED } });
  return { status, output: stdout, messages: stderr };
}

const said = (text) => text.replace(/^zplan: /, "").trimEnd();

/** Where two texts part, with what surrounds the place. */
function parting(a, b) {
  let at = 0;
  while (at < a.length && a[at] === b[at]) ++at;
  const around = (text) => JSON.stringify(text.slice(Math.max(0, at - 60), at + 60));
  return `at ${at}: ${around(a)} in WebAssembly, ${around(b)} by the program`;
}

async function main() {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "zplan-web-"));
  const module = await require(path.resolve(moduleFolder, "zplan-engine.js"))({ wasmBinary: fs.readFileSync(path.join(moduleFolder, "zplan-engine.wasm")) });
  const ask = makeAsk(module);
  let passed = 0, failed = 0, refused = 0, took = 0;
  for (let i = 0; i < Number(count); ++i) {
    const words = question();
    const began = performance.now();
    const here = ask({ words });
    took += performance.now() - began;
    const there = byProgram(words, home);
    const isEqual = here.status === there.status && here.output === there.output && said(here.messages) === said(there.messages);
    if (here.status === 2) ++refused;
    if (isEqual) ++passed;
    else {
      ++failed;
      console.log(`zplan ${words.join(" ")}\n  status ${here.status}, ${there.status}; output ${parting(here.output, there.output)}; messages ${parting(said(here.messages), said(there.messages))}`);
    }
  }
  fs.rmSync(home, { recursive: true });
  console.log(`${count} questions of seed ${seed}, of which ${refused} are refused; ${(took / Number(count)).toFixed(0)} ms each in WebAssembly`);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main();
