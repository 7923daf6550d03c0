// The engine in a worker: answers {id, words, files, reads} with {id, status, output, messages, written}.
"use strict";
/** The response with the module, asked for ahead of all scripts; a worker that follows another gets the module from it. */
const loading = self.name === "again" ? null : fetch("zplan-engine.wasm.gz");
loading?.catch(() => {}); // start() says it
importScripts("zplan-engine.js", "ask.js");

/** Returns a stream of bytes with what was read of it already in front. */
function whole(first, reader) {
  return new ReadableStream({
    start: (controller) => controller.enqueue(first),
    pull: async (controller) => {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

/** Compiles the module while it is loaded. Servers differ in whether they say that the file is compressed, in which case the browser unpacks it. */
async function compileModule() {
  const response = await (loading ?? fetch("zplan-engine.wasm.gz"));
  if (!response.ok) throw new Error(`zplan-engine.wasm.gz: status ${response.status}`);
  const reader = response.body.getReader();
  const { value: first } = await reader.read();
  let bytes = whole(first, reader);
  if (first[0] === 0x1f && first[1] === 0x8b) {
    if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the engine. Chrome 111, Firefox 113, Safari 16.4 or newer can.");
    bytes = bytes.pipeThrough(new DecompressionStream("gzip"));
  }
  return WebAssembly.compileStreaming(new Response(bytes, { headers: { "Content-Type": "application/wasm" } }));
}

let ask;

async function start(compiled) {
  const module = compiled ?? (await compileModule());
  const engine = await new Promise((resolve, reject) => {
    zplanEngine({
      instantiateWasm(imports, received) {
        WebAssembly.instantiate(module, imports).then((instance) => received(instance, module), reject);
        return {};
      },
      print() {},
      printErr() {},
    }).then(resolve, reject);
  });
  ask = makeAsk(engine);
  postMessage({ ready: true, module });
}

addEventListener("message", ({ data }) => {
  if (data.start) {
    start(data.module).catch((error) => postMessage({ failed: String(error.message ?? error) }));
    return;
  }
  try {
    postMessage({ id: data.id, ...ask(data) });
  } catch (error) {
    // The module is broken from here on: memory that cannot grow, or a fault of its own.
    postMessage({ id: data.id, broken: String(error.message ?? error) });
  }
});
