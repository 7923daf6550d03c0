// Drawings of a plan: bars of what memory, time and traffic are made of, and memory over the step.

import { s, h } from "./dom.js";
import { gib, seconds } from "./format.js";
import { t } from "./words.js";

const GIB = 1024 ** 3;

export const MEMORY = [
  ["parameters", "parameters"],
  ["gradients", "gradients"],
  ["optimizer_states", "optimizer states"],
  ["activations", "activations"],
  ["loss", "loss"],
  ["communication_buffers", "communication buffers"],
  ["temporaries", "temporaries"],
  ["framework_overhead", "framework overhead"],
  ["slack", "allocator slack"],
];
export const TIME = [
  ["compute", "compute"],
  ["launching", "waiting for launches"],
  ["exposed_communication", "exposed communication"],
  ["offload", "offload"],
  ["optimizer", "optimizer"],
  ["generation", "generation"],
];
export const TRAFFIC = [
  ["forward", "forward"],
  ["backward", "backward"],
  ["step", "optimizer step"],
];

export const memoryOf = (plan) => ({ ...plan.memory, slack: Math.max(0, plan.memory.required - plan.memory.peak) });
export const trafficOf = (plan) => {
  const sent = {};
  for (const each of plan.communication.collectives) {
    const phase = each.phase === "loss" ? "forward" : each.phase;
    sent[phase] = (sent[phase] ?? 0) + each.wire_bytes_per_gpu;
  }
  return sent;
};

/** What can be drawn as bars: parts, their values of a plan, the whole, and how a value is written. */
export const SUBJECTS = {
  memory: { parts: MEMORY, of: memoryOf, whole: (plan) => plan.memory.required, text: (value) => `${gib(value)} GiB` },
  time: { parts: TIME, of: (plan) => plan.time, whole: (plan) => plan.time.step, text: seconds },
  traffic: { parts: TRAFFIC, of: trafficOf, whole: (plan) => plan.communication.wire_bytes_per_gpu, text: (value) => `${gib(value)} GiB` },
};

/** Returns the pieces of a bar that are there: {key, name, value, text}. */
export const piecesOf = (subject, plan) => {
  const values = subject.of(plan);
  return subject.parts
    .filter(([key]) => typeof values[key] === "number" && values[key] > 0)
    .map(([key, name]) => ({ key, name: t(name), value: values[key], text: subject.text(values[key]) }));
};

/** A bar of pieces side by side. `scale`: what the full width stands for; `limit`: a mark, and what is beyond it is hatched. */
export function bar(plan, subject, scale, limit = null) {
  const pieces = piecesOf(subject, plan);
  const label = `${plan.id}: ${subject.text(subject.whole(plan))}. ${pieces.map((each) => `${each.name} ${each.text}`).join(", ")}`;
  const shapes = [];
  let at = 0;
  for (const { key, name, value, text } of pieces) {
    const x = Math.min(at, scale) / scale, width = Math.max(0, Math.min(value, scale - at)) / scale;
    at += value;
    if (width > 0)
      shapes.push(s("rect", { x: `${x * 100}%`, width: `${width * 100}%`, y: "0", height: "100%", fill: `var(--${key})`, class: "piece" }, s("title", {}, `${name}: ${text}`)));
  }
  if (limit !== null && at > limit)
    shapes.push(s("rect", { x: `${(limit / scale) * 100}%`, width: `${((Math.min(at, scale) - limit) / scale) * 100}%`, y: "0", height: "100%", fill: "url(#hatch)" }));
  if (limit !== null && limit <= scale)
    shapes.push(s("line", { class: "limit", x1: `${(limit / scale) * 100}%`, x2: `${(limit / scale) * 100}%`, y1: "-4", y2: "100%" }));
  return s("svg", { class: "bar", role: "img", "aria-label": label }, shapes);
}

export const legend = (subject, plans) => {
  const there = new Set(plans.flatMap((plan) => piecesOf(subject, plan).map((each) => each.key)));
  return h("ul", { class: "legend" }, subject.parts.filter(([key]) => there.has(key)).map(([key, name]) =>
    h("li", {}, s("svg", { class: "key", "aria-hidden": "true" }, s("rect", { width: "100%", height: "100%", rx: "2", fill: `var(--${key})` })), t(name))));
};

// ---- memory over the step

const PHASES = { forward: "forward", loss: "loss", backward: "backward", step: "optimizer step", initialisation: "initialisation" };
const LEFT = 44, RIGHT = 8, TOP = 22, BOTTOM = 26, LEAST_HEIGHT = 250;

const placeOf = (moment) => (moment.layer === undefined ? t(moment.at) : `${t(moment.at)} ${moment.layer}`);

/** Returns runs of moments with one phase: {phase, from, until}. */
function phasesOf(timeline) {
  const runs = [];
  timeline.forEach(({ phase }, i) => {
    if (runs.at(-1)?.phase === phase) runs.at(-1).until = i + 1;
    else runs.push({ phase, from: i, until: i + 1 });
  });
  return runs;
}

function stepOf(top) {
  let step = 2 ** Math.floor(Math.log2(top / 5));
  for (const each of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]) if (top / each <= 6) return each;
  return step;
}

/** Memory that PyTorch's allocator has handed out, by moment of the step, in a drawing of `width` by `height` pixels, or higher. */
export function curve(plan, available, width, height) {
  const timeline = plan.memory.timeline;
  const bytes = (each) => each.bytes;
  const worst = timeline.reduce((a, b) => (bytes(b) > bytes(a) ? b : a));
  const showsLimit = available < 1.8 * worst.bytes;
  const top = 1.12 * Math.max(worst.bytes, showsLimit ? available : 0);
  const inner = width - LEFT - RIGHT, tall = Math.max(LEAST_HEIGHT, height - TOP - BOTTOM);
  const x = (i) => LEFT + (inner * i) / timeline.length;
  const y = (value) => TOP + tall * (1 - value / top);
  const bottom = TOP + tall;
  const shapes = phasesOf(timeline).flatMap(({ phase, from, until }, i) => [
    i % 2 === 0 && s("rect", { class: "band", x: x(from), y: TOP, width: x(until) - x(from), height: tall }),
    x(until) - x(from) > 60 && s("text", { class: "axis", x: (x(from) + x(until)) / 2, y: bottom + 18, "text-anchor": "middle" }, t(PHASES[phase] ?? phase)),
  ]);
  const grid = stepOf(top / GIB);
  for (let value = 0; value * GIB < top; value += grid)
    shapes.push(s("line", { class: "grid", x1: LEFT, x2: LEFT + inner, y1: y(value * GIB), y2: y(value * GIB) }),
                s("text", { class: "axis", x: LEFT - 8, y: y(value * GIB) + 4, "text-anchor": "end" }, String(value)));
  shapes.push(s("text", { class: "axis", x: LEFT - 8, y: 13, "text-anchor": "end" }, "GiB"));
  const path = timeline.map((each, i) => `V${y(each.bytes).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  shapes.push(s("path", { class: "area", d: `M${LEFT} ${bottom}${path}V${bottom}Z` }));
  if (showsLimit)
    shapes.push(s("line", { class: "limit dashed", x1: LEFT, x2: LEFT + inner, y1: y(available), y2: y(available) }),
                s("text", { class: "axis strong", x: LEFT + 6, y: y(available) - 6 }, `${t("available")}: ${gib(available)} GiB`));
  const peak = `${t("peak")} ${gib(worst.bytes)} GiB: ${placeOf(worst)}`;
  const at = x(timeline.indexOf(worst) + 0.5), labelWidth = 7 * peak.length;
  const meetsEdge = at + labelWidth / 2 > LEFT + inner;  // a wider font would cross it
  // Between the limit and the curve there may be no room for a line of text.
  const meetsLimit = showsLimit && Math.abs(y(worst.bytes) - 12 - y(available)) < 14;
  shapes.push(s("circle", { class: "peak", cx: at, cy: y(worst.bytes), r: 4 }),
              s("text", { class: "axis strong halo", "text-anchor": meetsEdge ? "end" : "start",
                          x: meetsEdge ? LEFT + inner : Math.max(LEFT + 4, at - labelWidth / 2), y: y(worst.bytes) + (meetsLimit ? 20 : -9) }, peak));
  const label = t("Memory over the step: at most {} GiB, in {}. The table below has the phases.", gib(worst.bytes), placeOf(worst));
  const cursor = s("g", { class: "cursor", visibility: "hidden" }, s("line", { y1: TOP, y2: bottom }), s("text", { class: "axis strong halo", y: TOP - 8 }));
  const drawing = s("svg", { class: "curve", width, height: bottom + BOTTOM, viewBox: `0 0 ${width} ${bottom + BOTTOM}`, role: "img", "aria-label": label }, shapes.flat().filter(Boolean), cursor);
  drawing.addEventListener("pointermove", (event) => {
    const place = Math.floor(((event.offsetX - LEFT) / inner) * timeline.length);
    const moment = timeline[place];
    cursor.setAttribute("visibility", moment ? "visible" : "hidden");
    if (!moment) return;
    const middle = x(place + 0.5);
    const [line, text] = cursor.children;
    line.setAttribute("x1", middle);
    line.setAttribute("x2", middle);
    text.setAttribute("x", middle > width / 2 ? middle - 6 : middle + 6);
    text.setAttribute("text-anchor", middle > width / 2 ? "end" : "start");
    text.textContent = `${placeOf(moment)}: ${gib(moment.bytes)} GiB`;
  });
  drawing.addEventListener("pointerleave", () => cursor.setAttribute("visibility", "hidden"));
  return drawing;
}

/** Returns the worst moment of each phase: [phase, moment, GiB]. */
export function worstMoments(plan) {
  return phasesOf(plan.memory.timeline).map(({ phase, from, until }) => {
    const worst = plan.memory.timeline.slice(from, until).reduce((a, b) => (b.bytes > a.bytes ? b : a));
    return [t(PHASES[phase] ?? phase), placeOf(worst), gib(worst.bytes)];
  });
}
