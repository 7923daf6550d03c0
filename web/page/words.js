// The page's texts in the reader's language. English is the key; translations are the window's, and the page's own
// (translations/zh_CN.json), joined by packaging/build-web.

const KEY = "zplan.language";
let language = "en";
let translations = {};

const remembered = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};

export const languageOf = () => language;

/** Loads the texts: of the language that was chosen, else of the browser's. */
export async function loadWords() {
  language = remembered() ?? (navigator.languages?.[0]?.toLowerCase().startsWith("zh") ? "zh-CN" : "en");
  if (language === "zh-CN") {
    try {
      translations = await (await fetch("zh-CN.json")).json();
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

/** Returns the text with {} or %1, %2 replaced by the values. */
export function t(text, ...values) {
  let next = 0;
  return (translations[text] ?? text).replace(/\{\}|%(\d)/g, (_, place) => String(values[place ? place - 1 : next++] ?? ""));
}

/** Puts texts into the elements of the page that are there from the start. */
export function translatePage() {
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", t(element.dataset.tLabel));
    element.title = t(element.dataset.tLabel);
  }
}
