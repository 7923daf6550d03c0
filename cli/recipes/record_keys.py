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
    "llama-factory-v1": (["llamafactory"], ["llamafactory/v1/config/*.py", "llamafactory/v1/plugins/model_plugins/peft.py", "llamafactory/v1/plugins/model_plugins/quantization.py"]),
    "axolotl": (["axolotl"], ["axolotl/utils/schemas/*.py", "axolotl/integrations/*/args.py"]),
    "swift": (["ms_swift"], ["swift/arguments/*.py", "swift/arguments/base_args/*.py", "swift/trainers/arguments.py", "swift/rlhf_trainers/arguments.py", "swift/rlhf_trainers/args_mixin.py",
                             "swift/llm/argument/*.py", "swift/llm/argument/base_args/*.py", "swift/trainers/rlhf_arguments.py", "swift/trainers/rlhf_trainer/args_mixin.py",
                             "transformers/training_args.py", "transformers/training_args_seq2seq.py"]),
    "swift-megatron": (["ms_swift"], ["swift/megatron/arguments/*.py", "swift/arguments/base_args/*.py"]),
    # Megatron's parser: options that it adds by hand, and fields of the classes that it makes options of.
    "megatron-lm": (["megatron_core"], ["megatron/training/arguments.py", "megatron/training/config/*.py", "megatron/core/transformer/transformer_config.py",
                                        "megatron/core/model_parallel_config.py"]),
    "accelerate": (["accelerate"], ["accelerate/commands/config/config_args.py", "accelerate/commands/config/cluster.py"]),
    "torchtitan": (["torchtitan"], ["torchtitan/config/job_config.py", "torchtitan/config_manager.py"]),
    # torchtune takes any key: known are those that its recipes read, and those of the configs that it comes with.
    "torchtune": (["torchtune"], ["recipes/configs/**/*.yaml", "recipes/*.py", "recipes/dev/*.py"]),
}

# Keys that older releases had and people's files still have: transformers 4.57, axolotl's sections of FSDP1.
TRAINING_ARGUMENTS = ("warmup_ratio evaluation_strategy overwrite_output_dir logging_dir tokenizer no_cuda push_to_hub_token save_safetensors "
                      "half_precision_backend per_gpu_train_batch_size fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap group_by_length "
                      "include_inputs_for_metrics dispatch_batches split_batches jit_mode_eval use_ipex fp16_backend fp16_opt_level torchdynamo ray_scope").split()
# Keys of data, logging and rewards of scripts over TRL and TrainingArguments: alignment-handbook and open-r1 scripts/, src/*/configs.py; arguments
# of accelerate launch, which TRL takes from the same file; MedicalGPT training/*.py; Qwen-VL-Series-Finetune src/params.py.
SCRIPTS = ("dataset_mixer dataset_mixture dataset_splits dataset_configs dataset_id_or_path preprocessing_num_workers auto_insert_empty_system_msg "
           "tokenizer_name_or_path chat_template model_code_revision base_model_revision hub_model_revision overwrite_hub_revision push_to_hub_revision "
           "wandb_entity wandb_project wandb_run_group benchmarks callbacks system_prompt dataset_prompt_column reward_funcs cosine_min_value_wrong "
           "cosine_max_value_wrong cosine_min_value_correct cosine_max_value_correct cosine_max_len repetition_n_grams repetition_max_penalty code_language "
           "code_eval_test_batch_size code_provider e2b_router_url parallel_code_exec_per_proc gamma_beta_ratio simpo_gamma cpo_alpha rpo_alpha "
           "tokenizer_revision trl_project config_file machine_rank main_process_ip main_process_port main_training_function rdzv_backend same_network "
           "train_file_dir validation_file_dir max_train_samples max_eval_samples train_samples tool_format template_name cache_dir model_revision "
           "use_fast_tokenizer data_path image_folder eval_path eval_image_folder lazy_preprocess merger_lr vision_lr head_lr lora_namespan_exclude "
           "lora_weight_path image_min_pixels video_min_pixels fps nframes lora_bias lora_alpha opd_lambda opd_beta orpo_beta dpo_loss max_new_tokens vllm_enforce_eager vllm_max_model_len vllm_dtype image_root").split()
# Keys of sections that v1's plugins read without declaring them. Source: v1/plugins/trainer_plugins/, v1/plugins/model_plugins/kernels/.
SECTIONS = ("dcp_path pin_memory reshard_after_forward offload_params config_file ep_size ep_dispatcher wd momentum nesterov ns_steps adamw_betas adamw_eps lr "
            "include_kernels chunk_size use_kernels require_logits num_warmup_steps").split()
OLDER = {"transformers": TRAINING_ARGUMENTS + SCRIPTS, "llama-factory": TRAINING_ARGUMENTS, "swift": TRAINING_ARGUMENTS,
         "llama-factory-v1": SECTIONS,
         "axolotl": "sharding_strategy limit_all_gathers forward_prefetch backward_prefetch debug eta_min model_config gptq_groupsize gptq_model_v1".split()}


def fields(path):
    if path.suffix == ".yaml":
        yield from re.findall(r"^ *(\w+):", path.read_text(), re.M)
        return
    if path.parts[-2] == "recipes" or path.parts[-3:-1] == ("recipes", "dev"):  # what a recipe reads of its config
        yield from re.findall(r'\bcfg\.get\(\s*"(\w+)"', path.read_text())
        yield from (key for key in re.findall(r"\bcfg\.(\w+)", path.read_text()) if key != "get")
        return
    if path.name == "arguments.py" and path.parts[-3:-1] == ("megatron", "training"):
        yield from (flag.replace("-", "_") for flag in re.findall(r"add_argument\(\s*'--([a-z0-9-]+)'", path.read_text()))
        return
    if path.name == "cluster.py":  # accelerate's questionnaire: keys of sections are strings
        yield from re.findall(r'"((?:fsdp|deepspeed|zero|zero3|offload|gradient|parallelism_config|dynamo|mpirun)_\w+)"', path.read_text())
        return
    if "megatron" in path.parts:  # names of options that differ from their fields
        yield from (flag.replace("-", "_") for flag in re.findall(r'"--([a-z0-9-]+)"', path.read_text()))
    yield from re.findall(r'alias=(?:AliasChoices\(\s*)?"(\w+)"', path.read_text())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
                    yield each.target.id
                    if "swift" not in path.parts and "megatron" in path.parts and isinstance(each.value, ast.Constant) and each.value.value is True:
                        yield f"no_{each.target.id}"  # the switch of a field that is true


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
