#!/usr/bin/env python3
"""Derives the tensors around the language model of transformers' multimodal models, as expressions over config fields.

    python models/vision/derive_towers.py models/vision/towers [MODEL_TYPE[/VISION_TYPE[+AUDIO_TYPE]] …]

Each model is instantiated on the meta device at its default sizes, then at sizes where one field differs, and
at random ones where many differ. A dimension becomes an expression over the fields that change it; layers
become a loop. What stays unexplained is printed and left out. Recorded with torch 2.11, transformers 5.23.0.
"""

import copy
import itertools
import json
import os
import random
import re
import sys
import warnings
from fractions import Fraction

import torch
import transformers
from transformers import AutoConfig
from transformers.models.auto import modeling_auto

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

TEXT_KEYS = ("text_config", "llm_config", "language_config")
TEXT_FIELDS = ("hidden_size", "vocab_size", "num_hidden_layers", "vocab_size_per_layer_input")
SKIPPED = re.compile(
    r"(^|\.)(_.*|.*token_id|.*token_index|.*_eps|.*dropout.*|initializer.*|dtype|torch_dtype|transformers_version|use_cache|"
    r"return_dict|output_(?!dim$)\w*|problem_type|id2label|label2id|.*rope.*|chunk_size_feed_forward|is_.*decoder|max_length|"
    r"tie_word_embeddings|architectures|model_type|pad_token.*|scale_embedding|.*_factor_init|attn_implementation)$"
)


class Structure(Exception):
    """The tensors of a model do not repeat in a way that a loop says."""


def flat(config, prefix=""):
    """Returns the fields that may matter: numbers, truth values, lengths of lists (#name)."""
    found = {}
    for key, value in config.items():
        name = prefix + key
        if SKIPPED.search(name):
            continue
        if isinstance(value, dict):
            if key in TEXT_KEYS:
                found.update({f"text_config.{k}": value[k] for k in TEXT_FIELDS if isinstance(value.get(k), int)})
            else:
                found.update(flat(value, name + "."))
        elif isinstance(value, (bool, int)):
            found[name] = value
        elif isinstance(value, float) and value:
            found[name] = value
        elif isinstance(value, list) and 1 < len(value) <= 3 and all(isinstance(x, int) for x in value) and len(set(value)) > 1:
            found.update({f"{name}.{place}": each for place, each in enumerate(value)})
        elif isinstance(value, list) and value:
            found["#" + name] = len(value)
            if all(isinstance(each, int) for each in value) and len(value) <= 4 and len(set(value)) == 1:
                found[name] = value[0]
    return found


def put(config, name, value):
    """Writes a field back."""
    parts = name.lstrip("#").split(".")
    for part in parts[:-1]:
        if isinstance(config, dict) and part not in config:
            part = next(k for k in TEXT_KEYS if k in config)
        config = config[part]
    last = parts[-1]
    if isinstance(config, list):
        config[int(last)] = value
        return
    old = config.get(last)
    if name.startswith("#"):
        config[last] = (old * value)[:value] if value else []
        if all(isinstance(x, int) for x in old) and len(set(old)) == len(old):
            config[last] = list(range(min(old), min(old) + value))
    elif isinstance(old, list):
        config[last] = [value] * len(old)
    else:
        config[last] = value


def text_prefixes(model, config):
    """Returns the paths of the language model and its head."""
    text = next((getattr(config, k) for k in TEXT_KEYS if hasattr(config, k)), None)
    kinds = (type(text),) if text is not None else ()
    paths = [name for name, module in model.named_modules() if name and isinstance(getattr(module, "config", None), kinds)]
    if not paths:
        raise Structure("no language model inside")
    shortest = min(paths, key=lambda name: (name.count("."), len(name)))
    return shortest


def tensors(architecture, config):
    """Returns [(name, shape, is linear)] of a config given as dict, and the language model's path."""
    made = AutoConfig.for_model(architecture, **{k: v for k, v in copy.deepcopy(config).items() if k != "model_type"})
    name = mapping(architecture)
    with torch.device("meta"):
        model = getattr(transformers, name)._from_config(made)
    text = text_prefixes(model, made)
    linear = {n + ".weight" for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    head = next((n for n, m in model.named_modules() if m is model.get_output_embeddings()), "lm_head")
    rows, seen = [], False
    for n, p in model.named_parameters():
        inside = n.startswith(text + ".") or n.startswith(head + ".") or (head.startswith(text) and n.startswith(head))
        if inside:
            if not seen:
                rows.append(("<text>", (), False))
            seen = True
            continue
        rows.append((n, tuple(p.shape), n in linear))
    return rows, text


def mapping(architecture):
    """Returns the class of a whole model."""
    for names in ("MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"):
        found = getattr(modeling_auto, names, {}).get(architecture)
        if found:
            return found if isinstance(found, str) else found[0]
    return {"qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration"}[architecture]


def folded(rows):
    """Returns entries: (name, shape, linear) or ("loop", prefix, count, entries)."""
    out, i = [], 0
    while i < len(rows):
        name = rows[i][0]
        at = re.search(r"\.(\d+)\.", name)
        if not at or at.group(1) != "0":
            out.append(rows[i])
            i += 1
            continue
        prefix = name[: at.start() + 1]
        groups, j = [], i
        while j < len(rows) and rows[j][0].startswith(prefix):
            number, rest = rows[j][0][len(prefix) :].split(".", 1)
            number = int(number)
            if number == len(groups):
                groups.append([])
            if number != len(groups) - 1:
                break
            groups[-1].append((rest, *rows[j][1:]))
            j += 1
        if len(groups) > 1 and all(group == groups[0] for group in groups):
            out.append(("loop", prefix, len(groups), folded_inside(groups[0])))
            i = j
        else:
            out.append(rows[i])
            i += 1
    return out


def folded_inside(rows):
    return [tuple(each) for each in rows]


def skeleton(entries):
    """Returns what must be equal for dimensions to be comparable."""
    made = []
    for each in entries:
        if each[0] == "loop":
            made.append(("loop", each[1], tuple((r[0], len(r[1]), r[2]) for r in each[3])))
        else:
            made.append((each[0], len(each[1]), each[2]))
    return made


def numbers(entries):
    """Returns all dimensions and counts of loops in order."""
    for each in entries:
        if each[0] == "loop":
            yield each[2]
            for row in each[3]:
                yield from row[1]
        else:
            yield from each[1]


def candidates(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [value / 2, value * 2]
    return [v for v in (2 * value, 3 * value, value + 1, value + 2, value // 2, value - 1, 4 * value, value * 3 // 2) if v > 0 and v != value]


# ---- expressions: ["f", name], number, ["*", …], ["//", a, b], ["+", …]


def evaluate(e, fields):
    if isinstance(e, (int, float)):
        return e
    op, *rest = e
    if op == "f":
        return fields[rest[0]]
    values = [evaluate(each, fields) for each in rest]
    if op == "*":
        total = 1
        for each in values:
            total *= each
        return int(total) if isinstance(total, float) else total
    if op == "+":
        return sum(values)
    return int(values[0] // values[1])


def simple(factors, over, times, plus):
    top = ([times] if times != 1 else []) + factors
    e = top[0] if len(top) == 1 else ["*", *top]
    if over:
        e = ["//", e, over[0] if len(over) == 1 else ["*", *over]]
    return e if plus == 0 else ["+", e, plus]


def monomials(names):
    """Yields factors and divisors over the fields, each used once or twice."""
    variants = {n: [(["f", n],), (["f", n], ["f", n]), (["+", ["f", n], 1],)] for n in names}
    if len(names) <= 2:
        for n in names:
            variants[n] += [(["//", ["f", n], by],) for by in (2, 4, 8)]
            variants[n] += [(["//", ["+", ["f", n], by - 1], by],) for by in (2, 4, 8)]
    for signs in itertools.product((1, -1), repeat=len(names)):
        if all(s < 0 for s in signs):
            continue
        for chosen in itertools.product(*(variants[n] for n in names)):
            top = [x for c, s in zip(chosen, signs) if s > 0 for x in c]
            bottom = [x for c, s in zip(chosen, signs) if s < 0 for x in c]
            yield top, bottom
    # grids: (f // g)², times the rest
    for f, g in itertools.permutations(names, 2):
        rest = [["f", n] for n in names if n not in (f, g)]
        side = ["//", ["f", f], ["f", g]]
        for signs in itertools.product((1, -1), repeat=len(rest)):
            top = [r for r, s in zip(rest, signs) if s > 0]
            yield top + [side, side], [r for r, s in zip(rest, signs) if s < 0]
            yield top + [side, side], [x for r, s in zip(rest, signs) if s < 0 for x in (r, r)]
            yield top + [side], [r for r, s in zip(rest, signs) if s < 0]
            yield top + [["+", ["*", side, side], 1]], [r for r, s in zip(rest, signs) if s < 0]
    # whole heads: f // g * g
    for f, g in itertools.permutations(names, 2):
        yield [["//", ["f", f], ["f", g]], ["f", g], *(["f", n] for n in names if n not in (f, g))], []


def explain(values, samples, names):
    """Returns an expression of the named fields that gives every value."""
    if len(set(values)) == 1:
        return values[0]
    for top, bottom in monomials(names):
        base = simple(list(top), list(bottom), 1, 0)
        try:
            xs = [evaluate(base, s) for s in samples]
        except (ZeroDivisionError, TypeError):
            continue
        pair = next(((i, j) for i, j in itertools.combinations(range(len(xs)), 2) if xs[i] != xs[j]), None)
        if pair is None:
            continue
        i, j = pair
        slope = Fraction(values[i] - values[j]) / Fraction(xs[i] - xs[j])
        for times in {slope, Fraction(slope).limit_denominator(16)}:
            plus = values[i] - times * xs[i]
            if plus.denominator != 1 or times.denominator > 16 or times <= 0 or abs(plus) > 8:
                continue
            over = list(bottom) + ([times.denominator] if times.denominator > 1 else [])
            e = simple(list(top), over, times.numerator, int(plus))
            if all(evaluate(e, s) == v for s, v in zip(samples, values)):
                return e
    linear = sums(values, samples, names)
    return linear


def sums(values, samples, names):
    """Returns a sum of the fields (or products of two) with small whole weights."""
    terms = [["f", n] for n in names] + [["*", ["f", a], ["f", b]] for a, b in itertools.combinations_with_replacement(names, 2)]
    terms += [["*", ["f", a], ["//", ["f", b], ["f", c]]] for a, b, c in itertools.permutations(names, 3)]
    # heads of a whole size each: the width rounded down to them
    terms += [["*", ["f", b], ["//", ["f", a], ["f", b]]] for a, b in itertools.permutations(names, 2)]
    for count in (2, 3):
        for chosen in itertools.combinations(terms, count):
            columns = [[evaluate(t, s) for s in samples] for t in chosen]
            for weights in itertools.product((1, 2, 3, 4, -1), repeat=count):
                rest = [v - sum(w * c[k] for w, c in zip(weights, columns)) for k, v in enumerate(values)]
                if len(set(rest)) == 1 and abs(rest[0]) <= 8:
                    parts = [t if w == 1 else ["*", w, t] for w, t in zip(weights, chosen)]
                    return ["+", *parts] + ([rest[0]] if rest[0] else [])
    return None


def union(first, second):
    """Merges two lists of names in order; returns rows with the side they stand on alone."""
    import difflib

    out = []
    for tag, a, b, c, d in difflib.SequenceMatcher(a=first, b=second, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [(n, "both") for n in first[a:b]]
        else:
            out += [(n, "first") for n in first[a:b]] + [(n, "second") for n in second[c:d]]
    return out


class Derived:
    def __init__(self, architecture, given):
        self.architecture = architecture
        self.base = json.loads(AutoConfig.for_model(architecture, **copy.deepcopy(given)).to_json_string(use_diff=False))
        self.reduce_text()
        self.fields = flat(self.base)
        rows, self.text = tensors(architecture, self.base)
        self.entries = folded(rows)
        self.skeleton = skeleton(self.entries)

    def reduce_text(self):
        """Two layers of the language model do."""
        for key in TEXT_KEYS:
            if key in self.base:
                small = copy.deepcopy(self.base)
                small[key]["num_hidden_layers"] = 2
                if isinstance(small[key].get("layer_types"), list):
                    small[key]["layer_types"] = small[key]["layer_types"][:2]
                try:
                    tensors(self.architecture, small)
                    self.base = small
                except Exception:  # noqa: BLE001  sizes that do not go together
                    pass

    def at(self, changes):
        config = copy.deepcopy(self.base)
        for name, value in changes.items():
            put(config, name, value)
        rows, _ = tensors(self.architecture, config)
        return folded(rows), {**self.fields, **changes}

    def probe(self):
        """Finds the fields that change dimensions, and those that change which tensors there are."""
        start = list(numbers(self.entries))
        self.changing, self.switches, self.fixed = {}, {}, {}
        self.depends = [set() for _ in start]
        samples = [(self.fields, start)]
        for name, value in self.fields.items():
            good = []
            for given in candidates(value):
                try:
                    entries, fields = self.at({name: given})
                except Exception:  # noqa: BLE001
                    continue
                if skeleton(entries) != self.skeleton:
                    if isinstance(value, bool):
                        self.switches[name] = entries
                    else:
                        self.fixed[name] = value
                    continue
                found = list(numbers(entries))
                changed = [i for i, (a, b) in enumerate(zip(start, found)) if a != b]
                for i in changed:
                    self.depends[i].add(name)
                if changed:
                    samples.append((fields, found))
                    good.append(given)
                if len(good) == 3 or (not changed and given in candidates(value)[1:2]):
                    break
            if good:
                self.changing[name] = good
        for name in self.changing:
            self.fixed.pop(name, None)
        rng = random.Random(1)
        tries = 0
        while tries < 40 and len(samples) < 60:
            tries += 1
            changes = {n: rng.choice(v) for n, v in self.changing.items() if rng.random() < 0.5}
            try:
                entries, fields = self.at(changes)
            except Exception:  # noqa: BLE001
                continue
            if skeleton(entries) == self.skeleton:
                samples.append((fields, list(numbers(entries))))
        self.samples = samples

    def expressions(self):
        known, made, missing = {}, [], 0
        for i, names in enumerate(self.depends):
            values = tuple(s[1][i] for s in self.samples)
            if values not in known:
                known[values] = explain(values, [s[0] for s in self.samples], sorted(names)) if len(names) <= 5 else None
                if known[values] is None:
                    print(f"  {self.architecture}: dimension {i} of {sorted(names)} is not explained: {values[:6]}")
            made.append(known[values])
            missing += known[values] is None
        return made, missing

    def document(self):
        self.probe()
        made, missing = self.expressions()
        if missing:
            return None
        stream = iter(made)

        def row(name, shape, linear):
            e = [name, [next(stream) for _ in shape]]
            return e + ["linear"] if linear else e

        out = []
        for each in self.entries:
            if each[0] == "loop":
                count = next(stream)
                out.append({"loop": each[1], "count": count, "tensors": [row(*r) for r in each[3]]})
            else:
                out.append(row(*each))
        out = self.with_switches(out)
        used = set()
        collect(out, used)
        return {
            "text": self.text,
            "defaults": {n: self.fields[n] for n in sorted(used)},
            "fixed": {n: v for n, v in sorted(self.fixed.items()) if not n.startswith("text_config.")},
            "tensors": out,
        }

    def with_switches(self, out):
        """Adds tensors that one truth value brings or takes away."""
        for name, entries in self.switches.items():
            value = self.fields[name]
            mine = [key_of(e) for e in self.entries]
            theirs = [key_of(e) for e in entries]
            if mine == theirs:  # inside loops
                for index, (a, b) in enumerate(zip(self.entries, entries)):
                    if a[0] == "loop" and skeleton([a]) != skeleton([b]):
                        inner = self.switched(out[index]["tensors"], [r[0] for r in a[3]], list(b[3]), name, value)
                        out[index]["tensors"] = inner
                continue
            out = self.switched(out, mine, entries, name, value)
        return out

    def switched(self, rows, mine, theirs, name, value):
        places = {key_of(r): k for k, r in enumerate(theirs)}
        merged = []
        by_key = {k: r for k, r in zip(mine, rows)}
        for key, side in union(mine, [key_of(r) for r in theirs]):
            if side == "both":
                merged.append(by_key[key])
            elif side == "first":
                merged.append({"when": name, "is": value, "tensors": [by_key[key]]})
            else:
                other = theirs[places[key]]
                if other[0] == "loop" or any(self.of_shape(x) is None for x in other[1]):
                    self.fixed[name] = value
                    continue
                made = [other[0], [self.of_shape(x) for x in other[1]]] + (["linear"] if other[2] else [])
                merged.append({"when": name, "is": not value, "tensors": [made]})
        return merged

    def of_shape(self, size):
        """A new tensor's dimension at default sizes: the expression of another of the same size."""
        flat_exprs, _ = self.expressions_cache()
        for value, e in flat_exprs:
            if value == size:
                return e
        return None

    def expressions_cache(self):
        if not hasattr(self, "_cache"):
            made, missing = self.expressions()
            pairs = sorted(zip(self.samples[0][1], made), key=lambda p: len(json.dumps(p[1])))
            self._cache = [(v, e) for v, e in pairs if e is not None], missing
        return self._cache


def key_of(entry):
    return entry[1] if entry[0] == "loop" else entry[0]


def collect(tree, used):
    if isinstance(tree, dict):
        if "when" in tree:
            used.add(tree["when"])
        for value in tree.values():
            collect(value, used)
    elif isinstance(tree, list):
        if len(tree) == 2 and tree[0] == "f":
            used.add(tree[1])
        for value in tree:
            collect(value, used)


TEXT_DEFAULTS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
)


# Language models that have another architecture's tensors and operators.
TEXT_TYPES = {
    "glm4v": "glm4",
    "glm4v_moe": "glm4_moe",
    "exaone4_5": "exaone4",
    "kimi_k25": "deepseek_v3",
    "qwen3_omni_moe_thinker": "qwen3_moe",
}


def aliases_of(config, used, prefix=""):
    """Returns other names of used fields: {"audio_config.hidden_size": "audio_config.d_model"}."""
    found = {}
    for other, own in getattr(type(config), "attribute_map", {}).items():
        if prefix + own in used:
            found[prefix + other] = prefix + own
    for key in getattr(config, "sub_configs", {}):
        inner = getattr(config, key, None)
        if key not in TEXT_KEYS and hasattr(inner, "to_dict"):
            found.update(aliases_of(inner, used, f"{prefix}{key}."))
    return found


def complete(document, architecture, given):
    """Adds what does not follow from tensors: other names of fields, the tower's kind, the text's defaults.

    The kind is null where the model's class makes a tower of its own, whatever model_type a file states.
    """
    config = AutoConfig.for_model(architecture, **copy.deepcopy(given))
    whole = config.to_dict()
    text = next((whole[k] for k in TEXT_KEYS if whole.get(k)), {})
    tower = whole.get("vision_config") or {}
    return {
        "architecture": architecture,
        "tower": tower.get("model_type") if type(config).sub_configs.get("vision_config") is AutoConfig else None,
        **({"audio": (whole["audio_config"] or {}).get("model_type")} if "audio_config" in whole else {}),
        "tied": whole.get("tie_word_embeddings"),
        "head_is_the_texts": False,
        "text_defaults": {k: text[k] for k in TEXT_DEFAULTS if text.get(k) is not None},
        "aliases": aliases_of(config, set(document["defaults"])),
        **({"text_type": TEXT_TYPES[architecture]} if architecture in TEXT_TYPES else {}),
        **document,
    }


def main():
    out, chosen = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    for each in chosen:
        architecture, _, towers = each.partition("/")
        given = {key + "_config": {"model_type": name} for key, name in zip(("vision", "audio"), towers.split("+")) if name}
        try:
            document = Derived(architecture, given).document()
            document = document and complete(document, architecture, given)
        except Exception as error:  # noqa: BLE001
            print(f"{each}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if document is None:
            print(f"{each}: left out")
            continue
        with open(os.path.join(out, each.replace("/", "@") + ".json"), "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
            file.write("\n")
        print(f"{each}: {len(document['tensors'])} entries, fixed {document['fixed']}", flush=True)


if __name__ == "__main__":
    main()
