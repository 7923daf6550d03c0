"""What zplan answers, as dataclasses: the same keys as in the JSON of the command line.

Bytes are whole numbers of bytes, times seconds, ratios fractions, unless a name says otherwise.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from ._read import Value, dataclass, each, one, split

if TYPE_CHECKING:
    import pandas


D = TypeVar("D", bound="Document")


class Document(Value):
    """An answer: a document with a schema, its text, and whether the command line would end with status 0."""

    if TYPE_CHECKING:
        ok: bool  # something fits; of `lint`: no errors; of `check`: it holds

    @classmethod
    def _from_text(cls: Type[D], text: bytes, ok: bool) -> D:
        made = cls._from_json(json.loads(text))
        made.__dict__.update(_text=text, ok=ok)
        return made

    @property
    def json(self) -> str:
        """The document as the command line prints it."""
        text: bytes = self.__dict__["_text"]
        return text.decode()

    def to_dict(self) -> Dict[str, Any]:
        """The document as plain dicts and lists."""
        document: Dict[str, Any] = json.loads(self.__dict__["_text"])
        return document


def _frame(rows: Sequence[Mapping[str, Any]], index: Optional[str] = None) -> pandas.DataFrame:
    import pandas

    frame = pandas.DataFrame(list(rows))
    return frame if index is None or frame.empty else frame.set_index(index)


def _flat(value: Value, kinds: Tuple[type, ...] = (str, int, float, bool, type(None))) -> Dict[str, Any]:
    return {key: item for key, item in value.__dict__.items() if isinstance(item, kinds)}


# ---- the question, as it was understood ----


@dataclass(init=False, repr=False, eq=False)
class Model(Value):
    """What is trained."""

    name: str
    source: str  # "catalogue", "config", "size" or "cache"
    origin: str  # where its shape comes from
    architecture: str
    parameters: int
    trainable_parameters: int
    active_parameters: int  # per token; fewer than `parameters` in a mixture of experts
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    key_value_heads: int
    head_size: int
    vocabulary_size: int
    tied_embeddings: bool
    experts: int  # 0: dense
    experts_per_token: int


@dataclass(init=False, repr=False, eq=False)
class Instance(Value):
    """The cloud shape that each node is."""

    name: str
    provider: str
    gpus: int
    vcpus: int
    local_disk_bytes: int
    source: str
    date: str


@dataclass(init=False, repr=False, eq=False)
class Cluster(Value):
    """What it is trained on."""

    gpu: str
    gpus: int
    nodes: int
    gpus_per_node: int
    memory_bytes: int  # per GPU, as nvidia-smi reports it
    usable_memory_bytes: int  # less what the driver keeps
    available_memory_bytes: int  # less the headroom: what a plan may need
    headroom: float
    host_memory_bytes_per_node: int
    available_host_memory_bytes_per_node: int
    node: str
    network: Optional[str]
    assumptions: Tuple[str, ...]  # what was not stated, and what was taken for it
    instance: Optional[Instance] = None  # where one was named

    _parts = {"assumptions": tuple, "instance": one(Instance)}


@dataclass(init=False, repr=False, eq=False)
class Training(Value):
    """What all plans of an answer share."""

    method: str
    lora_rank: Optional[int]
    lora_targets: Optional[Tuple[str, ...]]
    lora_dropout: Optional[float]
    quantization: Optional[str]
    prepares_kbit_training: bool
    precision: str
    optimizer: str
    master_weights: bool
    sequence_length: int  # tokens
    attention: str
    fused_loss: bool
    loss_chunks: int
    sliced_head: bool
    modules: str  # the library whose layers run
    expandable_segments: bool
    framework: str
    deepspeed_version: str
    frozen_parts: Tuple[str, ...] = ()  # of an image-text model: "vision", "projector"
    images: Optional[Dict[str, int]] = None  # where it is planned with images: per_sample, tokens, tiles, rows, columns
    adapters: int = 1  # in memory: one trains, the others are frozen
    dora: bool = False
    modules_to_save: Tuple[str, ...] = ()  # trained beside adapters, as copies
    ties_saved_modules: bool = False
    fp32_adapters: bool = True
    quant_storage: Optional[str] = None  # of packed weights, where it can be sharded
    objective: str = "sft"
    reference: Optional[str] = None  # of preference training, grpo and ppo
    rollout: Optional[Dict[str, Any]] = None  # of grpo and ppo: engine, generations, prompt_length, completion_length, …
    fused_head: bool = False  # TRL's, without logits
    loss_shift: str = "labels"
    kernels: str = "torch"  # whose kernels layers run in

    _parts = {"lora_targets": tuple, "frozen_parts": tuple, "modules_to_save": tuple}


# ---- a plan ----


@dataclass(init=False, repr=False, eq=False)
class Strategy(Value):
    """One way to train."""

    framework: str
    zero_stage: int
    tensor_parallel: int
    data_parallel: int
    offload_optimizer: str  # "none", "cpu" or "nvme"
    offload_parameters: str
    activation_checkpointing: str
    micro_batch_size: int  # samples
    gradient_accumulation_steps: int
    global_batch_size: int  # samples
    reduce_bucket_elements: int
    prefetch_bucket_elements: int
    persistence_threshold_elements: int
    sequence_parallel: int = 1  # ranks that divide a sample's tokens for its heads (Ulysses)
    context_parallel: int = 1  # ranks that divide a sample's tokens in a ring
    expert_parallel: int = 1  # ranks that divide a layer's experts (DeepSpeed AutoEP)
    key_rotation: Optional[str] = None  # "allgather" or "alltoall", of a ring
    tiled_mlp: Union[int, str, None] = None  # slices of the tokens
    tiled_loss: Union[int, str, None] = None
    checkpoint_offload: Optional[str] = None  # "alst" or "deepspeed"


@dataclass(init=False, repr=False, eq=False)
class SteadyState(Value):
    """Bytes of the states as the ZeRO paper tabulates them."""

    parameters: int
    gradients: int
    optimizer_states: int


@dataclass(init=False, repr=False, eq=False)
class Moment(Value):
    """Live bytes at one moment of the step."""

    phase: str
    at: str
    bytes: int
    layer: Optional[int] = None


@dataclass(init=False, repr=False, eq=False)
class Memory(Value):
    """Bytes on the rank that needs most. The first eight are what each holds at the peak, and add up to it."""

    parameters: int
    gradients: int
    optimizer_states: int  # master weights and moments
    activations: int
    loss: int
    communication_buffers: int
    temporaries: int
    framework_overhead: int  # CUDA context, NCCL, cuBLAS workspaces
    peak: int  # bytes in use at the worst moment
    peak_allocated: int  # torch.cuda.max_memory_allocated()
    peak_reserved: int  # torch.cuda.max_memory_reserved() on a GPU with memory to spare
    required: int  # the smallest device on which the run completes
    required_low: int  # if the allocator packed without gaps
    required_high: int  # if cached blocks were never freed
    peak_phase: str  # "forward", "loss", "backward" or "step"
    steady: SteadyState
    host: int  # per node, of offload
    host_pinned: int
    nvme: int  # per node
    timeline: Tuple[Moment, ...]

    _parts = {"steady": one(SteadyState), "timeline": each(Moment)}


@dataclass(init=False, repr=False, eq=False)
class Collective(Value):
    """Calls of one kind in one optimizer step."""

    operation: str
    group: str
    group_size: int
    phase: str
    dtype: str
    purpose: str
    count: int  # calls
    elements: int
    bytes: int  # as nccl-tests counts: output of an all_gather, input of a reduce_scatter, else the buffer
    wire_bytes_per_gpu: int  # what a ring sends from one GPU
    inside_bytes_per_gpu: int  # of NCCL's choice, inside the node
    outside_bytes_per_gpu: int  # and out of it
    seconds: float  # all calls, back to back
    algorithm: str
    protocol: str


@dataclass(init=False, repr=False, eq=False)
class Communication(Value):
    """What one optimizer step sends."""

    collectives: Tuple[Collective, ...]
    bytes: int
    wire_bytes_per_gpu: int
    inside_bytes_per_gpu: int
    outside_bytes_per_gpu: int
    host_to_device_bytes: int
    device_to_host_bytes: int

    _parts = {"collectives": each(Collective)}


@dataclass(init=False, repr=False, eq=False)
class ExposedTime(Value):
    """Seconds of communication that compute does not hide, by phase."""

    forward: float
    loss: float
    backward: float
    step: float


@dataclass(init=False, repr=False, eq=False)
class StepTime(Value):
    """Seconds of one optimizer step, and its speed."""

    step: float  # compute + launching + exposed_communication + offload + optimizer + generation + scoring
    compute: float  # products + attention + other_kernels
    products: float
    attention: float
    other_kernels: float
    launching: float  # the device waits for the host
    communication: float  # all of it, hidden or not
    exposed_communication: float
    exposed_by_phase: ExposedTime
    exposed_tensor_parallel: float
    offload: float
    optimizer: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float  # model FLOPs utilisation
    hfu: float  # with recomputation
    bound: str
    generation: float = 0.0  # of completions, by arithmetic alone
    scoring: float = 0.0  # of ppo's completions, not measured

    _parts = {"exposed_by_phase": one(ExposedTime)}


@dataclass(init=False, repr=False, eq=False)
class Symbol(Value):
    """A letter of the formulas."""

    symbol: str
    meaning: str
    value: str


@dataclass(init=False, repr=False, eq=False)
class ExplainedFigure(Value):
    """A figure with its formula, its numbers put in, and its source. Bytes or seconds, by its section."""

    name: str
    value: float
    formula: str
    source: str


@dataclass(init=False, repr=False, eq=False)
class Explanation(Value):
    """Every figure of a plan with where it comes from."""

    symbols: Tuple[Symbol, ...]
    memory: Tuple[ExplainedFigure, ...]
    required: Tuple[ExplainedFigure, ...]
    steady: Tuple[ExplainedFigure, ...]
    communication: Tuple[ExplainedFigure, ...]
    time: Tuple[ExplainedFigure, ...]

    _parts = {"symbols": each(Symbol), **{name: each(ExplainedFigure) for name in ("memory", "required", "steady", "communication", "time")}}


@dataclass(init=False, repr=False, eq=False)
class Accuracy(Value):
    """How far off such predictions were over the narrowest group of measurements that covers the plan; errors are fractions."""

    kind: str
    against: str
    statistic: str
    on_cards: bool  # measured on real GPUs
    slower_attention: bool
    framework: Optional[str]
    method: Optional[str]
    card: Optional[str]
    judged: int
    exact: int
    median_error: float
    p90_error: float
    worst_error: float
    under_predicted: float  # share that is too low by more than 5 %


@dataclass(init=False, repr=False, eq=False)
class Resident(Value):
    """What is resident for one reason at a moment of a run, in bytes."""

    name: str
    device: int  # of each rank
    host: int  # of each rank
    host_of_first_rank: int  # what the node's first rank has beside that


@dataclass(init=False, repr=False, eq=False)
class RunMoment(Value):
    """Memory at one moment of a run: "load", "training", "evaluation", "generation", "save_model" or "save_checkpoint"."""

    moment: str
    device: int  # bytes of a rank; 0 where the moment takes none
    host_per_node: int  # bytes
    parts: Tuple[Resident, ...]
    needs_less: str  # what would need less; empty: nothing is known

    _parts = {"parts": each(Resident)}


@dataclass(init=False, repr=False, eq=False)
class Range(Value):
    """Ends of a figure, as far apart as predicted speeds were off."""

    low: float
    high: float


@dataclass(init=False, repr=False, eq=False)
class RunCost(Value):
    """How long the whole run takes and what it costs."""

    steps: int
    wall_seconds: float
    gpu_hours: float
    cost: Optional[float]  # None: no price
    speeds_judged: int  # measured speeds that the ranges are from
    wall_seconds_range: Optional[Range]  # None: no speed was measured that is comparable
    cost_range: Optional[Range]

    _parts = {"wall_seconds_range": one(Range), "cost_range": one(Range)}


@dataclass(init=False, repr=False, eq=False)
class Plan(Value):
    """One strategy with its memory, traffic and time, and whether it fits."""

    id: str
    strategy: Strategy
    fits: bool
    fits_device: bool
    fits_host: bool
    memory: Memory
    communication: Communication
    time: StepTime
    why: Tuple[str, ...]
    moments: Tuple[RunMoment, ...] = ()  # of the run, in order
    short_moment: Optional[str] = None  # at which memory does not suffice
    run: Optional[RunCost] = None  # with samples or tokens
    training: Optional[Training] = None  # where it is trained unlike the report's others
    ranges: Optional[Dict[str, Any]] = None  # between what 80 % of comparable measured runs lay
    explain: Optional[Explanation] = None  # with explain=True
    accuracy: Optional[Tuple[Accuracy, ...]] = None  # with explain=True

    _parts = {"strategy": one(Strategy), "memory": one(Memory), "communication": one(Communication), "time": one(StepTime),
              "why": tuple, "moments": each(RunMoment), "run": one(RunCost), "training": one(Training),
              "explain": one(Explanation), "accuracy": each(Accuracy)}

    def __repr__(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        return f"<Plan {self.id}: {verdict}, needs {self.memory.required / 2**30:.1f} GiB, {self.time.tokens_per_second:.0f} tokens/s>"

    def to_row(self) -> Dict[str, Any]:
        """The plan as one flat row: the columns of `--csv`, and the other figures of memory, traffic and time."""
        time = {("step_seconds" if key == "step" else f"{key}_seconds" if isinstance(value, float) and key in _SECONDS else key): value
                for key, value in _flat(self.time).items()}
        return {"id": self.id, "fits": self.fits, **_flat(self.strategy), **_flat(self.memory),
                **{key: value for key, value in _flat(self.communication).items() if key != "bytes"},
                "collective_bytes": self.communication.bytes, **time}

    def _repr_html_(self) -> str:
        from ._html import plans_html

        return plans_html([self], None)


_SECONDS = {"compute", "products", "attention", "other_kernels", "launching", "communication", "exposed_communication",
            "exposed_tensor_parallel", "offload", "optimizer", "generation", "scoring"}


# ---- an answer ----


@dataclass(init=False, repr=False, eq=False)
class Rejection(Value):
    """A strategy that is not legal."""

    id: str
    reasons: Tuple[str, ...]

    _parts = {"reasons": tuple}


@dataclass(init=False, repr=False, eq=False)
class Alternative(Value):
    """What would fit where nothing does, and the change that it takes."""

    change: str
    plan: Plan

    _parts = {"plan": one(Plan)}


@dataclass(init=False, repr=False, eq=False)
class Launch(Value):
    """Command lines that start the recommended plan; None where its framework has none."""

    launcher: str
    deepspeed: Optional[str]
    torchrun: Optional[str]
    swift: Optional[str]
    accelerate: Optional[str]
    torchtitan: Optional[str]


@dataclass(init=False, repr=False, eq=False)
class Link(Value):
    """The link that decides between the two fastest: the network out of a node, or the collectives' inside the only one."""

    name: str
    between_nodes: bool
    bytes_per_second: float
    lowest_tried: float
    highest_tried: float


@dataclass(init=False, repr=False, eq=False)
class Crossover(Value):
    """The speed of that link at which both are equally fast."""

    bytes_per_second: float
    faster_below: str
    faster_above: str


@dataclass(init=False, repr=False, eq=False)
class Delta(Value):
    """A difference from the baseline: in bytes, seconds or tokens per second, and as a fraction of its figure."""

    absolute: float
    fraction: Optional[float]


@dataclass(init=False, repr=False, eq=False)
class PlanDelta(Value):
    """What a plan differs by from the baseline."""

    required: Delta
    parameters: Delta
    gradients: Delta
    optimizer_states: Delta
    activations: Delta
    loss: Delta
    communication_buffers: Delta
    temporaries: Delta
    framework_overhead: Delta
    host: Delta
    wire_per_gpu: Delta
    step: Delta
    tokens_per_second: Delta


PlanDelta._parts = {name: one(Delta) for name in PlanDelta.__annotations__}


@dataclass(init=False, repr=False, eq=False)
class PlanDeltas(Value):
    """A plan's differences; None where a saved report has no such plan."""

    id: str
    delta: Optional[PlanDelta]

    _parts = {"delta": one(PlanDelta)}


@dataclass(init=False, repr=False, eq=False)
class Comparison(Value):
    """The two fastest, and every plan against the baseline."""

    faster: Optional[str]
    slower: Optional[str]
    ratio: Optional[float]
    tie: Optional[bool]
    tie_within: Optional[float]
    link: Optional[Link]
    crossover: Optional[Crossover]
    baseline: str
    deltas: Tuple[PlanDeltas, ...]

    _parts = {"link": one(Link), "crossover": one(Crossover), "deltas": each(PlanDeltas)}


@dataclass(init=False, repr=False, eq=False)
class Call(Value):
    """A collective as it is issued; equal ones in a row are one with `times`."""

    operation: str
    group: str
    group_size: int
    stride: int
    phase: str
    dtype: str
    element_bytes: int
    purpose: str
    elements: int
    bytes: int
    times: int
    seconds: float
    compute_seconds: float  # computed since the call before
    exposed: bool  # what follows waits for it at once


@dataclass(init=False, repr=False, eq=False)
class Schedule(Value):
    """The calls of one optimizer step of the first plan, in order of issue."""

    plan: str
    ranks: int
    tensor_parallel: int
    data_parallel: int
    device_memory_bytes: int
    step_seconds: float
    communication_seconds: float
    offload_seconds: float
    compute_seconds_behind: float
    calls: Tuple[Call, ...]

    _parts = {"calls": each(Call)}


@dataclass(init=False, repr=False, eq=False)
class FoundPlan(Value):
    """What a search found: host in bytes per node, step in seconds."""

    id: str
    framework: str
    activation_checkpointing: str
    buckets: Optional[str]
    micro_batch_size: int
    gradient_accumulation_steps: int
    global_batch_size: int
    required_low: int
    host: int
    wire_bytes_per_gpu: int
    step: float
    tokens_per_second: float
    share_of_fastest: float
    tie: bool
    tie_within: float


@dataclass(init=False, repr=False, eq=False)
class Family(Value):
    """Plans that differ in micro-batch and accumulation alone, and what became of them."""

    id: str
    framework: str
    activation_checkpointing: str
    buckets: Optional[str]
    outcome: str
    reason: str
    candidates: int
    largest_micro_batch: int
    micro_batch_size: Optional[int] = None
    gradient_accumulation_steps: Optional[int] = None
    required_low: Optional[int] = None
    host: Optional[int] = None
    tokens_per_second: Optional[float] = None


@dataclass(init=False, repr=False, eq=False)
class Search(Value):
    """All that a search looked at."""

    candidates: int
    stopped: bool
    best: Tuple[FoundPlan, ...]  # the fastest of each strategy
    front: Tuple[FoundPlan, ...]  # less memory at less speed
    families: Tuple[Family, ...]

    _parts = {"best": each(FoundPlan), "front": each(FoundPlan), "families": each(Family)}


@dataclass(init=False, repr=False, eq=False)
class Report(Document):
    """The answer of `plan`, `compare`, `search` and `explain` (zplan.report/1)."""

    zplan_version: str
    model: Model
    cluster: Cluster
    training: Training
    plans: Tuple[Plan, ...]  # the recommended one first
    recommended: Optional[str]  # its id; None where nothing fits
    rejected: Tuple[Rejection, ...]
    alternative: Optional[Alternative]
    ds_config: Optional[Dict[str, Any]]  # of the recommended plan, where it is DeepSpeed's
    fsdp_config: Optional[Dict[str, Any]]  # accelerate's, where it is FSDP2's
    launch: Optional[Launch]
    comparison: Optional[Comparison]  # of `compare`
    search: Optional[Search]  # of `search`
    warnings: Tuple[str, ...]
    trainer_defaults: Tuple[Dict[str, Any], ...] = ()  # with `trainer`: what it chose that was left open
    lengths: Optional[Dict[str, Any]] = None  # with `lengths`
    recipes: Tuple[Dict[str, Any], ...] = ()  # with `recipe`: which keys said what

    _parts = {"model": one(Model), "cluster": one(Cluster), "training": one(Training), "plans": each(Plan),
              "rejected": each(Rejection), "alternative": one(Alternative), "launch": one(Launch),
              "comparison": one(Comparison), "search": one(Search), "warnings": tuple,
              "trainer_defaults": tuple, "recipes": tuple}

    @classmethod
    def _from_text(cls, text: bytes, ok: bool) -> Report:
        short, schedule = split(text, "schedule")
        made = cls._from_json(json.loads(short))
        made.__dict__.update(_text=text, ok=ok)
        if schedule is not None:
            del made.__dict__["schedule"]
            made.__dict__["_schedule"] = schedule
        return made

    if TYPE_CHECKING:
        schedule: Optional[Schedule] = None  # calls of the first plan; None where there are more than 20,000
    else:

        def __getattr__(self, name: str) -> Any:
            """The schedule, half of the document, is read when it is first asked for."""
            if name != "schedule" or "_schedule" not in self.__dict__:
                raise AttributeError(f"Report has no {name!r}")
            value = json.loads(self.__dict__["_schedule"])
            self.__dict__["schedule"] = made = None if value is None else Schedule._from_json(value)
            return made

    def __repr__(self) -> str:
        verdict = "nothing fits" if self.recommended is None else f"{self.recommended} is recommended"
        return f"<Report {self.model.name} on {self.cluster.gpus} x {self.cluster.gpu}: {verdict} of {len(self.plans)} plans>"

    @property
    def fits(self) -> bool:
        """Whether any plan fits."""
        return self.ok

    @property
    def best(self) -> Optional[Plan]:
        """The recommended plan; None where nothing fits."""
        return None if self.recommended is None else self.plan(self.recommended)

    def plan(self, id: str) -> Plan:
        """The plan of this id; KeyError where there is none."""
        for plan in self.plans:
            if plan.id == id:
                return plan
        raise KeyError(f"no plan {id!r}; there are {', '.join(plan.id for plan in self.plans)}")

    def to_frame(self) -> pandas.DataFrame:
        """A line per plan, best first: bytes, seconds, fractions; the names of `--csv`. Needs pandas."""
        return _frame([plan.to_row() for plan in self.plans], "id")

    def _repr_html_(self) -> str:
        from ._html import report_html

        return report_html(self)


# ---- fit ----


@dataclass(init=False, repr=False, eq=False)
class PlannedAt(Value):
    """What the plan of one answer needs and how fast it is: bytes, seconds."""

    strategy: str
    required: int
    host: int
    step: float
    tokens_per_second: float


@dataclass(init=False, repr=False, eq=False)
class Solution(PlannedAt):
    """The most or the least that fits with one strategy, and what bounds it."""

    value: Optional[int]
    next: Optional[int]
    limit: str
    reason: str


@dataclass(init=False, repr=False, eq=False)
class CardFit(PlannedAt):
    """A GPU of the catalogue on which it fits."""

    name: str
    memory_bytes: int


@dataclass(init=False, repr=False, eq=False)
class ModelFit(PlannedAt):
    """A model of the catalogue that fits."""

    name: str
    parameters: int


@dataclass(init=False, repr=False, eq=False)
class Rung(PlannedAt):
    """One step of the way to a longer sequence: the longest with all that was kept so far, in tokens."""

    means: str
    options: str
    value: Optional[int]
    gained: int
    kept: bool


@dataclass(init=False, repr=False, eq=False)
class SolvedQuestion(Value):
    """One unknown: `answer` in `unit` (samples, tokens, gpus, parameters, gib), None where nothing fits."""

    solve: str
    unit: str
    answer: Optional[int]
    strategy: Optional[str]
    why: Tuple[str, ...]
    solutions: Tuple[Solution, ...]
    rejected: Tuple[Rejection, ...]
    cards: Tuple[CardFit, ...]
    models: Tuple[ModelFit, ...]
    ladder: Tuple[Rung, ...] = ()

    _parts = {"why": tuple, "solutions": each(Solution), "rejected": each(Rejection), "cards": each(CardFit), "models": each(ModelFit),
              "ladder": each(Rung)}


@dataclass(init=False, repr=False, eq=False)
class OomMessage(Value):
    """An out-of-memory message taken apart, in bytes."""

    line: int
    device: str
    gpu: Optional[int]
    rank: Optional[int]
    asked: int
    asked_text: str
    capacity: Optional[int]
    free: Optional[int]
    allowed: Optional[int]
    allocated: Optional[int]
    unallocated: Optional[int]
    private_pools: Optional[int]
    process: Optional[int]
    outside_pytorch: Optional[int]
    other_processes: Optional[int]
    cause: str
    sentences: Tuple[str, ...]

    _parts = {"sentences": tuple}


@dataclass(init=False, repr=False, eq=False)
class OomPlan(Value):
    """The plan of the run that ended."""

    strategy: str
    fits: bool
    required: int
    available: int
    tokens_per_second: float
    why: Tuple[str, ...]

    _parts = {"why": tuple}


@dataclass(init=False, repr=False, eq=False)
class OomRefusal(Value):
    """The block that the allocator could not place."""

    term: str
    phase: str
    at: str
    layer: Optional[int]
    bytes: int
    held: int


@dataclass(init=False, repr=False, eq=False)
class OomMatch(Value):
    """Where blocks of the size in the message are asked for."""

    term: str
    phase: str
    at: str
    times: int
    bytes: int


@dataclass(init=False, repr=False, eq=False)
class OomReplay(Value):
    """The run in an allocator of `pool` bytes."""

    pool: int
    completes: bool
    refused: Optional[OomRefusal]
    matches: Tuple[OomMatch, ...]

    _parts = {"refused": one(OomRefusal), "matches": each(OomMatch)}


@dataclass(init=False, repr=False, eq=False)
class OomChange(Value):
    """A change with what it frees (bytes) and costs (`speed`: a ratio of tokens per second)."""

    change: str
    options: str
    launch: str
    fits: bool
    illegal: Tuple[str, ...]
    strategy: Optional[str] = None
    frees: Optional[int] = None
    required: Optional[int] = None
    host: Optional[int] = None
    tokens_per_second: Optional[float] = None
    speed: Optional[float] = None

    _parts = {"illegal": tuple}


@dataclass(init=False, repr=False, eq=False)
class OomReport(Value):
    """What out-of-memory messages mean, and which changes help."""

    messages: Tuple[OomMessage, ...]
    plan: Optional[OomPlan]
    replay: Optional[OomReplay]
    changes: Tuple[OomChange, ...]

    _parts = {"messages": each(OomMessage), "plan": one(OomPlan), "replay": one(OomReplay), "changes": each(OomChange)}


@dataclass(init=False, repr=False, eq=False)
class FitReport(Document):
    """The answer of `fit` (zplan.fit/1): `questions`, or `oom` where a message was to be explained."""

    zplan_version: str
    warnings: Tuple[str, ...]
    questions: Tuple[SolvedQuestion, ...] = ()
    oom: Optional[OomReport] = None

    _parts = {"warnings": tuple, "questions": each(SolvedQuestion), "oom": one(OomReport)}

    @property
    def answer(self) -> Optional[int]:
        """Of the only question, or the first."""
        return self.questions[0].answer if self.questions else None

    def to_frame(self) -> pandas.DataFrame:
        """A line per unknown and strategy. Needs pandas."""
        return _frame([{"solve": question.solve, "unit": question.unit, **_flat(solution)}
                       for question in self.questions for solution in question.solutions])


# ---- lint ----


@dataclass(init=False, repr=False, eq=False)
class Edit(Value):
    """Text that replaces what stands between two places of the file."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(init=False, repr=False, eq=False)
class Fix(Value):
    """A repair."""

    what: str
    edits: Tuple[Edit, ...]

    _parts = {"edits": each(Edit)}


@dataclass(init=False, repr=False, eq=False)
class Finding(Value):
    """What is wrong, what DeepSpeed makes of it, and what to write instead."""

    rule: str
    severity: str  # "error", "warning" or "note"
    pointer: str  # JSON pointer
    line: int
    column: int
    found: str
    outcome: str
    effect: str
    advice: str
    fix: Optional[Fix]

    _parts = {"fix": one(Fix)}


@dataclass(init=False, repr=False, eq=False)
class FixedFinding(Value):
    """A repair that was made."""

    rule: str
    pointer: str
    what: str


@dataclass(init=False, repr=False, eq=False)
class LintSummary(Value):
    """How many findings there are, and how many of them `fix` repairs."""

    errors: int
    warnings: int
    notes: int
    fixable: int


@dataclass(init=False, repr=False, eq=False)
class LintPlan(Value):
    """What the config costs: bytes, seconds."""

    id: str
    fits: bool
    as_fixed: bool
    required: int
    available: int
    step_seconds: float
    tokens_per_second: float
    why: Tuple[str, ...]

    _parts = {"why": tuple}


@dataclass(init=False, repr=False, eq=False)
class LintedFile(Value):
    """A file with what was found in it."""

    file: str
    config_style: str
    findings: Tuple[Finding, ...]
    fixed: Tuple[FixedFinding, ...]
    summary: LintSummary
    plan: Optional[LintPlan]
    not_planned: Optional[str]

    _parts = {"findings": each(Finding), "fixed": each(FixedFinding), "summary": one(LintSummary), "plan": one(LintPlan)}


@dataclass(init=False, repr=False, eq=False)
class LintReport(Document):
    """The answer of `lint` (zplan.lint/1); `ok` is False where errors remain."""

    zplan_version: str
    deepspeed_version: str
    files: Tuple[LintedFile, ...]
    summary: LintSummary

    _parts = {"files": each(LintedFile), "summary": one(LintSummary)}

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """Of all files."""
        return tuple(finding for file in self.files for finding in file.findings)

    def to_frame(self) -> pandas.DataFrame:
        """A line per finding. Needs pandas."""
        return _frame([{"file": file.file, **_flat(finding)} for file in self.files for finding in file.findings])


# ---- catalogues ----


@dataclass(init=False, repr=False, eq=False)
class CatalogueModel(Value):
    """A model of the catalogue."""

    name: str
    aliases: Tuple[str, ...]
    architecture: str
    parameters: int
    active_parameters: int
    layers: int
    hidden_size: int
    source: str
    revision: str

    _parts = {"aliases": tuple}


@dataclass(init=False, repr=False, eq=False)
class ModelCatalogue(Document):
    """The answer of `models` (zplan.models/1)."""

    models: Tuple[CatalogueModel, ...]

    _parts = {"models": each(CatalogueModel)}

    def to_frame(self) -> pandas.DataFrame:
        """A line per model. Needs pandas."""
        return _frame([_flat(model) for model in self.models], "name")


@dataclass(init=False, repr=False, eq=False)
class Tensor(Value):
    """A parameter tensor, of each of the layers that `where` counts."""

    where: str
    name: str
    shape: Tuple[int, ...]
    role: str

    _parts = {"shape": tuple}


@dataclass(init=False, repr=False, eq=False)
class ModelDetails(Document):
    """The answer of `model` (zplan.model/1): every tensor."""

    name: str
    source: str
    origin: str
    architecture: str
    parameters: int
    active_parameters: int
    layers: int
    hidden_size: int
    tensors: Tuple[Tensor, ...]

    _parts = {"tensors": each(Tensor)}


@dataclass(init=False, repr=False, eq=False)
class Figure(Value):
    """A figure of a profile with its unit, and its source."""

    value: str
    source: str


def _figures(values: Dict[str, Dict[str, Any]]) -> Dict[str, Figure]:
    return {name: Figure._from_json(value) for name, value in values.items()}


@dataclass(init=False, repr=False, eq=False)
class HardwareProfile(Value):
    """A GPU, a node type or a network."""

    kind: str  # "GPU", "node" or "network"
    name: str
    aliases: Tuple[str, ...]
    figures: Dict[str, Figure]

    _parts = {"aliases": tuple, "figures": _figures}


@dataclass(init=False, repr=False, eq=False)
class HardwareCatalogue(Document):
    """The answer of `hardware` (zplan.hardware/1)."""

    gpus: Tuple[HardwareProfile, ...]
    nodes: Tuple[HardwareProfile, ...]
    networks: Tuple[HardwareProfile, ...]
    instances: Tuple[HardwareProfile, ...] = ()

    _parts = {"gpus": each(HardwareProfile), "nodes": each(HardwareProfile), "networks": each(HardwareProfile),
              "instances": each(HardwareProfile)}

    def to_frame(self) -> pandas.DataFrame:
        """A line per profile. Needs pandas."""
        return _frame([{"kind": profile.kind, "name": profile.name, **{key: figure.value for key, figure in profile.figures.items()}}
                       for profile in (*self.gpus, *self.nodes, *self.networks, *self.instances)], "name")


@dataclass(init=False, repr=False, eq=False)
class ComparedHardware(Value):
    """What a GPU or cloud shape makes of a question."""

    name: str
    kind: str  # "gpu", "instance"
    fits: bool
    impossible: Optional[str]  # why nothing can be planned there
    plan: Optional[str]  # the id of the best
    tokens_per_second: Optional[float]
    tokens_per_gpu_hour: Optional[float]
    speed_median_error: Optional[float]  # half of such predicted speeds were further off
    price_per_gpu_hour: Optional[float]  # as given
    cost_per_million_tokens: Optional[float]  # None: no price
    report: Optional[Report]

    _parts = {"report": one(Report)}


@dataclass(init=False, repr=False, eq=False)
class HardwareComparison(Document):
    """The answer of `compare_hardware` (zplan.hardware-comparison/1)."""

    zplan_version: str
    order: str  # "given", "fastest", "cheapest"
    hardware: Tuple[ComparedHardware, ...]

    _parts = {"hardware": each(ComparedHardware)}

    def to_frame(self) -> pandas.DataFrame:
        """A line per GPU or cloud shape. Needs pandas."""
        return _frame([{"name": one.name, "kind": one.kind, "fits": one.fits, "plan": one.plan, "tokens_per_second": one.tokens_per_second,
                        "tokens_per_gpu_hour": one.tokens_per_gpu_hour, "cost_per_million_tokens": one.cost_per_million_tokens}
                       for one in self.hardware], "name")


# ---- check ----


@dataclass(init=False, repr=False, eq=False)
class ErrorGroup(Value):
    """Errors of one kind of figure, as fractions; None where nothing was judged."""

    kind: str
    statistic: str
    records: int
    judged: int
    skipped: int
    median_error: Optional[float]
    p90_error: Optional[float]
    worst_error: Optional[float]
    under_predicted: Optional[float]
    cautious: Optional[float]
    exact: int
    phase_right: Optional[float]
    skip_reasons: Dict[str, int]


@dataclass(init=False, repr=False, eq=False)
class JudgedRecord(Value):
    """One prediction against its measurement: bytes, seconds or tokens per second, by its statistic."""

    id: str
    file: str
    kind: str
    statistic: str
    predicted: Optional[float]
    measured_low: Optional[float]
    measured_high: Optional[float]
    error: Optional[float]
    exact: bool
    phase_right: Optional[bool]
    part: Optional[str]
    skipped: Optional[str]
    subset: Optional[str]
    ran: Optional[bool]
    fits: Optional[bool]
    failure: Optional[str]
    framework: Optional[str]
    method: Optional[str]
    card: Optional[str]
    grade: Optional[str]
    slower_attention: bool


@dataclass(init=False, repr=False, eq=False)
class FitVerdicts(Value):
    """Runs whose GPU is known: whether they ran, and whether they were predicted to fit."""

    ran: int
    ran_and_fits: int
    failed: int
    failed_and_fits: int


@dataclass(init=False, repr=False, eq=False)
class Check(Document):
    """The answer of `check` (zplan.check/1)."""

    zplan_version: str
    groups: Tuple[ErrorGroup, ...]
    records: Tuple[JudgedRecord, ...]
    other_planners: List[Dict[str, Any]]
    subsets: List[Dict[str, Any]]
    slopes: List[Dict[str, Any]]
    fits: FitVerdicts
    efficiencies: List[Dict[str, Any]]
    held_out: List[Dict[str, Any]]
    failures: Tuple[str, ...]
    tolerance: Optional[float] = None
    holds: Optional[bool] = None
    kernel_model: Optional[Dict[str, Any]] = None

    _parts = {"groups": each(ErrorGroup), "records": each(JudgedRecord), "fits": one(FitVerdicts), "failures": tuple}

    def to_frame(self) -> pandas.DataFrame:
        """A line per record. Needs pandas."""
        return _frame([_flat(record) for record in self.records], "id")
