"""Writes transformers.json: the parameters that transformers counts for every model of the catalogue.

    python generate.py

Models are built on the meta device from the catalogue's configs, so nothing is allocated or downloaded.
Architectures whose code comes with their weights are left out: transformers has no module of its own for them.
"""
import json
import pathlib

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

HERE = pathlib.Path(__file__).parent
CATALOGUE = HERE.parents[2] / "models" / "catalogue"
REMOTE_CODE = {
    "bailing_moe", "baichuan", "chatglm", "deepseek", "exaone", "internlm", "internlm2", "internvl_chat", "kimi_k2", "kimi_vl", "mimo",
    "minicpm", "nemotron-nas", "orion", "qwen",
}


def count(config):
    given = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    given["pad_token_id"] = 0  # some defaults lie outside small vocabularies
    if config["model_type"] == "exaone4" and given.get("sliding_window") is None:
        given["layer_types"] = ["full_attention"] * given["num_hidden_layers"]
    if config["model_type"] == "beam":
        given["rope_parameters"] = {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}
    classes = [AutoModelForCausalLM, AutoModelForImageTextToText]
    as_config = AutoConfig.for_model(config["model_type"], **given)
    taken = [each for each in (classes[::-1] if "vision_config" in config else classes) if type(as_config) in each._model_mapping]
    with torch.device("meta"):
        model = taken[0].from_config(as_config) if taken else getattr(transformers, config["architectures"][0])(as_config)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    entries = [entry for file in sorted(CATALOGUE.glob("*.json")) if not file.name.endswith("schema.json")
               for entry in json.loads(file.read_text())]
    native = [entry for entry in entries if entry["config"]["model_type"] not in REMOTE_CODE]
    totals = {entry["name"]: count(entry["config"]) for entry in sorted(native, key=lambda entry: entry["name"])}
    document = {"transformers": transformers.__version__, "torch": torch.__version__, "parameters": totals}
    (HERE / "transformers.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
