#!/usr/bin/env python3
"""Reads recipes with the parsers of the projects that they are for: parse_recipes.py FILE…

What is not installed is skipped and said. Exit status 1 where a parser refuses a file. Which releases have read which files is in
tests/reference/recipes/README.md.
"""
import importlib.metadata
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("DISABLE_VERSION_CHECK", "1")  # LLaMA-Factory's, of transformers' release


def trl(path):
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser
    script, training, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config(["--config", path, "--use_cpu", "true"])
    return f"{model.model_name_or_path}, batch {training.per_device_train_batch_size} x {training.gradient_accumulation_steps}, {training.max_length} tokens"


def transformers(path):
    from transformers import HfArgumentParser, TrainingArguments
    (training,) = HfArgumentParser(TrainingArguments).parse_dict({**json.loads(Path(path).read_text()), "use_cpu": True})
    return f"batch {training.per_device_train_batch_size} x {training.gradient_accumulation_steps}, fsdp {training.fsdp}, deepspeed {training.deepspeed}"


def accelerate(path):
    from accelerate.commands.config.config_args import load_config_from_file
    config = load_config_from_file(path)
    return f"{config.distributed_type}, {config.num_processes} processes"


def llama_factory(path):
    import yaml
    from llamafactory.hparams.parser import _parse_train_args
    arguments = {**yaml.safe_load(Path(path).read_text()), "use_cpu": True}
    model, data, training, tuning, _ = _parse_train_args(arguments)
    return f"{model.model_name_or_path}, {tuning.finetuning_type}, batch {training.per_device_train_batch_size} x {training.gradient_accumulation_steps}, {data.cutoff_len} tokens"


def axolotl(path):
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig
    config = AxolotlInputConfig(**yaml.safe_load(Path(path).read_text()))
    return f"{config.base_model}, {config.adapter}, batch {config.micro_batch_size} x {config.gradient_accumulation_steps}, {config.sequence_len} tokens"


def torchtune(path):
    import importlib
    from omegaconf import OmegaConf
    config = OmegaConf.load(path)
    OmegaConf.to_container(config, resolve=True)
    module, builder = config.model._component_.rsplit(".", 1)
    source = importlib.util.find_spec("torchtune")
    builders = Path(source.origin).parent.joinpath(*module.split(".")[1:], "_model_builders.py").read_text()
    assert f"def {builder}(" in builders or f"{builder} = partial(" in builders, builder
    return f"{builder}, batch {config.batch_size} x {config.gradient_accumulation_steps}"


def swift(path):
    from swift.arguments import SftArguments
    from transformers import HfArgumentParser
    words = shell_words(path) if path.endswith(".sh") else yaml_words(path)
    SftArguments.__post_init__ = lambda self: None  # looks for the model on its hub
    (arguments,) = HfArgumentParser(SftArguments).parse_args_into_dataclasses(words)
    return f"{arguments.model}, {arguments.tuner_type}, batch {arguments.per_device_train_batch_size} x {arguments.gradient_accumulation_steps}"


def shell_words(path):
    import shlex
    words = shlex.split(Path(path).read_text().replace("\\\n", " "), comments=True)
    return words[words.index("sft") + 1:]


def yaml_words(path):
    import yaml
    words = []
    for key, value in yaml.safe_load(Path(path).read_text()).items():
        words.append(f"--{key}")
        words += [str(each) for each in value] if isinstance(value, list) else [str(value)]
    return words


PARSERS = {"axolotl": (axolotl, "axolotl"), "llama_factory": (llama_factory, "llamafactory"), "trl": (trl, "trl"), "swift": (swift, "ms_swift"),
           "training_arguments": (transformers, "transformers"), "torchtune": (torchtune, "torchtune"), "accelerate": (accelerate, "accelerate")}


def main():
    failed = 0
    for path in [os.path.abspath(each) for each in sys.argv[1:]]:
        os.chdir(os.path.dirname(path))  # paths in a recipe are relative to where it is started
        found = sorted((each for each in PARSERS if each in Path(path).name), key=lambda each: each != "accelerate")
        if not found:
            continue
        parse, package = PARSERS[found[0]]
        try:
            release = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{os.path.basename(path)}: {package} is not installed")
            continue
        try:
            print(f"{os.path.basename(path)}: {package} {release}: {parse(path)}")
        except (Exception, SystemExit) as error:  # whatever a parser raises is its verdict
            failed += 1
            print(f"{os.path.basename(path)}: {package} {release}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
