// Questions to the module: words in, JSON and messages out. Used by the page's worker and, under Node, by tests and packaging/build-web.
"use strict";

/** The module's questions read files in this folder, and write theirs to it. */
const FOLDER = "/files";

/**
 * Returns a function that asks `zplan WORDS…`: ({words, files, reads}) => {status, output, messages, written}. `files`: texts
 * by path, which are there for this question alone; `reads`: paths that the question writes, whose texts are in `written`.
 */
function makeAsk(module) {
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const { FS } = module;
  FS.mkdir(FOLDER);

  const inC = (text) => {
    const bytes = encoder.encode(text.replaceAll("\0", "\uFFFD") + "\0");
    const at = module._malloc(bytes.length);
    module.HEAPU8.set(bytes, at);
    return at;
  };
  const textOf = (question, read) => {
    const length = module._malloc(4);
    const at = read(question, length);
    const text = decoder.decode(module.HEAPU8.subarray(at, at + module.HEAPU32[length >> 2]));
    module._free(length);
    return text;
  };
  const removeAll = (folder) => {
    for (const name of FS.readdir(folder)) {
      if (name === "." || name === "..") continue;
      const path = `${folder}/${name}`;
      if (FS.isDir(FS.stat(path).mode)) {
        removeAll(path);
        FS.rmdir(path);
      } else {
        FS.unlink(path);
      }
    }
  };
  const write = (path, text) => {
    const parts = path.split("/");
    for (let i = 1; i < parts.length; ++i) {
      const folder = `${FOLDER}/${parts.slice(0, i).join("/")}`;
      if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
    }
    FS.writeFile(`${FOLDER}/${path}`, text);
  };
  const read = (path) => {
    const written = `${FOLDER}/${path}`;
    if (!FS.analyzePath(written).exists) return null;
    FS.chmod(written, 0o644); // a file gets the modes that umask leaves, and emscripten's leaves none
    return FS.readFile(written, { encoding: "utf8" });
  };

  return ({ words, files = {}, reads = [] }) => {
    FS.chdir(FOLDER);
    removeAll(FOLDER);
    for (const [path, text] of Object.entries(files)) write(path, text);
    const given = words.map(inC);
    const list = module._malloc(4 * given.length + 4);
    module.HEAPU32.set(given, list >> 2);
    const question = module._zplan_question_new();
    try {
      const status = module._zplan_question_ask(question, list, given.length);
      return {
        status,
        output: textOf(question, module._zplan_question_output),
        messages: textOf(question, module._zplan_question_messages),
        written: Object.fromEntries(reads.map((path) => [path, read(path)])),
      };
    } finally {
      module._zplan_question_delete(question);
      for (const each of [...given, list]) module._free(each);
    }
  };
}

if (typeof module === "object") module.exports = { makeAsk };
