"""Records what one training micro-step computes: python record.py OUT.json [CASE …]

Each model is built from its config on the GPU and runs one forward with loss and one backward under a
TorchDispatchMode, which sees every operator below autograd, those of the backward and of recomputation among them.
Needs torch, transformers and peft; a GPU or a stand-in for the CUDA runtime that runs no kernels (see README.md)."""
import collections, contextlib, json, os, sys, warnings

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

# ---- what an operator reads and writes ----------------------------------------------------------------------------


def covered(x):
    """Bytes of memory that a tensor covers: what is broadcast is there once."""
    elements = 1
    for size, stride in zip(x.shape, x.stride()):
        elements *= size if stride != 0 else min(size, 1)
    return elements * x.element_size()


def tensors(values):
    """The tensors among an operator's arguments or results, each once."""
    seen, found = set(), []
    for each in tree_leaves(values):
        if isinstance(each, torch.Tensor) and each.numel() > 0:
            key = each.data_ptr(), tuple(each.shape), tuple(each.stride()), each.dtype
            if key not in seen:
                seen.add(key)
                found.append(each)
    return found


def bytes_of(*values):
    return sum(covered(each) for each in tensors(values))


# Allocates, or asks about a tensor: no kernel.
SILENT = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "detach_", "_unsafe_view",
          "_reshape_alias", "lift_fresh", "is_same_size", "sym_size", "set_", "record_stream"}

# One name of each product: its factors' places among the arguments.
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "_grouped_mm": (0, 1)}


def product_of(name, args):
    """[batch, rows, inner, columns, bytes of an element]"""
    a, b = (args[i] for i in PRODUCTS[name])
    size = a.element_size()
    if name == "_grouped_mm":
        offsets = args[2]
        groups = offsets.numel()
        if a.dim() == 2 and b.dim() == 3:
            return [groups, -(-a.shape[0] // groups), a.shape[1], b.shape[2], size]
        if a.dim() == 2 and b.dim() == 2:
            return [groups, a.shape[0], -(-a.shape[1] // groups), b.shape[1], size]
        raise NotImplementedError
    batch = a.shape[0] if a.dim() == 3 else 1
    return [batch, a.shape[-2], a.shape[-1], b.shape[-1], size]


def is_turned_badly(x):
    """A batch of matrices that cuBLAS cannot take as it lies: copied first."""
    rows, columns = x.stride()[-2:]
    return not (columns == 1 and rows >= x.shape[-1]) and not (rows == 1 and columns >= x.shape[-2])


def copies_of_product(name, args, out):
    """Bytes that copies take: of operands that cuBLAS cannot take as they lie, and of what a product is added to."""
    if name not in ("bmm", "baddbmm"):
        return 0
    addend = covered(args[0]) + covered(out) if name == "baddbmm" else 0
    turned = [args[i] for i in PRODUCTS[name] if is_turned_badly(args[i])]
    return addend + sum(covered(each) + each.numel() * each.element_size() for each in turned)


def moved(name, args, kwargs, out):
    """Bytes read, bytes written, kernels: those of the CUDA operator, which are not always its arguments and results
    once. Source: torch 2.11 aten/src/ATen/native."""
    written = bytes_of(out)
    read = bytes_of(args, kwargs)
    first = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if name in ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "arange", "new_zeros", "new_ones",
                "new_full", "scalar_tensor", "zero_", "fill_", "zero", "randperm"):
        return 0, written, 1
    if name == "copy_":
        return bytes_of(args[1]), bytes_of(first), 1
    if name in ("slice_backward", "select_backward"):  # zeros, then the slice
        part = bytes_of(first)
        return part, written + part, 2
    if name in ("embedding", "index_select", "gather"):  # rows of the table
        places = args[1] if name == "embedding" else args[2]
        return written + bytes_of(places), written, 1
    if name == "index":  # places by kind of index: whole numbers only
        return written + bytes_of(args[1]), written, 1
    # Where no mode looks on, backwards scatter and put in place what they do here in a copy.
    if name in ("scatter", "scatter_", "scatter_add_"):
        part = bytes_of(args[2]) + (bytes_of(args[3]) if isinstance(args[3], torch.Tensor) else 0)
        return part, args[2].numel() * out.element_size(), 1
    if name in ("index_put", "index_put_"):
        places, values = bytes_of(args[1]), bytes_of(args[2])
        accumulates = len(args) > 3 and args[3]
        if not accumulates:
            return places + values, values, 1
        # Rows are added where they belong, by places that were sorted before.
        return places + 2 * values, values, 1
    if name == "embedding_dense_backward":  # zeros, then rows are added where they belong
        rows = bytes_of(first)
        return bytes_of(args[1]) + 2 * rows, written + rows, 2
    if name == "_safe_softmax":  # then zeros in rows without any score
        flags, rows = out.numel(), out.numel() // out.shape[-1]
        return 2 * bytes_of(first) + flags + rows + written, 2 * written + flags + rows, 5
    if name == "_softmax_backward_data":  # gradient · result in memory of its own, then both
        size = bytes_of(args[1])
        return bytes_of(first) + 3 * size, written + size, 2
    if name == "native_layer_norm_backward":  # gradients of the input and of the weights are kernels of their own
        mask = args[7] if len(args) > 7 else kwargs["output_mask"]
        both = bytes_of(first, args[1])
        kernels = int(mask[0]) + int(mask[1] or mask[2])
        return read + both * (kernels - 1), written, kernels
    if name == "nll_loss_forward":  # one of each row
        return 2 * bytes_of(args[1]), written, 1
    if name == "nll_loss_backward":  # zeros, then one of each row
        return bytes_of(args[2]), written + bytes_of(args[2]), 2
    return read, written, 1


def attention_of(schema, args, kwargs):
    """[batch, heads, queries, keys, features of a key, features of a value, causal, backward]"""
    backward = schema.name.endswith("backward")
    q, k, v = args[1:4] if backward else args[:3]
    arguments = dict(zip((each.name for each in schema.arguments), args), **kwargs)
    return [*q.shape[:3], k.shape[2], k.shape[3], v.shape[3], int(arguments.get("is_causal", False)), int(backward)]


class Notes(TorchDispatchMode):
    """Sums by phase: 0 forward and loss, 1 backward."""

    def __init__(self):
        super().__init__()
        self.phase = 0
        self.list = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name.split("::")[1]
        out = function(*args, **kwargs)
        # Engine and Python alike come by here; the engine computes no gradients of gradients. A result that is
        # saved passes by detached where a mode looks on; Python itself detaches what is computed again.
        from_python = self.phase == 0 or torch.is_grad_enabled()
        if name == "detach" and not sys._getframe(1).f_code.co_filename.endswith("checkpoint.py"):
            from_python = False
        note = dict(name=name, python=from_python, phase=self.phase)
        if function.is_view or name in SILENT or function.namespace == "c10d":
            note["kind"] = "view"
        elif name in PRODUCTS:
            note.update(kind="product", product=product_of(name, args), copies=copies_of_product(name, args, out))
        elif "attention" in name and name.startswith("_scaled"):
            note.update(kind="attention", attention=attention_of(function._schema, args, kwargs),
                        behind=behind_attention(name, args))
        else:
            read, written, kernels = moved(name, args, kwargs, out)
            note.update(kind="kernel", read=read, written=written, kernels=kernels)
        self.list.append(note)
        return out


def behind_attention(name, args):
    """Bytes that other kernels of the same operator move. Flash attention's backward copies what does not lie token
    by token, and makes gradients of keys and values per query head, then sums those of heads that share one."""
    if name != "_scaled_dot_product_flash_attention_backward":
        return 0
    gradient, q, k = args[:3]
    size = sum(2 * covered(each) for each in (gradient, args[4]) if not each.transpose(1, 2).is_contiguous())
    if q.shape[1] == k.shape[1]:
        return size
    one = covered(k)
    return size + 2 * (one * (q.shape[1] // k.shape[1]) + one)


# ---- cases --------------------------------------------------------------------------------------------------------


def llama(**more):
    return dict(model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=2,
                num_attention_heads=32, num_key_value_heads=8, vocab_size=8192) | more


def qwen3_moe(**more):
    return dict(model_type="qwen3_moe", hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768,
                num_hidden_layers=2, num_attention_heads=32, num_key_value_heads=4, head_dim=128, vocab_size=8192,
                num_experts=8, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                **more)


QWEN3 = dict(model_type="qwen3", hidden_size=2560, intermediate_size=9728, num_hidden_layers=2, num_attention_heads=32,
             num_key_value_heads=8, head_dim=128, vocab_size=8192, tie_word_embeddings=True)
MISTRAL = llama(model_type="mistral", sliding_window=512)
GEMMA2 = dict(model_type="gemma2", hidden_size=2304, intermediate_size=9216, num_hidden_layers=2, num_attention_heads=8,
              num_key_value_heads=4, head_dim=256, vocab_size=8192, tie_word_embeddings=True, sliding_window=512)
GPT2 = dict(model_type="gpt2", n_embd=1280, n_layer=2, n_head=20, vocab_size=8192, n_positions=1024)
NEOX = dict(model_type="gpt_neox", hidden_size=2560, intermediate_size=10240, num_hidden_layers=2,
            num_attention_heads=32, vocab_size=8192, max_position_embeddings=2048)
PHI3 = dict(model_type="phi3", hidden_size=3072, intermediate_size=8192, num_hidden_layers=2, num_attention_heads=32,
            num_key_value_heads=32, vocab_size=8192, max_position_embeddings=4096,
            original_max_position_embeddings=4096, pad_token_id=0)
OPT = dict(model_type="opt", hidden_size=2048, ffn_dim=8192, num_hidden_layers=2, num_attention_heads=32,
           vocab_size=8192, max_position_embeddings=2048, word_embed_proj_dim=2048)
BLOOM = dict(model_type="bloom", hidden_size=2048, n_layer=2, n_head=16, vocab_size=8192)
MIXTRAL = dict(model_type="mixtral", hidden_size=2048, intermediate_size=7168, num_hidden_layers=2,
               num_attention_heads=32, num_key_value_heads=8, vocab_size=8192, num_local_experts=8,
               num_experts_per_tok=2)
FALCON = dict(model_type="falcon", hidden_size=2048, num_hidden_layers=2, num_attention_heads=32, vocab_size=8192)
MPT = dict(model_type="mpt", d_model=2048, n_heads=16, n_layers=2, vocab_size=8192, max_seq_len=1024)
COHERE = llama(model_type="cohere", intermediate_size=11008, pad_token_id=0, tie_word_embeddings=True)
GLM = llama(model_type="glm", num_key_value_heads=4, head_dim=128, intermediate_size=13696, pad_token_id=0)
OLMO2 = llama(model_type="olmo2", hidden_size=2048, intermediate_size=8192, num_attention_heads=16,
              num_key_value_heads=16)
STABLELM = dict(model_type="stablelm", hidden_size=2560, intermediate_size=6912, num_hidden_layers=2,
                num_attention_heads=32, num_key_value_heads=32, vocab_size=8192)
GEMMA3 = dict(model_type="gemma3_text", hidden_size=1152, intermediate_size=6912, num_hidden_layers=7,
              num_attention_heads=4, num_key_value_heads=1, head_dim=256, vocab_size=8192, sliding_window=512)
GPT_OSS = dict(model_type="gpt_oss", hidden_size=2880, intermediate_size=2880, num_hidden_layers=2,
               num_attention_heads=64, num_key_value_heads=8, head_dim=64, vocab_size=8192, num_local_experts=8,
               num_experts_per_tok=4, sliding_window=128)
DEEPSEEK_V3 = dict(model_type="deepseek_v3", hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768,
                   num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=16, vocab_size=8192,
                   n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1, n_group=8, topk_group=4,
                   first_k_dense_replace=1, q_lora_rank=768, kv_lora_rank=512, qk_nope_head_dim=128,
                   qk_rope_head_dim=64, v_head_dim=128)
QWEN2_MOE = dict(model_type="qwen2_moe", hidden_size=2048, intermediate_size=5632, moe_intermediate_size=1408,
                 shared_expert_intermediate_size=5632, num_hidden_layers=2, num_attention_heads=16,
                 num_key_value_heads=16, vocab_size=8192, num_experts=12, num_experts_per_tok=4, norm_topk_prob=False,
                 decoder_sparse_step=1)
NEMOTRON = llama(model_type="nemotron", hidden_size=2048, intermediate_size=8192, num_attention_heads=16)
ERNIE = llama(model_type="ernie4_5", hidden_size=2048, intermediate_size=8192, num_attention_heads=16,
              num_key_value_heads=4, head_dim=128, pad_token_id=0)
DEEPSEEK_V2 = dict(model_type="deepseek_v2", hidden_size=2048, intermediate_size=6144, moe_intermediate_size=1408,
                   num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=16, vocab_size=8192,
                   n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=2, first_k_dense_replace=1,
                   kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, q_lora_rank=768,
                   n_group=8, topk_group=3, topk_method="group_limited_greedy", norm_topk_prob=False)
MINIMAX = dict(model_type="minimax_m2", hidden_size=2048, num_hidden_layers=2, num_attention_heads=16,
               num_key_value_heads=4, head_dim=128, vocab_size=8192, intermediate_size=1024, num_local_experts=16,
               num_experts_per_tok=4, rotary_dim=64)
BIGCODE = dict(model_type="gpt_bigcode", n_embd=2048, n_layer=2, n_head=16, vocab_size=8192, n_positions=1024)
PHI = dict(model_type="phi", hidden_size=2560, intermediate_size=10240, num_hidden_layers=2, num_attention_heads=32,
           vocab_size=8192)
GRANITE = llama(model_type="granite", hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
                embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0, attention_multiplier=0.015625)
STARCODER2 = dict(model_type="starcoder2", hidden_size=3072, intermediate_size=12288, num_hidden_layers=2,
                  num_attention_heads=24, num_key_value_heads=2, vocab_size=8192, sliding_window=4096)

CASES = {
    "llama": dict(config=llama(), batch=1, sequence=1024, attention="sdpa"),
    "llama_vocabulary": dict(config=llama(vocab_size=128256), batch=1, sequence=1024, attention="sdpa"),
    "llama_batch": dict(config=llama(), batch=2, sequence=512, attention="sdpa"),
    "llama_checkpointing": dict(config=llama(), batch=2, sequence=512, attention="sdpa",
                                checkpointing="non-reentrant"),
    "llama_eager": dict(config=llama(), batch=1, sequence=512, attention="eager"),
    "llama_eager_checkpointing": dict(config=llama(), batch=2, sequence=512, attention="eager",
                                      checkpointing="non-reentrant"),
    "llama_autocast": dict(config=llama(), batch=1, sequence=512, attention="sdpa", autocast=True),
    "llama_padding_mask": dict(config=llama(), batch=2, sequence=512, attention="sdpa", padding_mask=True),
    "llama_lora": dict(config=llama(), batch=1, sequence=1024, attention="sdpa", lora="q_v", lora_dropout=0.05),
    "llama_lora_all_checkpointing": dict(config=llama(), batch=1, sequence=1024, attention="sdpa", lora="all-linear",
                                         lora_dropout=0.05, checkpointing="non-reentrant"),
    "llama_lora_bf16": dict(config=llama(), batch=2, sequence=512, attention="sdpa", lora="all-linear",
                            fp32_adapters=False),
    "qwen3": dict(config=QWEN3, batch=1, sequence=1024, attention="sdpa"),
    "qwen3_eager_checkpointing": dict(config=QWEN3, batch=2, sequence=512, attention="eager",
                                      checkpointing="non-reentrant"),
    "mistral_window": dict(config=MISTRAL, batch=1, sequence=1024, attention="sdpa"),
    "gemma2": dict(config=GEMMA2, batch=1, sequence=1024, attention="eager"),
    "gpt2": dict(config=GPT2, batch=2, sequence=1024, attention="sdpa"),
    "gpt2_eager": dict(config=GPT2, batch=1, sequence=1024, attention="eager"),
    "gpt_neox": dict(config=NEOX, batch=1, sequence=1024, attention="sdpa"),
    "phi3": dict(config=PHI3, batch=1, sequence=1024, attention="sdpa"),
    "opt": dict(config=OPT, batch=2, sequence=512, attention="sdpa"),
    "bloom": dict(config=BLOOM, batch=1, sequence=1024, attention="eager"),
    "qwen3_moe": dict(config=qwen3_moe(), batch=1, sequence=1024, attention="sdpa"),
    "qwen3_moe_checkpointing": dict(config=qwen3_moe(), batch=2, sequence=512, attention="sdpa",
                                    checkpointing="non-reentrant"),
    "mixtral": dict(config=MIXTRAL, batch=1, sequence=512, attention="sdpa"),
    "mixtral_lora_experts": dict(config=MIXTRAL, batch=1, sequence=512, attention="sdpa", lora="all-linear"),
    "llama_reentrant": dict(config=llama(), batch=1, sequence=512, attention="sdpa", checkpointing="reentrant"),
    "llama_long": dict(config=llama(), batch=1, sequence=4096, attention="sdpa"),
    "llama_fp32": dict(config=llama(), batch=1, sequence=512, attention="sdpa", fp32=True),
    "llama_wide_heads": dict(config=llama(num_attention_heads=8, num_key_value_heads=2, head_dim=512), batch=1,
                             sequence=512, attention="sdpa"),
    "falcon": dict(config=FALCON, batch=1, sequence=1024, attention="sdpa"),
    "falcon_alibi": dict(config=FALCON | dict(alibi=True, multi_query=False, parallel_attn=False, bias=True), batch=1,
                         sequence=1024, attention="eager"),
    "mpt": dict(config=MPT, batch=1, sequence=1024, attention="eager"),
    "cohere": dict(config=COHERE, batch=1, sequence=1024, attention="sdpa"),
    "glm": dict(config=GLM, batch=1, sequence=1024, attention="sdpa"),
    "olmo2": dict(config=OLMO2, batch=1, sequence=1024, attention="sdpa"),
    "stablelm": dict(config=STABLELM, batch=1, sequence=1024, attention="sdpa"),
    "gemma3": dict(config=GEMMA3, batch=1, sequence=1024, attention="sdpa", checkpointing="non-reentrant"),
    "gpt_oss": dict(config=GPT_OSS, batch=1, sequence=512, attention="eager"),
    "deepseek_v3": dict(config=DEEPSEEK_V3, batch=1, sequence=512, attention="sdpa"),
    "deepseek_v2": dict(config=DEEPSEEK_V2, batch=1, sequence=512, attention="sdpa"),
    "minimax_m2": dict(config=MINIMAX, batch=1, sequence=512, attention="sdpa"),
    "nemotron": dict(config=NEMOTRON, batch=1, sequence=1024, attention="sdpa"),
    "ernie4_5": dict(config=ERNIE, batch=1, sequence=1024, attention="sdpa"),
    "gpt_bigcode": dict(config=BIGCODE, batch=1, sequence=1024, attention="sdpa"),
    "phi": dict(config=PHI, batch=1, sequence=1024, attention="sdpa"),
    "granite": dict(config=GRANITE, batch=1, sequence=1024, attention="sdpa"),
    "starcoder2": dict(config=STARCODER2, batch=1, sequence=1024, attention="sdpa"),
    "llama_zero3": dict(config=llama(), batch=2, sequence=512, attention="sdpa", zero_stage=3),
    "phi_zero3": dict(config=PHI, batch=1, sequence=512, attention="sdpa", zero_stage=3),
    "qwen2_moe": dict(config=QWEN2_MOE, batch=1, sequence=512, attention="sdpa"),
    "llama_tensor_parallel": dict(config=llama(tie_word_embeddings=True), batch=2, sequence=512, attention="sdpa",
                                  tensor_parallel=2),
}


def build(case):
    config = dict(case["config"])
    config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    options = {}
    if config.model_type in ("qwen3_moe", "mixtral"):
        options["experts_implementation"] = "grouped_mm"
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=case["attention"],
            dtype=torch.float32 if case.get("autocast") or case.get("fp32") else torch.bfloat16, **options)
        if "lora" in case:
            import peft
            targets = case["lora"] if case["lora"] == "all-linear" else ["q_proj", "v_proj"]
            model = peft.get_peft_model(
                model, peft.LoraConfig(r=16, target_modules=targets, task_type="CAUSAL_LM",
                                       lora_dropout=case.get("lora_dropout", 0.0)),
                autocast_adapter_dtype=case.get("fp32_adapters", True))
    model.train()
    if "checkpointing" in case:
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": case["checkpointing"] == "reentrant"})
    return divide(model, case["tensor_parallel"]) if "tensor_parallel" in case else model


def divide(model, ranks):
    """Rank 0's part of the model in a tensor-parallel group whose other ranks do not exist."""
    import deepspeed
    import deepspeed.sequence.cross_entropy as cross_entropy
    from torch.testing._internal.distributed.fake_pg import FakeStore
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
    torch.distributed.init_process_group(backend="fake", rank=0, world_size=ranks, store=FakeStore())
    deepspeed.init_distributed(dist_backend="fake", verbose=False)
    # Both compare what other ranks sent: nothing arrived.
    torch.equal = lambda *_: True
    cross_entropy._validate_vocab_shard_bounds = lambda *_: model.config.vocab_size
    model = deepspeed.tp_model_init(model, tp_size=ranks, dtype=torch.bfloat16)
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 0},
              "zero_allow_untested_optimizer": True, "tensor_parallel": {"autotp_size": ranks}}
    engine, *_ = deepspeed.initialize(model=model, config=config, dist_init_required=False,
                                      optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    return engine.module


@contextlib.contextmanager
def linear_of(case):
    """torch.nn.functional.linear is the function that DeepSpeed's zero.Init puts there."""
    own = torch.nn.functional.linear
    if case.get("zero_stage") == 3:
        from deepspeed.runtime.zero.linear import zero3_linear_wrap
        torch.nn.functional.linear = zero3_linear_wrap
    yield
    torch.nn.functional.linear = own


def nodes_of(loss):
    """Nodes of the graph that the engine will run."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        each = waiting.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        waiting += [next for next, _ in each.next_functions]
    return len(seen)


def notes_of(case):
    # Asks the device whether position ids restart: no, where they are not given. A stand-in has no answer.
    transformers.masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    model = build(case)
    ids = torch.zeros(case["batch"], case["sequence"], dtype=torch.long, device="cuda")
    given = {"attention_mask": torch.ones_like(ids)} if case.get("padding_mask") else {}

    def loss_of():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bool(case.get("autocast"))):
            return model(input_ids=ids, labels=ids, use_cache=False, **given).loss

    if "tensor_parallel" in case:  # DeepSpeed compares what the ranks are given first
        loss_of().backward()
        model.zero_grad(set_to_none=True)
    with linear_of(case), Notes() as notes:
        loss = loss_of()
        nodes = nodes_of(loss)
        notes.phase = 1
        loss.backward()
    return notes.list, nodes


def sums(notes, nodes):
    phases = []
    for phase in (0, 1):
        own = [each for each in notes if each["phase"] == phase]
        products, attentions = collections.Counter(), collections.Counter()
        moved = kernels = 0
        for each in own:
            if each["kind"] == "product":
                products[tuple(each["product"])] += 1
                moved += each["copies"]
                kernels += 1
            elif each["kind"] == "attention":
                attentions[tuple(each["attention"])] += 1
                moved += each["behind"]
                kernels += 1
            elif each["kind"] == "kernel":
                moved += each["read"] + each["written"]
                kernels += each["kernels"]
        phases.append(dict(products=[[*each, n] for each, n in sorted(products.items())],
                           attention=[[*each, n] for each, n in sorted(attentions.items())], moved=moved,
                           kernels=kernels, operators=sum(each["python"] for each in own)))
    return dict(forward=phases[0], backward=phases[1], nodes=nodes)


def main():
    out, names = sys.argv[1], sys.argv[2:] or list(CASES)
    records = []
    for name in names:
        notes, nodes = notes_of(CASES[name])
        record = dict(name=name, **CASES[name], **sums(notes, nodes))
        print(name, record["forward"]["moved"], record["backward"]["moved"], nodes, flush=True)
        records.append(json.dumps(record))
    with open(out, "w") as file:
        file.write("[\n" + ",\n".join(records) + "\n]\n")


main()
