"""Peaks of litgpt's training loop with its own modules, on a stand-in for the CUDA runtime that launches no kernel: writes memory.json.

usage: record.py LITGPT   (under the stand-in; LITGPT: its sources of September 2024, commit e7e8f7cf, the last before StableEmbedding)

The micro-steps of finetune/lora.py fit(), written out with its variables: `logits` and `loss` live until the next micro-step's replace
them. Lightning Fabric's precision plugin widens logits behind the forward (convert_output). The 4-bit layer is that of bitsandbytes 0.42,
written out (autograd/_functions.py MatMul4Bit, nn/modules.py Linear4bit): its context keeps the input as an attribute; Fabric packs from
fp16 (plugins/precision/bitsandbytes.py quantize), so that a weight is unpacked in fp16 and cast. conv1d, which needs cuDNN, is a matrix
product. Configurations and options are those of the published rows named in CASES (../published/memory.json)."""
import json
import pathlib
import subprocess
import sys
import types

HERE = pathlib.Path(__file__).resolve().parent
# Row of ../published/memory.json, model in litgpt's words, tokens a sample.
CASES = [("m126", "Gemma-2b", 512), ("m128", "Gemma-2b", 512), ("m132", "Gemma-2-2b", 512), ("m133", "Gemma-2-2b", 512),
         ("m147", "Llama-3.1-8B", 512), ("m152", "Llama-3.2-3B", 512), ("m153", "Llama-3.2-3B", 512), ("m159", "Mistral-7B-v0.1", 512),
         ("m161", "phi-2", 512), ("m166", "Phi-3-mini-4k-instruct", 512), ("m122", "falcon-7b", 512), ("m124", "falcon-7b", 512),
         ("m168", "stablelm-base-alpha-3b", 512), ("m173", "tiny-llama-1.1b", 512), ("m136", "Gemma-2-9b", 512)]


def published(name):
    rows = json.loads((HERE / "../published/memory.json").read_text(encoding="utf-8"))
    return next(row for row in rows if row["id"] == name)


def four_bit_layer(torch):
    def unpacked(layer):
        return torch.empty(layer.out_features, layer.in_features, dtype=torch.float16, device="cuda").to(torch.bfloat16)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, packed, bias, layer):
            result = torch.nn.functional.linear(x, unpacked(layer), bias)
            ctx.layer = layer
            ctx.tensors = (x, packed) if any(ctx.needs_input_grad[:2]) else (None, None)
            return result

        @staticmethod
        def backward(ctx, gradient):
            return (torch.matmul(gradient, unpacked(ctx.layer)) if ctx.needs_input_grad[0] else None), None, None, None

    class Linear4bit(torch.nn.Module):
        def __init__(self, in_features, out_features, bias=True, **_):
            super().__init__()
            self.in_features, self.out_features = in_features, out_features
            self.weight = torch.nn.Parameter(torch.empty(in_features * out_features // 2, 1, dtype=torch.uint8), requires_grad=False)
            self.absmax = torch.empty(-(-in_features * out_features // 64), dtype=torch.float32)
            self.code = torch.empty(16, dtype=torch.float32)
            self.bias = torch.nn.Parameter(torch.empty(out_features, dtype=torch.bfloat16)) if bias else None

        def forward(self, x):
            return Product.apply(x, self.weight.t(), self.bias, self)

    return Linear4bit


def record(sources, name, model_name, tokens):
    import torch
    package = types.ModuleType("litgpt")  # without what its __init__ imports
    package.__path__ = [f"{sources}/litgpt"]
    sys.modules["litgpt"] = package
    import litgpt.model  # noqa: F401, before litgpt.config
    from litgpt.lora import GPT, Config, mark_only_lora_as_trainable
    from litgpt.utils import chunked_cross_entropy
    torch.set_num_threads(1)

    def product(x, weight, *_, groups=1):
        slices = x.view(x.size(0), groups, -1, x.size(2))
        return torch.matmul(weight.view(groups, -1, weight.size(1)), slices).flatten(1, 2)

    torch.nn.functional.conv1d = product
    row = published(name)
    options = row["options"]
    targets = options["lora_targets"]
    config = Config.from_name(model_name, lora_r=options["lora_rank"], lora_alpha=16, lora_dropout=0.05, lora_query="q_proj" in targets,
                              lora_key="k_proj" in targets, lora_value="v_proj" in targets, lora_projection="o_proj" in targets,
                              lora_mlp=any(each in targets for each in ("up_proj", "fc1")), lora_head="lm_head" in targets)
    linear = torch.nn.Linear
    torch.set_default_dtype(torch.bfloat16)
    if options["method"] == "qlora":
        torch.nn.Linear = four_bit_layer(torch)
    with torch.device("cuda"):
        model = GPT(config)
    torch.nn.Linear = linear
    torch.set_default_dtype(torch.float32)
    mark_only_lora_as_trainable(model)
    model.max_seq_length = tokens
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=True)

    def forward(ids):
        torch.set_default_dtype(torch.bfloat16)  # Fabric's forward_context
        output = model(ids, lm_head_chunk_size=128)
        torch.set_default_dtype(torch.float32)
        return [each.float() for each in output]

    ids = torch.zeros(options["micro_batch"], tokens, dtype=torch.long, device="cuda")
    for step in range(4):
        torch.cuda.reset_peak_memory_stats()
        logits = forward(ids)
        logits[-1] = logits[-1][..., :-1, :]
        loss = chunked_cross_entropy(logits, ids[..., 1:])
        (loss / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    peak = torch.cuda.max_memory_allocated()
    row.update(id="litgpt-" + name, source="litgpt on a stand-in for a GPU", source_ref="litgpt finetune/lora.py fit @e7e8f7cf", remarks="",
               assumed=[], gpu={"name": None, "memory_bytes": None}, grade="A", doubtful=None,
               measured={"bytes_low": peak, "bytes_high": peak, "statistic": "allocated", "per": "gpu"})
    options.update(seq=tokens, seq_exact=True, grad_accum=2)
    options.pop("lora_parameters", None)
    return row


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(record(sys.argv[1], *CASES[int(sys.argv[2])])))
    else:
        rows = []
        for i in range(len(CASES)):
            made = subprocess.run([sys.executable, __file__, sys.argv[1], str(i)], capture_output=True, text=True)
            if made.returncode:
                print(CASES[i], made.stderr.strip().splitlines()[-1], file=sys.stderr)
            else:
                rows.append(made.stdout.strip().splitlines()[-1])
        (HERE / "memory.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
