"""Writes families.json: elements of every tensor on every rank after DeepSpeed's AutoTP. See README.md.

    python generate.py

CPU and gloo; small models of the configs in FAMILIES, tensor parallelism of 2 and 4.
"""
import json
import os
import pathlib
import socket

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import deepspeed  # noqa: E402
import deepspeed.comm.torch  # noqa: E402
import torch  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

deepspeed.comm.torch.build_shm_op = lambda: None  # gloo does; the compiled operation would stay in shared memory
HERE = pathlib.Path(__file__).parent
BASE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=160)
DENSE = dict(BASE, intermediate_size=96)
GROUPED = dict(DENSE, num_key_value_heads=2)
WIDE = dict(GROUPED, head_dim=24)
LATENT = dict(DENSE, num_hidden_layers=2, kv_lora_rank=24, q_lora_rank=40, qk_nope_head_dim=16, qk_rope_head_dim=8,
              v_head_dim=12, moe_intermediate_size=20, n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=2,
              first_k_dense_replace=1, n_group=2, topk_group=1)
EXPERTS = dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20)
GPT = dict(n_embd=64, n_layer=2, n_head=4, vocab_size=160, n_positions=32)
FAMILIES = {
    "llama": [dict(GROUPED, attention_bias=True, mlp_bias=True), WIDE],
    "mistral": [GROUPED], "qwen2": [GROUPED, dict(GROUPED, tie_word_embeddings=True)], "qwen3": [WIDE],
    "gemma": [dict(GROUPED, head_dim=24)], "gemma2": [dict(GROUPED, head_dim=24)],
    "gemma3_text": [dict(GROUPED, head_dim=24)], "phi": [DENSE], "phi3": [dict(GROUPED, pad_token_id=0)],
    "gpt2": [GPT], "gpt_neox": [DENSE], "opt": [dict(BASE, ffn_dim=96, max_position_embeddings=32)],
    "falcon": [BASE, dict(BASE, new_decoder_architecture=True, num_kv_heads=2)],
    "bloom": [dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=160)],
    "mixtral": [dict(GROUPED, num_local_experts=4)], "qwen2_moe": [EXPERTS], "qwen3_moe": [dict(EXPERTS, head_dim=24)],
    "deepseek_v2": [LATENT], "deepseek_v3": [LATENT],
    "glm": [dict(GROUPED, head_dim=16, pad_token_id=0)], "glm4": [dict(GROUPED, head_dim=16, pad_token_id=0)],
    "gpt_oss": [dict(GROUPED, head_dim=24, num_local_experts=4, num_experts_per_tok=2)],
    "olmo2": [GROUPED], "olmo": [GROUPED], "granite": [GROUPED], "smollm3": [dict(GROUPED, pad_token_id=0)],
    "stablelm": [GROUPED], "starcoder2": [GROUPED], "cohere": [GROUPED],
    "mpt": [dict(d_model=64, n_layers=2, n_heads=4, vocab_size=160, max_seq_len=32)],
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def sharded(family, given, ranks):
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **given)).to(torch.bfloat16)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(),
        config={"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
                "tensor_parallel": {"autotp_size": ranks}, "zero_optimization": {"stage": 0},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}})
    return {name: tensor.numel() for name, tensor in engine.module.named_parameters()}


def work(rank, ranks, port, family, given, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank),
                      WORLD_SIZE=str(ranks))
    try:
        deepspeed.init_distributed(dist_backend="gloo")
        results[rank] = sharded(family, given, ranks)
    except BaseException as error:  # the reason is part of the record
        results[rank] = f"{type(error).__name__}: {error}"


def record(family, given, ranks):
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        results, port = manager.dict(), free_port()
        workers = [context.Process(target=work, args=(rank, ranks, port, family, given, results))
                   for rank in range(ranks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            if worker.is_alive():
                worker.kill()
        return [results.get(rank) for rank in range(ranks)]


def record_with_patience(family, given, ranks):
    """Connections between forked workers sometimes break; what DeepSpeed itself refuses, it refuses again."""
    for _ in range(4):
        held = record(family, given, ranks)
        if not any(each is None or "DistNetworkError" in each or "DistStoreError" in each for each in held):
            break
    return held


def main():
    rows, refused = [], []
    for family, configs in FAMILIES.items():
        for given in configs:
            for ranks in (2, 4):
                held = record_with_patience(family, given, ranks)
                config = dict(given, model_type=family)
                if all(isinstance(each, dict) for each in held):
                    rows.append({"config": config, "tensor_parallel": ranks,
                                 "elements": {name: [each.get(name) for each in held] for name in held[0]}})
                    print(family, ranks, "ok", flush=True)
                else:
                    reason = next((each for each in held if not isinstance(each, dict)), None)
                    refused.append({"config": config, "tensor_parallel": ranks, "reason": reason})
                    print(family, ranks, "refused", str(reason)[:200], flush=True)
    versions = {"deepspeed": deepspeed.__version__, "transformers": transformers.__version__,
                "torch": torch.__version__}
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    reasons = ",\n".join("  " + json.dumps(row) for row in refused)
    (HERE / "families.json").write_text(
        f'{{"versions": {json.dumps(versions)},\n "runs": [\n{body}\n ],\n "refused": [\n{reasons}\n ]}}\n')


if __name__ == "__main__":
    main()
