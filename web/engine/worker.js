// The engine in a worker: answers {id, words, files, reads} with {id, status, output, messages, written}.
"use strict";
importScripts("zplan-engine.js", "ask.js");

const isGzip = (bytes) => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Returns the module's bytes. Servers differ in whether they say that the file is compressed, in which case the browser unpacks it. */
async function moduleBytes() {
  const response = await fetch("zplan-engine.wasm.gz");
  if (!response.ok) throw new Error(`zplan-engine.wasm.gz: status ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (!isGzip(bytes)) return bytes;
  if (typeof DecompressionStream === "undefined")
    throw new Error("This browser cannot unpack the engine. Chrome 95, Firefox 113, Safari 16.4 or newer can.");
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

let ask;

async function start(compiled) {
  const module = compiled ?? (await WebAssembly.compile(await moduleBytes()));
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
