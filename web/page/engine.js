// Asks the engine in its worker, one question at a time.

/** What keeps a question from being answered: `message` is a sentence for people. */
export class EngineError extends Error {}
/** A newer question of the same kind came first. */
export class Superseded extends Error {}

const PATIENCE = 100; // ms that a running question may still take when a newer one of its kind waits

export class Engine {
  #worker = null;
  #module = null;
  #waiting = [];
  #running = null;
  #next = 1;
  #isReady = false;
  #impatience = 0;
  #failure = null; // why there is no engine

  constructor() {
    this.#start();
  }

  /**
   * Returns the answer, {status, output, messages, written}. A question replaces those of the same `kind` that are not yet
   * answered; null: none. Rejects with EngineError or Superseded.
   */
  ask(words, { files = {}, reads = [], kind = null } = {}) {
    if (this.#failure) return Promise.reject(new EngineError(this.#failure));
    return new Promise((resolve, reject) => {
      if (kind !== null) {
        this.#waiting = this.#waiting.filter((each) => each.kind !== kind || each.reject(new Superseded()));
        if (this.#running?.kind === kind) this.#loseInterest(kind);
      }
      this.#waiting.push({ id: this.#next++, words, files, reads, kind, resolve, reject });
      this.#step();
    });
  }

  #start() {
    this.#isReady = false;
    const early = this.#worker === null ? zplanEarly : null; // of start.js
    this.#worker = early?.worker ?? new Worker("engine/worker.js", { name: "again" });
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(event.message || "engine/worker.js could not be loaded");
    };
    if (early) for (const data of early.said) this.#hear(data);
    else this.#worker.postMessage({ start: true, module: this.#module });
  }

  #restart() {
    clearTimeout(this.#impatience);
    this.#impatience = 0;
    this.#worker.terminate();
    this.#running = null;
    this.#start();
  }

  #loseInterest(kind) {
    if (this.#impatience) return;
    this.#impatience = setTimeout(() => {
      this.#impatience = 0;
      if (this.#running?.kind !== kind) return;
      this.#running.reject(new Superseded());
      this.#restart();
    }, PATIENCE);
  }

  #fail(message) {
    this.#failure = message;
    for (const each of [this.#running, ...this.#waiting]) each?.reject(new EngineError(message));
    this.#running = null;
    this.#waiting = [];
  }

  #step() {
    if (!this.#isReady || this.#running || this.#waiting.length === 0) return;
    this.#running = this.#waiting.shift();
    const { id, words, files, reads } = this.#running;
    this.#worker.postMessage({ id, words, files, reads });
  }

  #hear(data) {
    if (data.ready) {
      this.#module = data.module;
      this.#isReady = true;
    } else if (data.failed) {
      this.#fail(data.failed);
    } else if (data.id === this.#running?.id) {
      const { resolve, reject } = this.#running;
      clearTimeout(this.#impatience);
      this.#impatience = 0;
      this.#running = null;
      if (data.broken) {
        reject(new EngineError(`The engine ran out of memory or failed on this question: ${data.broken}`));
        this.#restart();
      } else {
        resolve(data);
      }
    }
    this.#step();
  }
}
