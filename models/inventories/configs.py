"""A config's fields as files/ARCHITECTURE.json fills them in; fields.cpp does the same."""

from symbols import evaluate

NEWER = {"mamba": "linear_attention", "attention": "full_attention", "deepseek_sparse_attention": "indexed_attention"}
PATTERN = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}


class Filled(dict):
    def __init__(self, config, rules):
        super().__init__()
        self.config, self.rules, self.open = config, rules, set()

    def given(self, path):
        for name in [path, *(new for new, old in self.rules["aliases"].items() if old == path)]:
            found = self.config
            for each in name.split("."):
                found = found.get(each) if isinstance(found, dict) else None
            if found is not None:
                return found
        return None

    def __missing__(self, path):
        if path in self.open:
            return None
        self.open.add(path)
        value = self.filled(path)
        self.open.discard(path)
        self[path] = [NEWER.get(each, each) if isinstance(each, str) else each for each in value] if isinstance(value, list) else value
        return self[path]

    def get(self, path, otherwise=None):
        return self[path]

    def filled(self, path):
        rule, said = self.rules["fields"].get(path), self.given(path)
        if said is not None:
            if isinstance(said, str) and rule and ("each" in rule or isinstance(rule.get("default"), list)):
                return [PATTERN[each] for each in said]
            replaced = rule and "else" in rule and (isinstance(said, str) or said == rule.get("unless"))
            if not replaced:
                return said
        if rule is None:
            return None
        if "default" in rule:
            return rule["default"]
        if "else" in rule:
            return evaluate(rule["else"], self)
        return [evaluate(rule["each"], self, (i,)) for i in range(evaluate(rule["count"], self) or 0)]
