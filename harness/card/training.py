"""One rank of one training run: the real libraries, a model made from its config, random tokens.

What is read is what PyTorch's allocator says, phase by phase, what the device says, and the clock. Imported once, before
the ranks are forked: it must not touch the device.
"""
import copy
import gc
import math
import os
import time
import warnings

import torch
import torch.distributed
import transformers
import transformers.masking_utils

from calls import RECORDER
from run import CLIP, LEARNING_RATE, LORA_RANK, config_of, ds_config_of, row_of

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "cudaErrorMemoryAllocation")


def is_out_of_memory(error):
    """Whether PyTorch, cuBLAS, NCCL or the driver found no memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


class Phases:
    """Peaks between marks. A mark names the phase that has just ended; of several micro-steps the highest counts."""

    def __init__(self):
        self.peaks = {}
        self.current = "initialisation"  # the phase that an error is reported in
        self.recording = False
        self.micro = 1

    def start_step(self):
        self.peaks, self.recording, self.current = {}, True, "forward"
        torch.cuda.reset_peak_memory_stats()

    def end_step(self):
        self.recording = False
        return self.peaks

    def mark(self, name, following):
        if not self.recording:
            return
        stats = torch.cuda.memory_stats()
        peak = self.peaks.setdefault(name, {"peak_requested": 0, "peak_allocated": 0, "peak_reserved": 0})
        for kind in ("requested", "allocated", "reserved"):
            peak[f"peak_{kind}"] = max(peak[f"peak_{kind}"], stats[f"{kind}_bytes.all.peak"])
        torch.cuda.reset_peak_memory_stats()
        RECORDER.end_phase(name, self.micro)
        self.current = following


def watch_head(head, phases):
    """The forward ends where the head's input is ready, the loss's backward where its gradient is."""

    def before(_, inputs):
        phases.mark("forward", "loss")
        if inputs[0].requires_grad and torch.is_grad_enabled():
            inputs[0].register_hook(lambda _: phases.mark("loss_backward", "backward"))

    head.register_forward_pre_hook(before)


def make_model(run, ds_config):
    config = config_of(run)
    settings = transformers.AutoConfig.for_model(config["model_type"], **{k: v for k, v in config.items() if k != "model_type"})
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "amp": torch.float32}[run.precision]
    if run.framework == "fsdp":
        dtype = torch.float32
    build = lambda: transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="sdpa", dtype=dtype)
    if run.framework == "deepspeed" and run.zero == 3:
        import deepspeed
        with deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(ds_config), dtype=dtype):
            model = build()
    else:
        with torch.device("cuda"):
            model = build()
    parameters = sum(getattr(p, "ds_numel", p.numel()) for p in model.parameters())
    if run.lora:
        import peft
        adapters = peft.LoraConfig(r=LORA_RANK, lora_alpha=2 * LORA_RANK, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        with torch.device("cuda"):
            model = peft.get_peft_model(model, adapters)
    model.train()
    model.config.use_cache = False
    if run.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, parameters, settings.vocab_size


def torch_optimizer(run, parameters):
    kinds = {"torch_fused": {"fused": True}, "torch_foreach": {}, "torch_single": {"foreach": False}}
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE, **kinds[run.optimizer])


class DeepSpeedTrainer:
    def __init__(self, run, model, ds_config, phases):
        import deepspeed
        watch_head(model.get_output_embeddings(), phases)
        trainable = [p for p in model.parameters() if p.requires_grad]
        optimizer = None if run.optimizer == "ds_cpu" else torch_optimizer(run, trainable)
        self.engine, *_ = deepspeed.initialize(model=model, model_parameters=trainable, optimizer=optimizer,
                                               config=copy.deepcopy(ds_config), dist_init_required=False)
        self.phases = phases

    def micro_step(self, ids, last):
        loss = self.engine(input_ids=ids, labels=ids).loss
        self.phases.mark("loss", "loss_backward")
        self.engine.backward(loss)
        del loss
        self.phases.mark("backward", "step")
        self.engine.step()
        self.phases.mark("step" if last else "micro_step", "forward")

    def end_step(self):
        pass

    def loss(self, ids):
        with torch.no_grad():
            return self.engine(input_ids=ids, labels=ids).loss.item()


class TorchTrainer:
    """Plain PyTorch, or FSDP2 on every layer and then on the model."""

    def __init__(self, run, model, phases):
        head = model.get_output_embeddings()
        if run.framework == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            sharding = {"mesh": init_device_mesh("cuda", (run.ranks,)), "mp_policy": policy, "reshard_after_forward": True}
            inner = model.get_base_model() if run.lora else model
            for layer in inner.model.layers:
                fully_shard(layer, **sharding)
            fully_shard(model, **sharding)
        watch_head(head, phases)
        self.model, self.phases, self.amp = model, phases, run.precision == "amp"
        self.trainable = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch_optimizer(run, self.trainable)

    def micro_step(self, ids, last):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.amp):
            loss = self.model(input_ids=ids, labels=ids).loss
        self.phases.mark("loss", "loss_backward")
        loss.backward()
        del loss
        self.phases.mark("backward", "clip" if last else "forward")

    def end_step(self):
        torch.nn.utils.clip_grad_norm_(self.trainable, CLIP)
        self.phases.mark("clip", "step")
        self.optimizer.step()
        self.phases.mark("step", "forward")
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, ids):
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.amp):
            return self.model(input_ids=ids, labels=ids).loss.item()


def rehearse():
    """On a stand-in for the CUDA runtime nothing is computed, so nothing may be decided by what was: transformers would
    look for packed sequences, DeepSpeed compare lists between ranks."""
    import deepspeed.runtime.zero.partition_parameters
    import deepspeed.runtime.zero.partitioned_param_coordinator
    import deepspeed.runtime.zero.stage3
    zero = deepspeed.runtime.zero
    transformers.masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    for module in (zero.stage3, zero.partition_parameters, zero.partitioned_param_coordinator):
        module.assert_ints_same_as_other_ranks = lambda *_: None


def join(framework, place):
    """All ranks of the run in one world. On one GPU each rank is a host of its own to NCCL, which refuses two ranks of
    a host on one GPU, so that they speak through sockets; `fake` plays the other ranks."""
    os.environ.update(RANK=str(place.rank), LOCAL_RANK="0", WORLD_SIZE=str(place.ranks), LOCAL_SIZE=str(place.ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(place.port), NCCL_HOSTID=f"rank-{place.rank}",
                      NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    backend = "fake" if place.fake else "nccl"
    if place.fake:
        rehearse()
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group(backend="fake", rank=place.rank, world_size=place.ranks, store=FakeStore())
    else:
        torch.distributed.init_process_group(backend="nccl")
    if framework == "deepspeed":
        import deepspeed
        deepspeed.init_distributed(dist_backend=backend, verbose=False)


def train(run, place, phases):
    """The row of this rank. `place` is a ranks.Place."""
    torch.manual_seed(place.rank)
    torch.cuda.set_device(0)
    if run.framework != "single":
        join(run.framework, place)
    ds_config = ds_config_of(run)
    model, parameters, vocabulary = make_model(run, ds_config)
    row = row_of(run, place.rank) | {"parameters": parameters}
    if run.framework == "deepspeed":
        trainer = DeepSpeedTrainer(run, model, ds_config, phases)
    else:
        trainer = TorchTrainer(run, model, phases)
    del model
    gc.collect()
    stats = torch.cuda.memory_stats()
    row["init"] = {f"peak_{kind}": stats[f"{kind}_bytes.all.peak"] for kind in ("allocated", "reserved")}
    row["measured"] = {}
    for step in range(1, run.steps + 1):
        if step == run.steps and place.ranks > 1:
            RECORDER.start()
        row["measured"][str(step)] = one_step(run, place, phases, trainer, vocabulary)
    if place.ranks > 1:
        RECORDER.stop()
        row |= {"collectives": RECORDER.collectives(), "sequence": RECORDER.sequence()}
    if not place.fake:
        check_loss(trainer.loss(tokens(run, vocabulary)), vocabulary)
    return row


def tokens(run, vocabulary):
    return torch.randint(vocabulary, (run.micro_batch, run.seq), device="cuda")


def check_loss(loss, vocabulary):
    """A model with random weights knows nothing: its loss is near ln(V). Elsewhere, what ran was no training."""
    if not 0.5 * math.log(vocabulary) < loss < 2 * math.log(vocabulary):
        raise RuntimeError(f"loss {loss} of a model with random weights; expected about {math.log(vocabulary):.1f}")


def one_step(run, place, phases, trainer, vocabulary):
    torch.cuda.synchronize()
    place.meet()
    before = torch.cuda.memory_stats()
    phases.start_step()
    start = time.perf_counter()
    for micro in range(run.grad_accum):
        phases.micro = micro + 1
        trainer.micro_step(tokens(run, vocabulary), micro == run.grad_accum - 1)
    trainer.end_step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peaks = phases.end_step()
    worst = max(peaks, key=lambda name: peaks[name]["peak_allocated"])
    return {
        "requested_before": before["requested_bytes.all.current"],
        "allocated_before": before["allocated_bytes.all.current"],
        **{kind: max(peak[kind] for peak in peaks.values()) for kind in ("peak_requested", "peak_allocated", "peak_reserved")},
        "peak_phase": worst,
        "phases": peaks,
        "reserved": torch.cuda.memory_reserved(),
        "device_bytes": place.device_bytes(),
        "alloc_retries": torch.cuda.memory_stats()["num_alloc_retries"],
        "seconds": seconds,
    }
