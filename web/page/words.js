// The page's texts in the reader's language. English is the key; translations are the window's, and the page's own
// (zh_CN.json, zh_CN.sentences.json), joined by packaging/build-web.

const KEY = "zplan.language";
let language = "en";
let texts = {};
let sentences = []; // of the engine: [{pattern, text}]

const remembered = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};

export const languageOf = () => language;

const FIGURE = "([\\d.,]+(?: ?(?:[kKMGT]i?B(?:/s)?|TFLOP/s|B|s|ms|µs|min|h|days|%))?)";
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Returns what matches a sentence of the engine: {} stands for any words, {#} for a figure with its unit. */
const patternOf = (sentence) => new RegExp(`^${sentence.split(/(\{#?\})/).map((each) => (each === "{#}" ? FIGURE : each === "{}" ? "(.+?)" : escaped(each))).join("")}$`);

/** Loads the texts: of the language that was chosen, else of the browser's. */
export async function loadWords() {
  language = remembered() ?? (navigator.languages?.[0]?.toLowerCase().startsWith("zh") ? "zh-CN" : "en");
  if (language === "zh-CN") {
    try {
      const loaded = await (await fetch("zh-CN.json")).json();
      texts = loaded.texts;
      sentences = Object.entries(loaded.sentences).map(([sentence, text]) => ({ pattern: patternOf(sentence), text }));
    } catch {
      language = "en";
    }
  }
  document.documentElement.lang = language;
}

export function setLanguage(chosen) {
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage it holds until the page is left.
  }
}

/** Keeps a line from breaking between a figure and its unit, or at a times sign. */
const unbroken = (text) => text.replace(/(?<=\d) (?=(?:[kMGT]i?B|[BMT%]|s|ms|µs|min|h|tokens)(?!\w))|(?<=\d) (?=×)|(?<=×) (?=[\d{])/g, "\u00a0");

/** Returns the text with {} or %1, %2 replaced by the values. */
export function t(text, ...values) {
  if (values.length === 0) return texts[text] ?? text;
  let next = 0;
  return unbroken((texts[text] ?? text).replace(/\{\}|%(\d+)/g, (_, place) => String(values[place ? place - 1 : next++] ?? "")));
}

/** Returns a sentence of the engine in the reader's language; null where it has no translation. */
export function translated(sentence) {
  if (language === "en") return sentence;
  for (const { pattern, text } of sentences) {
    const match = pattern.exec(sentence);
    if (match) return text.replace(/%(\d+)/g, (_, place) => texts[match[place]] ?? match[place]);
  }
  return null;
}

/** Puts texts into the elements of the page that are there from the start. */
export function translatePage() {
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", t(element.dataset.tLabel));
    element.title = t(element.dataset.tLabel);
  }
}
