#!/usr/bin/env python3
"""Records in known_keys.json which keys each project's own parser knows, from the installed packages' sources: nothing is imported.

usage: record_keys.py SITE_PACKAGES…
Fields of the classes below, and of their bases where these are in the same list, are keys of a recipe.
"""
import ast
import json
import re
import sys
from pathlib import Path

# Project: packages whose releases are recorded, and files (globs below a site-packages) all of whose classes count.
PROJECTS = {
    "transformers": (["transformers", "trl"], ["transformers/training_args.py", "trl/trainer/*_config.py", "trl/scripts/utils.py"]),
    "llama-factory": (["llamafactory"], ["llamafactory/hparams/*.py", "transformers/training_args.py", "transformers/training_args_seq2seq.py"]),
    "axolotl": (["axolotl"], ["axolotl/utils/schemas/*.py", "axolotl/integrations/*/args.py"]),
    "swift": (["ms_swift"], ["swift/arguments/*.py", "swift/arguments/base_args/*.py", "swift/trainers/arguments.py", "swift/rlhf_trainers/arguments.py",
                             "transformers/training_args.py", "transformers/training_args_seq2seq.py"]),
    "accelerate": (["accelerate"], ["accelerate/commands/config/config_args.py", "accelerate/commands/config/cluster.py"]),
    # torchtune takes any key: known are those of the configs that it comes with.
    "torchtune": (["torchtune"], ["recipes/configs/**/*.yaml"]),
}

# Keys that older releases had and people's files still have: transformers 4.57, axolotl's sections of FSDP1.
TRAINING_ARGUMENTS = ("warmup_ratio evaluation_strategy overwrite_output_dir logging_dir tokenizer no_cuda push_to_hub_token save_safetensors "
                      "half_precision_backend per_gpu_train_batch_size fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap group_by_length "
                      "include_inputs_for_metrics dispatch_batches split_batches jit_mode_eval use_ipex fp16_backend fp16_opt_level torchdynamo ray_scope").split()
OLDER = {"transformers": TRAINING_ARGUMENTS, "llama-factory": TRAINING_ARGUMENTS, "swift": TRAINING_ARGUMENTS,
         "axolotl": "sharding_strategy limit_all_gathers forward_prefetch backward_prefetch debug eta_min model_config gptq_groupsize gptq_model_v1".split()}


def fields(path):
    if path.suffix == ".yaml":
        yield from re.findall(r"^ *(\w+):", path.read_text(), re.M)
        return
    if path.name == "cluster.py":  # accelerate's questionnaire: keys of sections are strings
        yield from re.findall(r'"((?:fsdp|deepspeed|zero|zero3|offload|gradient|parallelism_config|dynamo|mpirun)_\w+)"', path.read_text())
        return
    yield from re.findall(r'alias=(?:AliasChoices\(\s*)?"(\w+)"', path.read_text())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
                    yield each.target.id


def releases(packages, folders):
    found = {}
    for package in packages:
        for folder in folders:
            for info in sorted(folder.glob(f"{package}-*.dist-info")):
                found.setdefault(package, info.name[len(package) + 1:-len(".dist-info")])
    return found


def main():
    folders = [Path(each) for each in sys.argv[1:]]
    known = {}
    for project, (packages, globs) in PROJECTS.items():
        keys = set(OLDER.get(project, ()))
        for folder in folders:
            for pattern in globs:
                for path in sorted(folder.glob(pattern)):
                    keys.update(fields(path))
        known[project] = {"releases": releases(packages, folders), "keys": sorted(keys)}
    # A field a line would be long: words in one string, in order.
    text = {project: {"releases": each["releases"], "keys": " ".join(each["keys"])} for project, each in known.items()}
    Path(__file__).with_name("known_keys.json").write_text(json.dumps(text, indent=1) + "\n")


main()
