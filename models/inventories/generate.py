#!/usr/bin/env python3
"""Writes files/ARCHITECTURE.json: the tensors of an architecture of transformers as expressions over its config.

    python generate.py [--list FILE | ARCHITECTURE …]

Models of one architecture are made on the meta device from many configs, whose fields remember how numbers were
computed from them (symbols.py). What is written holds for all of these models: each tensor's sizes, where it is
there, and how often each list of modules repeats."""

import argparse
import ast
import contextlib
import dataclasses
import importlib
import inspect
import json
import os
import random
import re
import signal
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "zplan" / "trace"))

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedConfig  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as IMAGE_TEXT  # noqa: E402

import modules  # noqa: E402  of the package's recorder
import symbols  # noqa: E402
from rules import Learner  # noqa: E402
from symbols import KNOWN, Real, Whole  # noqa: E402

FORMAT = "zplan.inventory/1"
HERE = Path(__file__).parent / "files"
IDLE = re.compile(
    r"^_|token_id$|token_index$|_eps$|epsilon$|^(architectures|dtype|torch_dtype|id2label|label2id|num_labels|initializer\w*|"
    r"use_cache|transformers_version|problem_type|return_dict|auto_map|rope_theta|rope_scaling|rope_parameters|"
    r"chunk_size_feed_forward|is_encoder_decoder|output_\w+|name_or_path|quantization_config|per_layer_config|"
    r"tie_last_hidden_states|is_decoder|add_cross_attention|finetuning_task|cross_attention_hidden_size|\w*dropout\w*|\w*_std$|"
    r"\w*act(ivation)?(_fn|_function)?|\w*max_position\w*|max_seq_len|model_max_length|router_aux_loss_coef|"
    r"attn_implementation|torchscript|pruned_heads|\w*softcap\w*|(?!.*ffn)\w*_multiplier|\w*_scale|\w*_scaling(_factor)?|\w*theta)$"
)
POSITIONS = re.compile(r"max_position\w*|n_positions|max_seq_len")
LAYERS = re.compile(r"(layers|n_layer|num_layers|blocks|depth)$")
DEPTH = re.compile(r"(^|_)(num_hidden_layers|n_layers?|num_layers|\w*encoder_layers|decoder_layers|num_blocks|depth)$")
PATTERNS = {"nemotron_h": {"hybrid_override_pattern": "layers_block_type"}}  # lists that older files write as one word
FLAGS = {
    "minimax_m3_vl_text": {
        "layer_types": {"field": "sparse_attention_config.sparse_attention_freq", "on": "minimax_m3_sparse", "off": "full_attention"},
        "mlp_layer_types": {"field": "moe_layer_freq", "on": "sparse", "off": "dense"},
    }
}  # lists of kinds that published files write as flags
NEEDED = {
    "dbrx": {"attn_config.rope_theta": 500000.0},
    "hunyuan_v1_dense": {"head_dim": 64},
    "hunyuan_v1_moe": {"head_dim": 64},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
}  # fields without which transformers makes no model
SECONDS = 90  # of processor time


class Fields(dict):
    """Values of a config by path; "text_config.hidden_size" of one inside another."""


def plain(value):
    """Returns a value of JSON's types."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return symbols.bare(value) if isinstance(value, Whole) else value
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None


def walk(config, path=""):
    """(path, name, config) of every field that is a number, a truth value, a word or a list of such."""
    names = {each.name for each in dataclasses.fields(type(config))} | set(vars(config))
    for name in sorted(names):
        if IDLE.search(name) and not POSITIONS.match(name):
            continue
        value = vars(config).get(name)
        if isinstance(value, PreTrainedConfig):
            yield from walk(value, f"{path}{name}.")
        elif not isinstance(value, dict):
            yield path + name, name, config


def resolved(config):
    found = Fields()
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            found[name] = True
    for path, name, owner in walk(config):
        value = vars(owner).get(name)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple)):
            found[path] = plain(value)
    return found


def is_list_of_scalars(value):
    return isinstance(value, (list, tuple)) and all(isinstance(each, (int, float, str, bool)) for each in value)


class Architecture:
    def __init__(self, model_type):
        self.model_type = model_type
        self.auto = AutoModelForImageTextToText if model_type in IMAGE_TEXT else AutoModelForCausalLM
        self.config_class = type(AutoConfig.for_model(model_type))
        self.random = random.Random(model_type)
        self.cases = []
        with contextlib.suppress(ImportError):
            importlib.import_module(self.config_class.__module__.replace("configuration_", "modeling_"))
        self.find_fields()

    # ---- configs

    def find_fields(self):
        """Defaults of every field, before transformers fills anything in; kinds of annotation."""
        self.defaults, self.kinds, self.aliases, self.others = {}, {}, {}, set()
        base = self.config_class()
        self.optional = [f.name for f in dataclasses.fields(base) if "Config" in str(f.type) and vars(base).get(f.name) is None and f.name.endswith("_config")]
        for name in list(self.optional):
            try:
                base = self.config_class(**{each: {} for each in self.optional if each != name or True})
                break
            except Exception:
                self.optional.remove(name)
        self.aliases.update(PATTERNS.get(self.model_type, {}))
        self.add_fields(base, "")

    def add_fields(self, config, path):
        cls = type(config)
        for field in dataclasses.fields(cls):
            if IDLE.search(field.name) and not POSITIONS.match(field.name):
                continue
            value = vars(config).get(field.name)
            if isinstance(value, PreTrainedConfig):
                self.add_fields(value, f"{path}{field.name}.")
                if path == "" and field.name in self.optional:
                    self.defaults[field.name], self.kinds[field.name] = None, "config"
                continue
            default = field.default
            if default is dataclasses.MISSING:
                default = field.default_factory() if field.default_factory is not dataclasses.MISSING else None
            if isinstance(default, dict) or isinstance(value, dict):
                continue
            if path:  # a config inside another may be made with values of its own
                default = default if default is None else plain(value)
            self.defaults[path + field.name] = plain(default)
            self.kinds[path + field.name] = str(field.type)
        for new, old in getattr(cls, "attribute_map", {}).items():
            self.aliases[path + new] = path + old
        self.add_others(cls, path)
        try:
            source = Path(sys.modules[cls.__module__].__file__).read_text()
            for name, legacy in re.findall(r"self\.(\w+) = (?:\(\s*)?kwargs\.pop\(\s*\"(\w+)\"", source):
                self.aliases.setdefault(path + legacy, path + name)
        except OSError:
            pass

    def add_others(self, cls, path):
        """What a class takes or its model reads besides its fields."""
        source = inspect.getsource(cls)
        for name, default in re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)",\s*([^()]+?)\)', source):
            with contextlib.suppress(ValueError, SyntaxError):
                value = ast.literal_eval(default)
                if not IDLE.search(name) and path + name not in self.defaults and not isinstance(value, (dict, list, tuple, str)):
                    self.defaults[path + name], self.kinds[path + name] = value, "int | None"
                    self.others.add(path + name)
        if path:
            return
        module = sys.modules.get(cls.__module__.replace("configuration_", "modeling_"))
        source = Path(module.__file__).read_text() if module else ""
        for name in re.findall(r'getattr\((?:self\.)?config, "(head_dim|attention_head_size|\w+_dim|num_\w+)"', source):
            if name not in self.defaults and not IDLE.search(name) and not hasattr(cls, name):
                self.defaults[name], self.kinds[name] = None, "int | None"
                self.others.add(name)

    def make_config(self, raw):
        nested = {}
        absent = [path for path in self.optional if raw.get(path) is None]
        for path, value in sorted(raw.items()):
            at = nested
            *parents, name = path.split(".")
            if path in self.optional or (parents and parents[0] in absent):
                continue
            for each in parents:
                at = at.setdefault(each, {})
            at[name] = self.symbol(path, value)
        for path in self.optional:
            if path not in absent:
                nested.setdefault(path, {})
        return self.config_class(**nested)

    @staticmethod
    def symbol(path, value):
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return Whole(value, path)
        if isinstance(value, float):
            return Real(value, path)
        return list(value) if isinstance(value, list) else value

    def resymbolise(self, config):
        for path, name, owner in walk(config):
            value = vars(owner).get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                vars(owner)[name] = self.symbol(path, plain(value))

    def make(self, raw):
        """A case: fields as given and as filled in, lists of modules and tensors. None where it cannot be made."""
        KNOWN.clear()
        raw = self.fitted(raw)
        try:
            config = self.make_config({**self.given_defaults(), **raw})
            filled = {p: getattr(vars(o).get(n), "expression", None) for p, n, o in walk(config)}
            fields = resolved(config)
            KNOWN.clear()
            self.resymbolise(config)
            for path in self.optional:
                fields.setdefault(path, None)
            for path in self.others - fields.keys():
                fields[path] = plain(raw.get(path, self.defaults[path]))
                self.symbol(path, fields[path])
            with patched_int(config), torch.device("meta"):
                model = self.auto.from_config(config)
        except Late:
            raise
        except Exception as error:  # a combination that transformers refuses
            self.last_error = f"{type(error).__name__}: {error}"[:300]
            return None
        return Case(raw, fields, filled, model, dict(KNOWN), config)

    def fitted(self, raw):
        """Lists of words for layers as long as the model is deep."""
        depths = [raw.get(p, v) for p, v in self.defaults.items() if DEPTH.search(p) and p.rsplit(".", 1)[-1] != "depth"]
        if len(depths) != 1 or not isinstance(depths[0], int) or depths[0] < 1:
            return raw
        made = dict(raw)
        for path, value in raw.items():
            if isinstance(value, list) and value and isinstance(value[0], str) and len(value) != depths[0]:
                made[path] = [value[i % len(value)] for i in range(depths[0])]
        return made

    def given_defaults(self):
        """Whole numbers as arguments, so that what is computed from them is known."""
        return {p: v for p, v in self.defaults.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}

    # ---- variants

    def mutate(self, path, value, layers):
        pick = self.random.choice
        name = path.rsplit(".", 1)[-1]
        if isinstance(value, bool):
            return not value
        if isinstance(value, float):
            return round(value * pick([2, 0.5, 1.5]), 6)
        if isinstance(value, int):
            if DEPTH.search(name) and value > 3:
                return max(1, value + pick([-2, -1, 1, 2, 3]))
            if re.search("experts|latent", name) and not re.search("per_tok|dim|size", name) and self.random.random() < 0.4:
                return pick([0, 1])
            if self.doubles and value > 4:
                return 2 * value
            if value == 0:
                return pick([1, 2])
            if value <= 4:
                return pick([n for n in (1, 2, 3, 4, 6) if n != value])
            if value <= 16:
                return pick([value * 2, value // 2, value + value // 2, value + 1])
            return pick([value * 2, value // 2, value * 3, value + value // 2, value // 2 * 3 + 64, value + 8])
        return value

    def of_none(self, path, base):
        kind, name, pick = self.kinds[path], path.rsplit(".", 1)[-1], self.random.choice
        now = base.fields.get(path)
        if is_list_of_scalars(now) and now:
            return self.of_list(now, self.free_lengths)
        if isinstance(now, int) and not isinstance(now, bool):
            return self.mutate(path, now, 0)
        if "list" in kind:
            layers = base.lists.get(base.main, {}).get((), 6)
            return sorted(self.random.sample(range(layers), max(1, layers // 2)))
        if "int" in kind:
            return pick([64, 96, 128]) if re.search("dim|rank|size|width", name) else pick([2, 4])
        if "float" in kind:
            return pick([0.5, 1.5, 2.0])
        if "bool" in kind:
            return True
        return None

    def of_list(self, now, length_is_free=False):
        words = sorted(set(now), key=str)
        if all(isinstance(each, str) for each in words):
            words = sorted(set(words) | self.words)
        elif all(isinstance(each, int) for each in words) and set(words) <= {0, 1}:
            words = [0, 1]
        elif all(isinstance(each, int) for each in words):
            return [max(1, each // self.random.choice([1, 2])) for each in now]
        length = len(now) + (self.random.choice([0, 1, 2, -1]) if length_is_free else 0)
        return [self.random.choice(words) for _ in range(max(1, length))]

    def small(self, depth):
        """Fewer layers than by default, so that models are made fast."""
        raw = {**NEEDED.get(self.model_type, {}), **{path: True for path in self.optional}}
        for path, value in self.defaults.items():
            name = path.rsplit(".", 1)[-1]
            if isinstance(value, int) and not isinstance(value, bool) and LAYERS.search(name) and value > 3:
                raw[path] = depth if DEPTH.search(name) else 2
        for path, value in self.defaults.items():
            if is_list_of_scalars(value) and len(value) > 7:
                raw[path] = value[:depth] if not all(isinstance(each, int) for each in value) else [n for n in value if n < depth]
        return raw

    words, free_lengths, doubles = frozenset(), False, False

    def needs_depth(self, shallow, deep):
        """True where a number that is 0 by default can be another in a deeper model alone, as layers that share keys."""
        numbers = [p for p, v in self.defaults.items() if isinstance(v, int) and not isinstance(v, bool) and v == 0]
        return any(self.make({**shallow, p: 2}) is None and self.make({**deep, p: 2}) is not None for p in numbers)

    def base_of_cases(self):
        """The fields of the first model, and it."""
        bases = [self.small(6), self.small(12), NEEDED.get(self.model_type, {})]
        made = next(((raw, case) for raw in bases if (case := self.make(raw)) is not None), None)
        if made is None:
            raise ValueError(self.last_error)
        if made[0] is bases[0] and self.needs_depth(*bases[:2]):
            return bases[1], self.make(bases[1])
        return made

    def without(self, base_raw):
        """Yields models of which one size is 0, so that modules of that size are missing."""
        for path, default in self.defaults.items():
            size = re.search(r"size|dim|rank", path.rsplit(".", 1)[-1])
            if size and isinstance(default, int) and not isinstance(default, bool) and default > 4:
                yield self.make({**base_raw, path: 0})

    def explore(self, cases):
        base_raw, base = self.base_of_cases()
        self.base = base
        self.cases = [base]
        # A model whose depth is that of a list has no number of layers to agree with.
        self.free_lengths = not any(LAYERS.search(path.rsplit(".", 1)[-1]) for path in self.defaults)
        self.find_words(base_raw)
        free, self.together = [], {}
        for path, default in self.defaults.items():
            change = self.change(path, base_raw)
            if change is None and self.kinds[path] != "config":
                continue
            case = self.make({**base_raw, path: change})
            if case is not None:
                self.cases.append(case)
                free.append(path)
            elif isinstance(default, bool):  # may need numbers that are none by default
                more = {p: self.change(p, base_raw) for p, v in self.defaults.items() if v is None and "int" in self.kinds[p] and "list" not in self.kinds[p] and self.change(p, base_raw)}
                case = self.make({**base_raw, **more, path: change})
                if case is not None:
                    self.cases.append(case)
                    free.append(path)
                    self.together[path] = list(more)
            elif isinstance(default, int):
                for _ in range(2):
                    case = self.make({**base_raw, path: self.change(path, base_raw)})
                    if case is not None:
                        self.cases.append(case)
                        free.append(path)
                        break
        self.cases += [case for case in self.without(base_raw) if case is not None and all(0 not in shape for shape in case.shapes())]
        self.explore_configs(base_raw, 40)
        for i in range(cases):
            share = self.random.choice([0.15, 0.3, 0.45, 0.8])
            share_of = lambda path: share if isinstance(self.defaults[path], (int, float)) and not isinstance(self.defaults[path], bool) else 0.5
            chosen = [path for path in free if self.random.random() < share_of(path)]
            chosen += {other for path in chosen for other in self.together.get(path, [])} - set(chosen)
            self.doubles = i % 2 == 1
            for attempt in range(10):
                raw = {**base_raw, **{path: self.change(path, base_raw) for path in chosen}}
                case = self.make(raw)
                if case is not None:
                    self.cases.append(case)
                    break
                if attempt % 2:  # new values do not help either
                    numbers = [path for path in chosen if share_of(path) != 0.5] or chosen
                    chosen = [path for path in chosen if path not in set(self.random.sample(numbers, (len(numbers) + 2) // 3))]
            self.doubles = False

    def change(self, path, raw):
        now = raw.get(path, self.defaults[path])
        if self.kinds[path] == "config":
            return None if now else True
        if is_list_of_scalars(now) and now:
            return self.of_list(now, self.free_lengths)
        if now is None:
            return self.of_none(path, self.base)
        if isinstance(now, str):  # "auto"
            filled = self.base.fields.get(path)
            return self.mutate(path, filled, 0) if isinstance(filled, int) else None
        return self.mutate(path, now, 0)

    def explore_configs(self, base_raw, count):
        """Configs alone, whose models may be deep: for what transformers fills in."""
        self.configs = []
        for i in range(count):
            raw = {**base_raw}
            for path, value in self.defaults.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    if DEPTH.search(path.rsplit(".", 1)[-1]):
                        raw[path] = self.random.randint(12, 64)
                    elif self.random.random() < 0.4:
                        raw[path] = self.mutate(path, value, 0)
            for _ in range(6):
                KNOWN.clear()
                try:
                    config = self.make_config({**self.given_defaults(), **self.fitted(raw)})
                except Exception:  # a combination that transformers refuses
                    changed = [path for path in raw if path not in base_raw]
                    for path in self.random.sample(changed, (len(changed) + 1) // 2):
                        del raw[path]
                    continue
                case = ConfigCase(raw, config)
                for path in self.others - case.fields.keys():
                    case.fields[path] = plain(raw.get(path, self.defaults[path]))
                self.configs.append(case)
                break

    def find_words(self, base_raw):
        """Words that lists of layers take."""
        from transformers.configuration_utils import ALLOWED_LAYER_TYPES

        self.words = frozenset()
        for path, value in self.base.fields.items():
            if not (is_list_of_scalars(value) and value and isinstance(value[0], str)) or path not in self.defaults:
                continue
            taken = set()
            source = Path(sys.modules[self.config_class.__module__].__file__).read_text()
            source += Path(sys.modules[self.base.module].__file__).read_text()
            compared = re.findall(r'== "(\w+)"', source) + [w for pair in re.findall(r'"(\w+)" if [^\n]+ else "(\w+)"', source) for w in pair]
            for word in sorted({*ALLOWED_LAYER_TYPES, "attention", "mlp", "mamba", "recurrent", *compared[:12]}):
                if word in value or f'"{word}"' not in source:
                    continue
                case = self.make({**base_raw, path: [value[0], *[word] * (len(value) - 1)]})
                if case is not None:
                    self.cases.append(case)
                    taken.add(word)
            self.words |= frozenset(taken)


class ConfigCase:
    def __init__(self, raw, config):
        self.raw, self.fields = raw, resolved(config)
        self.filled = {p: getattr(vars(o).get(n), "expression", None) for p, n, o in walk(config)}
        self.known, self.named_lists = {}, set()


class Case:
    def __init__(self, raw, fields, filled, model, known, config):
        self.raw, self.fields, self.filled, self.known = raw, fields, filled, known
        self.module = type(model).__module__
        self.class_name = type(model).__name__
        self.parameters = 0
        self.named_lists = {p for p, v in fields.items() if isinstance(v, list) and re.search("layer|block", p)}
        self.main = None
        self.read(model, config)

    def read(self, model, config):
        path, _ = modules.decoder_layers(model, None)
        embedding, head = modules.embeddings(model)
        lists, self.lists, owners = {}, {}, {}
        for name, module in model.named_modules():
            if isinstance(module, (torch.nn.ModuleList, torch.nn.ParameterList)):
                lists[name] = len(module)
            for parameter in module._parameters.values():
                if parameter is not None:
                    owners.setdefault(id(parameter), module)
        self.tensors, self.order = {}, []
        for name, length in lists.items():
            template, indexes = self.template(name, lists)
            self.lists.setdefault(template, {})[indexes] = length
        self.main = self.template(path, lists)[0] if path else None
        for name, parameter in model.named_parameters():
            template, indexes = self.template(name, lists)
            owner = owners[id(parameter)]
            role = modules.role_of(name, owner, parameter, embedding, head)
            linear = isinstance(owner, torch.nn.Linear) and parameter.dim() == 2
            self.parameters += parameter.numel()
            self.order.append((template, indexes))
            self.tensors.setdefault(template, {})[indexes] = (tuple(parameter.shape), role, linear)

    def shapes(self):
        return [shape for tensor in self.tensors.values() for shape, *_ in tensor.values()]

    @staticmethod
    def template(name, lists):
        """"layers.{}.weight", (3,) of "layers.3.weight"."""
        parts, made, indexes, path = name.split("."), [], [], ""
        for part in parts:
            if path in lists and part.isdigit():
                made.append("{}")
                indexes.append(int(part))
            else:
                made.append(part)
            path = f"{path}.{part}" if path else part
        return ".".join(made), tuple(indexes)


class Late(BaseException):
    pass


class patched_int:
    """int() in the module that makes the model keeps expressions."""

    def __init__(self, config):
        names = [type(config).__module__.replace("configuration_", "modeling_"), type(config).__module__]
        self.modules = [sys.modules[n] for n in names if n in sys.modules]

    def __enter__(self):
        for each in self.modules:
            vars(each)["int"] = symbols.int_

    def __exit__(self, *_):
        for each in self.modules:
            vars(each).pop("int", None)


def late(*_):
    raise Late("too slow")


def document(model_type, cases):
    architecture = Architecture(model_type)
    AutoConfig.for_model(model_type)
    architecture.explore(cases)
    return Learner(architecture).document(FORMAT, {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--new", action="store_true", help="leave files that are there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(exist_ok=True)
    signal.signal(signal.SIGVTALRM, late)
    for each in arguments.architectures:
        path = arguments.out / f"{each}.json"
        if arguments.new and path.exists():
            continue
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            made = document(each, arguments.cases)
            report = made.pop("report")
            for field, flags in FLAGS.get(each, {}).items():
                made["fields"][field]["flags"] = flags
            if "NO RULE: model" in report or "NO RULE: lm_head" in report:
                path.unlink(missing_ok=True)
                print(f"{each}: {report}", flush=True)
                continue
            path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
            print(f"{each}: {report}", flush=True)
        except (Late, Exception) as error:
            print(f"{each}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
            if os.environ.get("TRACEBACK"):
                raise
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    main()
