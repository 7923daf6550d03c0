#!/usr/bin/env python3
"""Writes steps/ARCHITECTURE.json, or steps/ARCHITECTURE@VARIANT.json: an architecture's recorded micro-steps with sizes as expressions over its config.

    python steps.py ARCHITECTURE[@VARIANT] RECORDING.zplan-model.json …

They are recordings (zplan trace) of one sequence of layers at widths without coincidences: no two sizes of one of
them are equal by chance. Each number of a size's polynomial is then matched with a product of sizes that
files/ARCHITECTURE.json names, the same one for all."""

import argparse
import itertools
import json
import math
import re
import sys
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from configs import Filled  # noqa: E402
from symbols import evaluate, size_of  # noqa: E402

HERE = Path(__file__).parent


def expressions_in(items, found, names):
    """Expressions of the sizes of the tensors that were recorded."""
    for each in items:
        if "name" in each and each["name"] not in names:
            continue
        for part in [*each.get("shape", []), each.get("count")]:
            collect(part, found)
        expressions_in(each.get("items", []), found, names)


def collect(expression, found):
    """Every part of an expression that no layer's number changes."""
    if isinstance(expression, str):
        found.setdefault(repr(expression), expression)
    if isinstance(expression, list) and expression[0] not in ("is", "null", "on", "in", "word", "at", "<", "=="):
        if "#" not in repr(expression):
            found.setdefault(repr(expression), expression)
        for each in expression[1:]:
            collect(each, found)


class Fit:
    def __init__(self, rules, recordings):
        self.fields = [Filled(each["config"], rules) for each in recordings]
        terms, inventory = {}, recordings[0]["inventory"]
        parts = [inventory["before"], inventory["after"], *(kind["tensors"] for kind in inventory["kinds"])]
        expressions_in(rules["items"], terms, {each[0] for part in parts for each in part if isinstance(each, list)})
        for path, rule in rules["fields"].items():
            if isinstance(rule.get("default"), int) or "else" in rule:
                terms.setdefault(repr(path), path)
        for path in [path for path in rules["fields"] if path.endswith("head_dim")]:  # flash attention's rows
            terms["rows of " + path] = ["*", 32, ["//", ["+", path, 31], 32]]
        found = {}
        for each in terms.values():
            values = tuple(evaluate(each, fields) for fields in self.fields)
            if all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values) and len(set(values)) > 1:
                if values not in found or size_of(each) < size_of(found[values]):
                    found[values] = each
        self.terms = sorted(found.items(), key=lambda item: size_of(item[1]))
        self.tables, self.known, self.guessed = {}, {}, 0

    def products(self, members):
        """Products of up to three sizes by how they differ between recordings."""
        if members not in self.tables:
            table = self.tables[members] = {}
            for n in (1, 2, 3):
                for chosen in itertools.combinations_with_replacement(self.terms, n):
                    values = [math.prod(v[k] for v, _ in chosen) for k in members]
                    table.setdefault(tuple(Fraction(v, values[0]) for v in values), (values[0], [e for _, e in chosen]))
        return self.tables[members]

    def number(self, values, members):
        """An expression for a number that the recordings `members` have; a constant where they agree."""
        key = tuple(Fraction(v) for v in values), members
        if key not in self.known:
            self.known[key] = self.find(*key)
        return self.known[key]

    def find(self, values, members):
        if len(set(values)) == 1:
            return rational(values[0])
        if values[0]:
            found = self.products(members).get(tuple(v / values[0] for v in values))
            if found:
                return scaled(values[0] / found[0], found[1])
        terms = [(tuple(v[k] for k in members), e) for v, e in self.terms] + [((1,) * len(members), 1)]
        for (a, x), (b, y) in itertools.combinations(terms, 2) if len(members) > 2 else ():
            # values = p·a + q·b
            determinant = a[0] * b[1] - a[1] * b[0]
            if not determinant:
                continue
            p = (values[0] * b[1] - values[1] * b[0]) / determinant
            q = (a[0] * values[1] - a[1] * values[0]) / determinant
            if p * a[2] + q * b[2] == values[2] and max(p.denominator, q.denominator) <= 1024 and max(abs(p), abs(q)) <= 1 << 20:
                return ["+", scaled(p, [x]), scaled(q, [y])]
        return None

    def whole(self, polynomials, members):
        """A polynomial of which numbers have no expression: the first recording's, times the product by which its
        values grow."""
        key = tuple(map(tuple, polynomials)), members
        if key not in self.known:
            self.guessed += 1
            values = [value_at(each, 2, 2048) for each in polynomials]
            plain = ((ratio, found) for ratio, found in self.products(members).items() if len(found[1]) < 3)
            shares = [float(v / values[0]) if values[0] else 1.0 for v in values]
            _, (first, chosen) = min(plain, key=lambda each: max(abs(math.log(float(r) / max(v, 1e-9))) for r, v in zip(each[0], shares)))
            self.known[key] = [scaled(each / first, chosen) if each else 0 for each in polynomials[0]]
        return self.known[key]


def value_at(polynomial, b, s):
    monomials = (1, s, s * s, b, b * s, b * s * s)
    return sum(each * m for each, m in zip(polynomial, monomials))


def rational(value):
    return int(value) if value.denominator == 1 else ["/", value.numerator, value.denominator]


def scaled(factor, expressions):
    made = expressions[0]
    for each in expressions[1:]:
        made = ["*", made, each]
    if factor.numerator != 1:
        made = ["*", made, factor.numerator] if made != 1 else factor.numerator
    return made if factor.denominator == 1 else ["/", made, factor.denominator]


def polynomial(size):
    over, of = (size["over"], size["of"]) if isinstance(size, dict) else (1, size)
    return [Fraction(each, over) for each in of]


def fitted(fit, sizes, members):
    """Sizes of one place in all recordings as one."""
    made = [polynomial(each) for each in sizes]
    longest = max(map(len, made))
    for each in made:
        each += [Fraction(0)] * (longest - len(each))
    numbers = [fit.number([each[i] for each in made], members) for i in range(longest)]
    return fit.whole(made, members) if None in numbers else numbers


def members_of(recordings, number):
    """The recordings of a tape that have most events: where stretches were aggregated there are fewer."""
    counts = {}
    for k, each in enumerate(recordings):
        tape = each["tapes"][number]
        counts.setdefault(tuple(len(section(each, tape, *at)) for at in parts_of(tape)), []).append(k)
    return tuple(max((each for each in counts.items() if len(each[1]) > 1), key=lambda each: sum(each[0]), default=((), [0]))[1])


def names_of(recordings, number, members):
    """Sizes by number in all recordings, numbered in the order of the events that make blocks of them."""
    others, names = [recordings[k]["tapes"][number] for k in members], {}
    for part, key in parts_of(others[0]):
        for events in zip(*(section(recordings[k], other, part, key) for k, other in zip(members, others))):
            if isinstance(events[0], int) and events[0] >= 0:
                names.setdefault(events, len(names))
            elif any(each != events[0] for each in events[1:]):
                raise SystemExit(f"tape {number} {describe(others[0])}: {events}")
    return names


def describe(tape):
    return {k: tape[k] for k in ("checkpointing", "partitioned", "batch")}


def parts_of(tape):
    for key in ("forward", "head", "backward"):
        yield "around", key
    for i in range(len(tape["layers"])):
        for key in ("forward", "backward"):
            yield i, key


def section(recording, tape, part, key):
    about = tape["around"] if part == "around" else tape["kinds"][tape["layers"][part]]
    return [each for each in recording["sections"][about[key]] if not (isinstance(each, list) and each[0] == "compute")]


FREE = re.compile(r"^_|_id$|_idx$|_types?$|layers|layer_|vocab|position|multiplier|scal|rope|theta|eps$|epsilon|time_step|dropout|init|range|^use_cache|"
                  r"^model_type|architectures|dtype|version|label|return_dict|output_|chunk_size_feed|is_encoder|problem|cache|num_logits|router|mtp_|nextn|rescale|expert|moe_|topk|n_group$|kernels")  # fmt: skip


def fixed(recordings):
    """What all recordings have alike and other sizes must, too: chunks, kernels, switches, activations."""
    configs = [each["config"] for each in recordings]
    return {
        key: value
        for key, value in configs[0].items()
        if isinstance(value, (bool, int, str)) and not FREE.search(key) and all(each.get(key) == value for each in configs)
    }


def loads(recording, tape, part, key):
    """What a section computes: (events before it, load)."""
    about = tape["around"] if part == "around" else tape["kinds"][tape["layers"][part]]
    found, before = [], 0
    for each in recording["sections"][about[key]]:
        if isinstance(each, list) and each[0] == "compute":
            found.append((before, tape["loads"][each[1]]))
        else:
            before += 1
    return found


def joined(many, name):
    """One load of those that the recordings have at one place; `name` numbers sizes."""
    first = many[0]
    made = {k: first[k] for k in ("kernels", "backward") if k in first}
    products = [each.get("products", []) for each in many]
    if products[0] and all(len(each) == len(products[0]) for each in products):
        made["products"] = [[name(tuple(sizes)) for sizes in zip(*rows)] for rows in zip(*products)]
    for key in ("attention", "moved"):
        if all(key in each for each in many):
            made[key] = name(tuple(each[key] for each in many))
    return made


def document(architecture, recordings):
    rules = json.loads((HERE / "files" / f"{architecture}.json").read_text())
    fit = Fit(rules, recordings)
    first = recordings[0]
    sections, known, tapes = [], {}, []

    def put(events):
        key = repr(events)
        if key not in known:
            known[key] = len(sections)
            sections.append(events)
        return known[key]

    for number, tape in enumerate(first["tapes"]):
        members = members_of(recordings, number)
        chosen = [recordings[k] for k in members]
        others = [each["tapes"][number] for each in chosen]
        tape, names = others[0], names_of(recordings, number, members)
        computed = []

        def name(sizes):
            return names.setdefault(sizes, len(names))

        def events(part, key):
            lists = [section(each, other, part, key) for each, other in zip(chosen, others)]
            made = [names[each] if isinstance(each[0], int) and each[0] >= 0 else each[0] for each in zip(*lists)]
            costs = [loads(each, other, part, key) for each, other in zip(chosen, others)]
            if len({len(each) for each in costs}) == 1:
                for places in reversed(list(zip(*costs))):
                    made.insert(places[0][0], ["compute", len(computed)])
                    computed.append(joined([load for _, load in places], name))
            return made

        kinds, of_layer, seen = [], [], {}
        for i in range(len(tape["layers"])):
            about = tape["kinds"][tape["layers"][i]]
            made = {**about, "forward": put(events(i, "forward")), "backward": put(events(i, "backward"))}
            of_layer.append(seen.setdefault(repr(made), len(kinds)))
            if of_layer[-1] == len(kinds):
                kinds.append(made)
        around = {**tape["around"], **{key: put(events("around", key)) for key in ("forward", "head", "backward")}}
        table = [fitted(fit, [other["sizes"][k] for other, k in zip(others, sizes)], members) for sizes in names]
        kept = {k: v for k, v in tape.items() if k not in ("loads", "sizes", "around", "kinds", "layers", "misfit", "aggregated")}
        tapes.append({**kept, "misfit": max(o["misfit"] for o in others), "aggregated": tape["aggregated"], "sizes": table, "around": around, "kinds": kinds, "layers": of_layer, "loads": computed})
    return {
        "format": "zplan.steps/1",
        "architecture": architecture,
        "recorded_with": first["recorded_with"],
        "where": fixed(recordings),
        "modules": first["inventory"]["modules"],
        "kinds": [{"tensors": [t[0] for t in each["tensors"]], "modules": each["modules"]} for each in first["inventory"]["kinds"]],
        "layers": first["inventory"]["layers"],
        "sections": sections,
        "tapes": tapes,
        "notes": first["notes"],
    }, fit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture")
    parser.add_argument("recordings", nargs="+", type=Path)
    given = parser.parse_args()
    made, fit = document(given.architecture.partition("@")[0], [json.loads(each.read_text()) for each in given.recordings])
    (HERE / "steps").mkdir(exist_ok=True)
    path = HERE / "steps" / f"{given.architecture}.json"
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
    print(f"{path.name}: {len(made['tapes'])} tapes, {fit.guessed} sizes by the nearest product")


if __name__ == "__main__":
    main()
