"""Finds the rules by which the tensors of many models of one architecture follow from their configs."""

import itertools
import re

from symbols import evaluate, size_of

DEEPEST = 6


class Row:
    """One place (of a list, in a list) of one case, and what is to be told about it."""

    __slots__ = ("case", "fields", "indexes", "target")

    def __init__(self, case, fields, indexes, target):
        self.case, self.fields, self.indexes, self.target = case, fields, indexes, target


SIZES = re.compile(r"dim|size|rank|head|experts|kernel|group|state|conv|expand|topk|top_k|max_pos|width|channel|ratio")


UNLIKELY = re.compile(r"window|chunk|position|layers|top_?k|per_tok|interval|period")


class NoRule(Exception):
    pass


def fields_in(expression, found=None):
    found = set() if found is None else found
    if isinstance(expression, str) and not expression.startswith("#"):
        found.add(expression)
    elif isinstance(expression, list):
        for each in {"is": expression[1:2], "word": [], "get": expression[1:2]}.get(expression[0], expression[1:]):
            fields_in(each, found)
    return found


def shorter(expression):
    """The same rule in fewer words."""
    if not isinstance(expression, list) or expression[0] == "word":
        return expression
    sign, *operands = expression
    if sign != "if":
        return expression
    feature, yes, no = operands[0], shorter(operands[1]), shorter(operands[2])
    if yes is True and no is False:
        return feature
    return ["not", feature] if yes is False and no is True else ["if", feature, yes, no]


class Learner:
    def __init__(self, architecture):
        self.about, self.cases = architecture, architecture.cases
        self.cache, self.likely, self.weights = {}, [], {}
        self.find_features()

    # ---- what rules may ask

    def find_features(self):
        values = {}
        for case in self.cases:
            for path, value in case.fields.items():
                values.setdefault(path, []).append(value)
        self.whole, self.listed = [], []
        nulls, switches, words_are, bounds = [], [], [], []
        for path, seen in sorted(values.items()):
            lists = [v for v in seen if isinstance(v, list)]
            if lists:
                members = {repr(x): x for each in lists for x in each if isinstance(x, (int, str))}
                if all(isinstance(x, str) for x in members.values()) or set(map(repr, (0, 1, True, False))) >= set(members):
                    self.listed += [["is", ["at", path, "#0"], x] for _, x in sorted(members.items())]
                    if re.search("block_types|pattern", path):
                        self.listed += [["is", ["at", path, ["%", "#0", ["len", path]]], x] for _, x in sorted(members.items())]
                else:
                    self.listed.append(["in", path, "#0"])
                    self.listed.append(["<", 0, ["at", path, "#0"]])
            if any(v is None for v in seen) and any(v is not None for v in seen):
                nulls.append(["null", path])
            if any(isinstance(v, bool) for v in seen):
                switches.append(["on", path])
            words = {v for v in seen if isinstance(v, str)}
            if len(words) > 1:
                words_are += [["is", path, word] for word in sorted(words)]
            whole = [v for v in seen if isinstance(v, int) and not isinstance(v, bool)]
            if whole:
                self.whole.append(path)
                if min(whole) < 1:
                    bounds.append(["<", 0, path])
                if min(whole) < 2:
                    bounds.append(["<", 1, path])
        small = [p for p in self.whole if not SIZES.search(p) and (min(v for v in values[p] if isinstance(v, int)) < 32 or p.endswith("layers"))]
        self.indexed = []
        for path in small:
            self.indexed += [["<", "#0", path], ["==", ["%", ["+", "#0", 1], path], 0], ["==", ["%", "#0", path], 0]]
            if path.endswith("index"):
                self.indexed.append(["<", path, "#0"])
        layers = [p for p in small if p.rsplit(".", 1)[-1] in ("num_hidden_layers", "n_layer", "n_layers", "num_layers")]
        for path, many in itertools.product(small, layers):
            if path != many:
                self.indexed.append(["<", "#0", ["-", many, path]])
                bounds.append(["<", path, many])
        for period in (p for p in small if "period" in p or "interval" in p or "freq" in p or "step" in p or "every" in p):
            for offset in (p for p in small if p != period and ("offset" in p or "start" in p or "replace" in p)):
                self.indexed.append(["==", ["%", "#0", period], offset])
                self.indexed.append(["==", ["%", ["-", "#0", offset], period], 0])
        switches.sort(key=lambda feature: feature[1].endswith("tie_word_embeddings"))
        self.scalar = nulls + switches + words_are + bounds
        self.constants = [["==", ["%", ["+", "#0", 1], n], 0] for n in range(2, 13)] + [["==", ["%", "#0", n], 0] for n in range(2, 13)]
        self.constants += [["<", "#0", n] for n in range(1, 9)]
        for path in self.whole:
            if min(v for v in values[path] if isinstance(v, int)) < 32 and re.search("group|size|pattern|every|replace|dense", path):
                self.constants += [["==", ["%", ["+", "#0", 1], path], 0], ["==", ["%", "#0", path], 0], ["<", "#0", path]]
        self.constants += [["==", "#0", ["-", many, 1]] for many in layers] + [["<", "#0", ["//", many, 2]] for many in layers]
        self.indexed += [["==", "#0", n] for n in (0, 1, 2)]
        self.pairs = []
        for a, b in itertools.combinations(self.whole, 2):
            if ("size" in a or "dim" in a or "heads" in a) and ("size" in b or "dim" in b or "heads" in b):
                self.pairs.append(["==", a, b])

    def truths(self, feature, rows):
        key = repr(feature)
        found = []
        for row in rows:
            at = (key, row.case, row.indexes)
            if at not in self.cache:
                self.cache[at] = bool(evaluate(feature, row.fields, row.indexes))
            found.append(self.cache[at])
        return found

    def features(self, depth):
        """In the order of preference; `depth`: how many lists the place is in."""
        listed, indexed = self.listed, self.indexed
        if depth == 0:
            return self.scalar + self.pairs
        found = list(listed) + list(self.scalar)
        found += indexed
        if depth == 2:
            deeper = lambda e: [deeper(x) for x in e] if isinstance(e, list) else "#1" if e == "#0" else e
            found += [deeper(each) for each in listed + indexed]
        return found + self.pairs

    # ---- trees

    def tree(self, rows, leaf, depth):
        """A rule that holds for all rows: what `leaf` returns of some of them, joined by ["if", feature, …]."""
        found = self.search(rows, leaf, self.features(depth), DEEPEST)
        if found is None:
            raise NoRule
        return shorter(found[0])

    def search(self, rows, leaf, features, deepest):
        made = leaf(rows)
        if made is not None:
            return made
        if deepest == 0:
            return None
        best = None
        seen = set()
        for feature in features:
            truth = self.truths(feature, rows)
            key = tuple(truth)
            if all(truth) or not any(truth) or key in seen:
                continue
            seen.add(key)
            yes = [row for row, holds in zip(rows, truth) if holds]
            no = [row for row, holds in zip(rows, truth) if not holds]
            left, right = leaf(yes), leaf(no)
            if left is not None and right is not None:
                return (["if", feature, left[0], right[0]],)
            solved = (len(yes) if left is not None else 0) + (len(no) if right is not None else 0)
            if solved and (best is None or solved > best[0]):
                best = (solved, feature, yes, no, left, right)
        if best is None:
            return None
        _, feature, yes, no, left, right = best
        if left is None:
            left = self.search(yes, leaf, features, deepest - 1)
        if right is None:
            right = self.search(no, leaf, features, deepest - 1)
        return None if left is None or right is None else (["if", feature, left[0], right[0]],)

    @staticmethod
    def same(rows):
        first = rows[0].target
        if not all(r.target == first and type(r.target) is type(first) for r in rows):
            return None
        return (["word", first] if isinstance(first, str) else first,)

    def expression(self, rows):
        """Rows' targets are whole numbers: the smallest expression that gives all of them."""
        if not all(isinstance(row.target, int) for row in rows):
            return None
        first = min(rows, key=lambda row: len(row.case.known.get(row.target, {})))
        targets = {row.target for row in rows}
        value = first.target
        if len(targets) == 1 and value in (0, 1, 2, 3):
            return (value,)
        unique = {(row.case, row.target, row.indexes): row for row in rows}.values()
        for found in self.candidates(first, value):
            if all(evaluate(found, row.fields, row.indexes) == row.target for row in unique):
                return (found,)
        return (value,) if len(targets) == 1 else None

    def candidates(self, row, value):
        yield from self.likely
        known = sorted(row.case.known.get(value, {}).values(), key=lambda e: (bool(UNLIKELY.search(repr(e))), size_of(e), repr(e)))
        yield from known
        for path, seen in row.fields.items():
            if isinstance(seen, list) and row.indexes and len(seen) > row.indexes[0] and seen[row.indexes[0]] == value:
                yield ["at", path, "#0"]
            if isinstance(seen, list) and row.indexes and len(seen) > row.indexes[0] and isinstance(seen[row.indexes[0]], int):
                for other, factor in row.fields.items():
                    if isinstance(factor, int) and seen[row.indexes[0]] * factor == value:
                        yield ["*", ["at", path, "#0"], other]
        whole = [(p, row.fields.get(p)) for p in self.whole if isinstance(row.fields.get(p), int) and row.fields[p] > 0]
        for path, seen in whole:
            if seen == value:
                yield path
            for n in (2, 3, 4, 8):
                if seen * n == value:
                    yield ["*", path, n]
            for n in (1, 2):
                if seen + n == value:
                    yield ["+", path, n]
                if seen - n == value:
                    yield ["-", path, n]
        for (a, x), (b, y) in itertools.combinations(whole, 2):
            if x * y == value:
                yield ["*", a, b]
            if x + y == value:
                yield ["+", a, b]
            if x * y * 2 == value:
                yield ["*", ["*", a, b], 2]
            if x // y == value:
                yield ["//", a, b]
            if y // x == value:
                yield ["//", b, a]
        yield from self.of_lists(row, value, whole)
        sums = sorted(row.case.known)
        for x in sums:  # of two numbers that were computed
            if x and x * 2 <= value and value - x in row.case.known:
                left = min(row.case.known[x].values(), key=size_of)
                right = min(row.case.known[value - x].values(), key=size_of)
                yield ["+", left, right]

    @staticmethod
    def of_lists(row, value, whole):
        """Of numbers in short lists: channels of convolutions, sides of patches."""
        for path, seen in row.fields.items():
            if not isinstance(seen, list) or not 0 < len(seen) <= 8 or not all(isinstance(n, int) and n > 0 for n in seen):
                continue
            items = [(["at", path, k], n) for k, n in enumerate(seen)]
            items += [(["*", a, b], x * y) for (a, x), (b, y) in itertools.combinations(items, 2)]
            for expression, n in items:
                if n == value:
                    yield expression
                for other, factor in whole:
                    if n * factor == value:
                        yield ["*", expression, other]

    # ---- lists of modules and tensors

    def places(self, case, template):
        """Indexes of every place of a list of modules that is reached by `template` ("" for the model)."""
        if not template:
            return [()]
        return [(*at, i) for at, length in case.lists.get(template, {}).items() for i in range(length)]

    def count_of(self, template):
        parent = self.parent_list(template)
        rows = []
        for case in self.cases:
            for at in self.places(case, parent):
                rows.append(Row(case, case.fields, at, case.lists.get(template, {}).get(at, 0)))
        return self.tree(rows, self.expression_or_length, parent.count("{}") + 1 if parent else 0)

    def expression_or_length(self, rows):
        by_list = self.length_of_list(rows)
        found = self.expression(rows)
        return by_list if by_list and (found is None or isinstance(found[0], int)) else found

    @staticmethod
    def length_of_list(rows):
        for path, value in rows[0].fields.items():
            if isinstance(value, list) and path in rows[0].case.named_lists and len(value) == rows[0].target:
                if all(isinstance(r.fields.get(path), list) and len(r.fields[path]) == r.target for r in rows):
                    return (["len", path],)
        return None

    def parent_list(self, template):
        """"a.layers" of "a.layers.{}.b.experts" and of "a.layers.{}.weight"."""
        return template[: template.rindex(".{}")] if ".{}" in template else ""

    def tensor(self, template):
        parent = self.parent_list(template)
        depth = template.count("{}")
        rows, shapes = [], []
        abouts = {}
        for case in self.cases:
            found = case.tensors.get(template, {})
            for at in self.places(case, parent):
                rows.append(Row(case, case.fields, at, at in found))
                if at in found:
                    shapes.append((case, at, found[at][0]))
                    abouts.setdefault(found[at][1:], 0)
                    abouts[found[at][1:]] += 1
        role, linear = max(abouts, key=abouts.get)
        made = {"name": template, "shape": self.shape(template, shapes, depth), "role": role}
        if linear:
            made["linear"] = True
        if not all(row.target for row in rows):
            made["when"] = self.tree(rows, self.same, depth)
        return made

    def shape(self, template, shapes, depth):
        ranks = {len(each) for _, _, each in shapes}
        if len(ranks) > 1:
            raise NoRule
        sizes = []
        for k in range(ranks.pop()):
            rows = [Row(case, case.fields, at, each[k]) for case, at, each in shapes]
            self.likely = self.weights.get(template.removesuffix("bias") + "weight", []) if template.endswith("bias") else []
            sizes.append(self.tree(rows, self.expression, depth))
        self.likely = []
        self.weights[template] = sizes
        return sizes

    def items(self, parent):
        """Tensors and lists right under `parent`, in the order of named_parameters()."""
        prefix = parent + ".{}." if parent else ""
        order, known, depth = [], set(), prefix.count("{}")
        for case in self.cases:
            sequences = {}
            for template, indexes in case.order:
                if template.startswith(prefix):
                    rest = template[len(prefix) :]
                    unit = prefix + rest[: rest.index(".{}")] if ".{}" in rest else template
                    sequences.setdefault(indexes[:depth], {})[unit] = True
            for sequence in {tuple(each) for each in sequences.values()} - known:
                known.add(sequence)
                at = 0
                for unit in sequence:
                    if unit in order:
                        at = order.index(unit) + 1
                    else:
                        order.insert(at, unit)
                        at += 1
        return order

    def listed_items(self, parent):
        made = []
        lists = {template for case in self.cases for template in case.lists}
        for unit in self.items(parent):
            try:
                if unit in lists:
                    made.append({"list": unit, "count": self.count_of(unit), "items": self.listed_items(unit)})
                else:
                    made.append(self.tensor(unit))
            except NoRule:
                self.failed.append(unit)
        return made

    # ---- fields that are not given

    def field_rules(self, used):
        """What fields are where a config does not say them: a constant, or a rule."""
        rules, todo, done = {}, sorted(used), set()
        while todo:
            path = todo.pop(0)
            if path in done:
                continue
            done.add(path)
            rule = self.field_rule(path)
            if rule is not None:
                rules[path] = rule
                more = set()
                for part in ("else", "each", "count"):
                    if part in rule:
                        fields_in(rule[part], more)
                todo += sorted(more - done)
        return rules

    def field_rule(self, path):
        rows, replaced = [], set()
        for case in self.cases + self.about.configs:
            given = case.raw.get(path, self.about.defaults.get(path))
            if isinstance(given, int) and not isinstance(given, bool) and isinstance(case.fields.get(path), int) and given != case.fields[path]:
                replaced.add(given)
        for case in self.cases + self.about.configs:
            given = case.raw.get(path, self.about.defaults.get(path))
            if len(replaced) == 1 and given in replaced:
                given = None  # −1
            if isinstance(given, str) and not isinstance(case.fields.get(path), str):
                given = None  # "auto"
            if given is None or path not in self.about.defaults:
                rows.append(Row(case, case.fields, (), case.fields.get(path)))
        default = self.about.defaults.get(path)
        if default is not None and not rows:
            return {"default": default}
        if not rows:
            return None
        if all(row.target is None for row in rows):
            return {"default": None}
        if any(isinstance(row.target, list) for row in rows):  # what is left out may not be needed
            rows = [row for row in rows if row.target is not None]
        if all(isinstance(row.target, list) for row in rows):
            if all(row.target == rows[0].target for row in rows):
                return {"default": rows[0].target}
            return self.list_rule(path, rows)
        rows = [row for row in rows]
        hidden = {}
        for row in rows:  # without itself
            fields = dict(row.fields)
            fields.pop(path, None)
            row.fields = fields
            row.case = hidden.setdefault(id(row.case), Filled(row.case, path))
        try:
            found = self.search(rows, self.expression, [f for f in self.features(0) if path not in fields_in(f)], 2)
            if found is None:
                found = self.search(rows, self.same, [f for f in self.features(0) if path not in fields_in(f)], 2)
        except TypeError:
            found = None
        if found is None:
            found = self.of_raw(path, rows)
        if found is None:
            self.failed.append("field " + path)
            return {"default": rows[0].target}
        return {"else": found[0], **({"unless": min(replaced)} if len(replaced) == 1 else {})}

    def of_raw(self, path, rows):
        """A field that is computed of others before those are filled in."""
        names = [p for p, v in self.about.defaults.items() if isinstance(v, int) and not isinstance(v, bool)]
        for name in names:
            if all(row.case.raw.get(name, self.about.defaults[name]) == row.target for row in rows):
                return (["raw", name],)
        return None

    def list_rule(self, path, rows):
        counted, each = [], []
        for row in rows:
            fields = {k: v for k, v in row.fields.items() if k != path}
            counted.append(Row(row.case, fields, (), len(row.target)))
            for i, value in enumerate(row.target):
                each.append(Row(row.case, fields, (i,), value))
        features = [f for f in self.features(1) if path not in fields_in(f)] + self.constants
        count = self.expression(counted) if counted else None
        kept, self.cache = self.cache, {}
        found = self.search(each, self.same, features, 3) or self.search(each, self.expression_of_place, features, 2)
        self.cache = kept
        if count is None or found is None:
            self.failed.append("list " + path)
            return {"default": None}
        return {"count": count[0], "each": found[0]}

    def expression_of_place(self, rows):
        if all(row.target == row.indexes[0] for row in rows):
            return ("#0",)
        for path in self.whole:
            for found in (["+", "#0", path], ["*", "#0", path], ["-", ["*", ["+", "#0", 1], path], 1]):
                if all(evaluate(found, row.fields, row.indexes) == row.target for row in rows):
                    return (found,)
        return self.expression(rows)

    # ---- the document

    def document(self, form, recorded_with):
        self.failed = []
        about = self.about
        items = self.listed_items("")
        used = set()
        text = []

        def visit(each):
            for part in ("count", "when"):
                if part in each:
                    fields_in(each[part], used)
            for size in each.get("shape", []):
                fields_in(size, used)
            for inner in each.get("items", []):
                visit(inner)

        for each in items:
            visit(each)
        for path in about.defaults:
            name = path.rsplit(".", 1)[-1]
            if name in SHAPE or about.aliases.get(path) in SHAPE:
                used.add(path)
        main = {case.main for case in self.cases} - {None}
        rules = self.field_rules(used)
        aliases = {new: old for new, old in about.aliases.items() if old in rules or old in used}
        total = len(self.cases)
        text.append(f"{total} cases, {len(items)} items")
        if self.failed:
            text.append("NO RULE: " + ", ".join(self.failed[:12]))
        return {
            "format": form,
            "architecture": about.model_type,
            "class": about.base.class_name,
            "made_with": recorded_with,
            "layers": about.base.main or sorted(main)[0],
            **experts_of(about.model_type),
            "fields": rules,
            "aliases": aliases,
            "items": items,
            "report": "; ".join(text),
        }


def experts_of(model_type):
    """The first of the names by which peft's target_modules mean stacked experts: peft 0.21 _MOE_TARGET_MODULE_MAPPING."""
    from transformers.conversion_mapping import _MODEL_TO_CONVERSION_PATTERN

    first = {"qwen2_moe": "gate_proj", "mixtral": "w1"}.get(_MODEL_TO_CONVERSION_PATTERN.get(model_type))
    return {"experts": first} if first else {}


class Filled:
    """A case whose known numbers are the config's own."""

    def __init__(self, case, path):
        expression = case.filled.get(path)
        value = case.fields.get(path)
        self.known = {value: {repr(expression): expression}} if expression is not None else {}
        self.raw = case.raw

    def __hash__(self):
        return id(self)


SHAPE = {
    "hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "n_layers", "num_layers", "vocab_size",
    "num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "ffn_dim", "n_inner", "max_position_embeddings", "n_positions", "tie_word_embeddings", "num_experts",
    "num_local_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok", "moe_intermediate_size",
}  # fmt: skip
