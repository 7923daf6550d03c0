"""The commands as functions. Each asks the command line's own library with the same words and reads the JSON that it prints."""
from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Type, TypeVar

from . import _engine, results
from ._words import Documents, option_words

if TYPE_CHECKING:
    from transformers import TrainingArguments
    from typing_extensions import Unpack

    from .options import (
        CheckOptions,
        CompareOptions,
        Config,
        FitOptions,
        HardwareOptions,
        LintOptions,
        ModelLike,
        Path,
        PlanOptions,
        SearchOptions,
    )

D = TypeVar("D", bound=results.Document)

# Surrogates that stand for bytes of a file's name are typed as these.
_UNTYPED = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")

_LONGEST_NAME = 60  # characters of a model's folder


class InputError(ValueError):
    """Bad usage or bad input: the command line's sentence, which names the option or the file, what was found and what is
    accepted."""


def write_file(path: Path, text: bytes) -> None:
    """Writes a file as the command line does: whole or not at all, with the permissions of the old one, and through no link out of its
    folder."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InputError(f"{os.fsdecode(name)!r}: a zero byte in a file's name; accepted: none")
    if problem := _engine.write(name, text):
        raise InputError(problem)


def _ask(kind: Type[D], words: Sequence[str], documents: Documents) -> D:
    status, output, messages = _engine.ask(words)
    if status == _engine.BAD_INPUT or not output:
        raise InputError(documents.without_folder(messages.strip().encode()).decode())
    return kind._from_text(documents.without_folder(output), status == _engine.FITS)


def _written(documents: Documents, name: str, config: Mapping[str, Any], folder: str = "") -> str:
    try:
        return documents.write(name, config, folder)
    except ValueError as error:
        raise InputError(str(error)) from None


def _config_file(config: Mapping[str, Any], documents: Documents) -> str:
    """A model is called after its folder: after what the config was loaded from, else its architecture."""
    name = str(config.get("_name_or_path") or config.get("model_type") or "model").rstrip("/").rsplit("/", maxsplit=1)[-1]
    # A folder is called so: no control characters, and no name longer than file systems take.
    name = "".join(filter(str.isprintable, name))[:_LONGEST_NAME].lstrip(".")
    return _written(documents, "config.json", config, name or "model")


def _model_option(model: ModelLike, documents: Documents) -> Dict[str, Any]:
    """A name or path as it is; a config as a file, with the attention that it asks for."""
    if isinstance(model, (str, os.PathLike)):
        return {"model": model}
    if isinstance(model, Mapping):
        return {"model": _config_file(model, documents)}
    if not hasattr(model, "to_dict"):
        raise InputError(f"model: {type(model).__name__}; accepted: a name, a size, a path, a dict or a config of transformers")
    from ._transformers import attention_option

    return {"model": _config_file(model.to_dict(), documents), **attention_option(model)}


def _config_option(config: Config, documents: Documents) -> Path:
    return _written(documents, "ds_config.json", config) if isinstance(config, Mapping) else config


def _options(model: Optional[ModelLike], training: Optional[TrainingArguments], options: Mapping[str, Any],
             documents: Documents) -> List[str]:
    """Words of all that is given; what stands among the options wins over `training`, and that over the model's."""
    given: Dict[str, Any] = {} if model is None else _model_option(model, documents)
    if training is not None:
        from ._transformers import training_options

        given.update(training_options(training, options))
    given.update(options)
    for name in ("ds_config", "baseline"):
        if given.get(name) is not None:
            given[name] = _config_option(given[name], documents)
    for name, value in given.items():
        _check_value(name, value)
    return option_words({**given, "json": True})


@lru_cache(maxsize=None)
def _flags() -> FrozenSet[str]:
    """Options that take no value, as keyword arguments."""
    _, table, _ = _engine.ask(["--help", "--json"])
    return frozenset(each["key"].replace("-", "_") for each in json.loads(table)["options"] if not each["value"])


def _check_value(name: str, value: Any) -> None:
    """What no command line could be given: it would stand for the next option, or end the word."""
    if value is True and name not in _flags():
        raise InputError(f"{name}: True; accepted: a value")
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(each, str) and _UNTYPED.search(each):
            raise InputError(f"{name}: {ascii(each)}; accepted: text without zero bytes and lone surrogates")


def plan(model: ModelLike, *, training: Optional[TrainingArguments] = None, **options: Unpack[PlanOptions]) -> results.Report:
    """Every strategy for this model on this cluster: memory, traffic, time, which fits, which to take and why.

    `model` is what `--model` takes, a dict, or a config of transformers. `training`: transformers' TrainingArguments, which
    set batch, accumulation, precision, optimizer, checkpointing and the DeepSpeed config where no option does.
    """
    with Documents() as documents:
        return _ask(results.Report, ["plan", *_options(model, training, options, documents)], documents)


def explain(model: ModelLike, *, training: Optional[TrainingArguments] = None, **options: Unpack[PlanOptions]) -> results.Report:
    """`plan` with every figure's formula, numbers and source (`Plan.explain`), and how far off such figures were (`Plan.accuracy`)."""
    options["explain"] = True
    return plan(model, training=training, **options)


def search(model: ModelLike, *, training: Optional[TrainingArguments] = None, **options: Unpack[SearchOptions]) -> results.Report:
    """The fastest config that fits, over everything that is not pinned (`Report.search`)."""
    with Documents() as documents:
        return _ask(results.Report, ["search", *_options(model, training, options, documents)], documents)


def compare(model: ModelLike, *strategies: Config, training: Optional[TrainingArguments] = None,
            **options: Unpack[CompareOptions]) -> results.Report:
    """Strategies ("zero3", "tp8+zero1", "lora+zero2+b4") or DeepSpeed configs side by side (`Report.comparison`)."""
    with Documents() as documents:
        words = [os.fspath(_config_option(each, documents)) for each in strategies]
        return _ask(results.Report, ["compare", *_options(model, training, options, documents), "--", *words], documents)


def compare_hardware(model: ModelLike, *names: str, training: Optional[TrainingArguments] = None,
                     **options: Unpack[HardwareOptions]) -> results.HardwareComparison:
    """One question on several GPUs and cloud shapes ("H100-SXM-80GB", "p4d.24xlarge"): which fits, how fast, tokens per GPU-hour."""
    with Documents() as documents:
        words = _options(model, training, options, documents)
        return _ask(results.HardwareComparison, ["hardware", "compare", *words, "--", *names], documents)


def fit(model: Optional[ModelLike] = None, *, training: Optional[TrainingArguments] = None,
        **options: Unpack[FitOptions]) -> results.FitReport:
    """The inverse: the largest micro-batch, the longest sequence, the fewest GPUs, the smallest GPU, the biggest model
    (`solve`); or what an out-of-memory message means (`oom`)."""
    with Documents() as documents:
        return _ask(results.FitReport, ["fit", *_options(model, training, options, documents)], documents)


def lint(*configs: Config, model: Optional[ModelLike] = None, **options: Unpack[LintOptions]) -> results.LintReport:
    """Checks DeepSpeed configs, given as files or dicts; with `model` also whether they fit."""
    with Documents() as documents:
        words = [os.fspath(_config_option(each, documents)) for each in configs]
        return _ask(results.LintReport, ["lint", *_options(model, None, options, documents), "--", *words], documents)


def check(*files: Path, **options: Unpack[CheckOptions]) -> results.Check:
    """Predictions against measurements: published or recorded runs, logs, snapshots, rows that `watch` wrote."""
    with Documents() as documents:
        words = [os.fspath(each) for each in files]
        return _ask(results.Check, ["check", *_options(None, None, options, documents), "--", *words], documents)


def models(words: str = "") -> results.ModelCatalogue:
    """The catalogue of models, or those whose name has all of these words."""
    with Documents() as documents:
        return _ask(results.ModelCatalogue, ["models", "--json", *(["search", "--", words] if words else ["list"])], documents)


def model(name: ModelLike) -> results.ModelDetails:
    """A model with every parameter tensor."""
    with Documents() as documents:
        named = os.fspath(_model_option(name, documents)["model"])
        return _ask(results.ModelDetails, ["models", "--json", "show", "--", named], documents)


def hardware(words: str = "") -> results.HardwareCatalogue:
    """The catalogue of GPUs, nodes and networks, or those whose name has all of these words."""
    with Documents() as documents:
        return _ask(results.HardwareCatalogue, ["hardware", "--json", *(["search", "--", words] if words else ["list"])], documents)
