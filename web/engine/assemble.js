// Puts the page together: assemble.js MODULE_FOLDER OUT. The module compressed, names of models and GPUs and the table of options as it
// prints them, the window's translations, and the list of files that the page keeps.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const path = require("path");
const zlib = require("zlib");

const root = path.join(__dirname, "../..");
const [, , moduleFolder, out] = process.argv;

function copyInto(folder, from, names) {
  fs.mkdirSync(folder, { recursive: true });
  for (const name of names) fs.copyFileSync(path.join(from, name), path.join(folder, name));
}

/** What `zplan WORDS… --json` prints. */
const answered = (ask, ...words) => {
  const { status, output, messages } = ask({ words: [...words, "--json"] });
  if (status !== 0) throw new Error(`zplan ${words.join(" ")}: ${messages}`);
  return JSON.parse(output);
};

const memoryOf = ({ figures }) => figures.memory_mib?.value ?? "";

function catalogueOf(ask) {
  const { models } = answered(ask, "models", "list");
  const { gpus } = answered(ask, "hardware", "list");
  const { options } = answered(ask, "--help");
  return {
    version: answered(ask, "plan", "--model", "1B", "--gpus", "1", "--mem", "80").zplan_version,
    models: models.map(({ name, aliases, parameters }) => ({ name, aliases, parameters })),
    gpus: gpus.filter(({ kind }) => kind === "GPU").map((each) => ({ name: each.name, aliases: each.aliases, memory: memoryOf(each) })),
    // What changes a plan; how a report is written is the page's own choice.
    options: options.filter(({ commands, group }) => commands.includes("plan") && group !== "Output").map((each) => ({
      ...Object.fromEntries(["value", "type", "list", "words", "other_words", "default", "group", "label", "help", "conditions"].map((key) => [key, each[key]])),
      name: each.name.replace(/^--/, ""),
    })),
  };
}

const unescaped = (text) => text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name) => ({ lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" })[name]);
/** Without the mark of the key that Qt underlines. */
const plain = (text) => unescaped(text).replace(/\(&[A-Z0-9]\)|&(?=\S)/gi, "");

/** The window's translations and the page's own, which win; and what the engine's sentences are in this language. */
function translations(language) {
  const all = {};
  const own = (what) => JSON.parse(fs.readFileSync(path.join(root, `web/page/${language}${what}.json`), "utf8"));
  const source = fs.readFileSync(path.join(root, `gui/translations/zplan_${language}.ts`), "utf8");
  for (const [, english, , other] of source.matchAll(/<source>([^<]*)<\/source>(?:\s*<(\w*comment)>[^<]*<\/\2>)*\s*<translation>(?:\s*<numerusform>)?([^<]+)</g)) all[plain(english)] ??= plain(other);
  return { texts: { ...all, ...own("") }, sentences: own(".sentences") };
}

function filesBelow(folder, below = "") {
  return fs.readdirSync(path.join(folder, below), { withFileTypes: true }).flatMap((each) => {
    const name = path.posix.join(below, each.name);
    return each.isDirectory() ? filesBelow(folder, name) : [name];
  }).sort();
}

async function main() {
  fs.rmSync(out, { recursive: true, force: true });
  const page = path.join(root, "web/page");
  copyInto(out, page, fs.readdirSync(page).filter((name) => !name.endsWith(".json")));
  const engine = path.join(out, "engine");
  copyInto(engine, __dirname, ["ask.js", "worker.js"]);
  copyInto(engine, moduleFolder, ["zplan-engine.js"]);
  const wasm = fs.readFileSync(path.join(moduleFolder, "zplan-engine.wasm"));
  fs.writeFileSync(path.join(engine, "zplan-engine.wasm.gz"), zlib.gzipSync(wasm, { level: 9 }));

  const module = await require(path.resolve(moduleFolder, "zplan-engine.js"))({ wasmBinary: wasm });
  const { makeAsk } = require("./ask.js");
  fs.writeFileSync(path.join(out, "catalogue.json"), JSON.stringify(catalogueOf(makeAsk(module))));
  fs.writeFileSync(path.join(out, "zh-CN.json"), JSON.stringify(translations("zh_CN")));

  const files = filesBelow(out).filter((name) => name !== "service-worker.js");
  const hash = crypto.createHash("sha256");
  for (const name of files) hash.update(name).update(fs.readFileSync(path.join(out, name)));
  const worker = path.join(out, "service-worker.js");
  const text = fs.readFileSync(worker, "utf8").replace("@VERSION@", `zplan-${hash.digest("hex").slice(0, 16)}`).replace('"@FILES@"', ["./", ...files].map((name) => JSON.stringify(name)).join(", "));
  fs.writeFileSync(worker, text);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
