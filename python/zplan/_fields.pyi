# Written by python/generate_results.py from cli/schema: change the schemas, not this file.
from dataclasses import dataclass
from typing import Any

from . import results
from ._read import Document, Value

__all__ = [
    "Accuracy",
    "Advice",
    "AdvisedPlan",
    "Alternative",
    "Call",
    "CardFit",
    "CatalogueModel",
    "Cluster",
    "Collective",
    "Communication",
    "ComparedHardware",
    "Comparison",
    "Crossover",
    "DeadlineReport",
    "Delta",
    "Edit",
    "EngineShares",
    "ErrorGroup",
    "ExplainedFigure",
    "Explanation",
    "ExposedTime",
    "Family",
    "Figure",
    "Finding",
    "FitVerdicts",
    "Fix",
    "FixedFinding",
    "FoundPlan",
    "HardwareProfile",
    "Instance",
    "JudgedRecord",
    "Launch",
    "LengthRow",
    "Lever",
    "Link",
    "LintPlan",
    "LintSummary",
    "LintedFile",
    "Memory",
    "Model",
    "ModelDetails",
    "ModelFit",
    "Moment",
    "OomChange",
    "OomExplanation",
    "OomMatch",
    "OomMessage",
    "OomPlan",
    "OomRefusal",
    "OomReplay",
    "OomReport",
    "PlanDelta",
    "PlanDeltas",
    "Range",
    "Rejection",
    "Resident",
    "RunCost",
    "RunMoment",
    "Rung",
    "Schedule",
    "ScriptSetting",
    "Search",
    "Solution",
    "SolvedQuestion",
    "Stage",
    "SteadyState",
    "StepTime",
    "Strategy",
    "Symbol",
    "Tensor",
    "TimedRun",
    "TrainerReach",
    "Training",
    "WithoutLever",
]

@dataclass(init=False, repr=False, eq=False)
class Accuracy(Value):
    """How far off such predictions were over the narrowest group of measurements that covers the plan; errors are
    fractions."""
    kind: str
    against: str
    statistic: str
    # Measured on real GPUs; else recorded without one.
    on_cards: bool
    # The sources ran a slower attention kernel than plans assume.
    slower_attention: bool
    # null: any
    framework: str | None
    # null: any
    method: str | None
    # null: any, or none
    card: str | None
    judged: int
    exact: int
    median_error: float
    p90_error: float
    worst_error: float
    # share that is too low by more than 5 %
    under_predicted: float

@dataclass(init=False, repr=False, eq=False)
class Advice(Value):
    """What would train faster, or at all."""
    # best is faster than the recommended plan by a share that is worth a change, or the only one that fits
    improves: bool
    # the fastest plan that trains the same, over strategies, frameworks and levers that do not change the result
    best: AdvisedPlan | None
    # the fastest with room for all that the allocator may want, where best has not
    safer: AdvisedPlan | None
    # the fastest under the framework that was asked for, where best is of another
    own: AdvisedPlan | None
    # plans that train something else
    offers: tuple[AdvisedPlan, ...]

@dataclass(init=False, repr=False, eq=False)
class AdvisedPlan(Value):
    """A plan with levers pulled: required and required_high in bytes."""
    # plans it
    command: str
    levers: tuple[Lever, ...]
    # what changes in the training script, in its trainer's words
    script: tuple[str, ...]
    required: int
    required_high: int
    plan: FoundPlan

@dataclass(init=False, repr=False, eq=False)
class Alternative(Value):
    """A plan that fits where none does, and the options that lead to it."""
    change: str
    plan: results.Plan

@dataclass(init=False, repr=False, eq=False)
class Call(Value):
    """A collective as it is issued; equal ones in a row are one with `times`."""
    operation: str
    group: str
    group_size: int
    # distance between neighbours of the group, in ranks of the whole group of its kind
    stride: int
    phase: str
    dtype: str
    element_bytes: int
    purpose: str
    # of one call: output of an all_gather, input of a reduce_scatter, the buffer otherwise
    elements: int
    # of one call
    bytes: int
    # number of equal calls in a row
    times: int
    # predicted, of one call by itself
    seconds: float
    # what the compute stream does between the call before (of each of times) and this one, waiting for collectives not
    # counted
    compute_seconds: float
    # true if the next kernel of the compute stream waits for its result
    exposed: bool
    # of an uneven all_to_all: elements that every rank sends to each rank of the group
    send_counts: tuple[int, ...] = ()
    # of an uneven all_to_all that sends back: elements that every rank receives from each rank of the group
    receive_counts: tuple[int, ...] = ()

@dataclass(init=False, repr=False, eq=False)
class CardFit(Value):
    """A GPU of the catalogue on which it fits."""
    strategy: str
    required: int
    host: int
    step: float
    tokens_per_second: float
    name: str
    memory_bytes: int

@dataclass(init=False, repr=False, eq=False)
class CatalogueModel(Value):
    """A model of the catalogue."""
    name: str
    aliases: tuple[str, ...]
    architecture: str
    parameters: int
    active_parameters: int
    layers: int
    hidden_size: int
    source: str
    revision: str

@dataclass(init=False, repr=False, eq=False)
class Check(Document):
    """The answer of `check` (zplan.check/1)."""
    zplan_version: str
    # why the check fails, whatever the tolerance: figures that contradict themselves, calls that were not planned
    failures: tuple[str, ...]
    groups: tuple[ErrorGroup, ...]
    records: tuple[Any, ...]
    other_planners: tuple[dict[str, Any], ...]
    subsets: tuple[dict[str, Any], ...]
    slopes: tuple[dict[str, Any], ...]
    fits: FitVerdicts
    # with --fit-efficiency: shares of their peaks that GPUs reach, and how far off their runs are
    efficiencies: tuple[dict[str, Any], ...]
    # only with --tolerance
    tolerance: float | None = None
    # with --tolerance, or where failures has any: something was judged, no median_error exceeds the tolerance, and
    # nothing fails
    holds: bool | None = None
    # memory snapshots: the last whole step beside the predicted one
    snapshots: tuple[dict[str, Any], ...] = ()
    # with --fit-efficiency: each judged run by fits that saw nothing of its GPU, and of its source
    held_out: tuple[dict[str, Any], ...] = ()
    # with --fit-efficiency: the figures of all GPUs, by the fit to all runs and as the program has them
    kernel_model: dict[str, Any] | None = None

@dataclass(init=False, repr=False, eq=False)
class Cluster(Value):
    """The GPUs, nodes and network."""
    gpu: str
    gpus: int
    nodes: int
    gpus_per_node: int
    # per GPU, as nvidia-smi reports it
    memory_bytes: int
    # less what the driver keeps
    usable_memory_bytes: int
    # less the headroom: what a plan may need
    available_memory_bytes: int
    headroom: float
    available_host_memory_bytes_per_node: int
    host_memory_bytes_per_node: int
    node: str
    network: str | None
    # values that no option gave, and their defaults
    assumptions: tuple[str, ...]
    instance: Instance | None = None

@dataclass(init=False, repr=False, eq=False)
class Collective(Value):
    """Calls of one kind in one optimizer step."""
    operation: str
    group: str
    group_size: int
    phase: str
    dtype: str
    purpose: str
    # calls
    count: int
    elements: int
    # as nccl-tests counts: output of an all_gather, input of a reduce_scatter, else the buffer
    bytes: int
    # what a ring sends from one GPU
    wire_bytes_per_gpu: int
    # of NCCL's choice, inside the node
    inside_bytes_per_gpu: int
    # and out of it
    outside_bytes_per_gpu: int
    # all calls, back to back
    seconds: float
    algorithm: str
    protocol: str

@dataclass(init=False, repr=False, eq=False)
class Communication(Value):
    """The traffic of one optimizer step."""
    collectives: tuple[Collective, ...]
    bytes: int
    wire_bytes_per_gpu: int
    host_to_device_bytes: int
    device_to_host_bytes: int
    inside_bytes_per_gpu: int
    outside_bytes_per_gpu: int

@dataclass(init=False, repr=False, eq=False)
class ComparedHardware(Value):
    """A GPU or cloud shape, and the best plan of the question on it."""
    name: str
    # "gpu", "instance"
    kind: str
    fits: bool
    # the reason why nothing can be planned there
    impossible: str | None
    # id of the best plan, or of the one that misses by least
    plan: str | None
    tokens_per_second: float | None
    tokens_per_gpu_hour: float | None
    # half of the predicted speeds of that framework on that GPU, or on any, were further off
    speed_median_error: float | None
    # as given
    price_per_gpu_hour: float | None
    # price over tokens per GPU-hour, whether or not the plan fits
    cost_per_million_tokens: float | None
    report: results.Report | None

@dataclass(init=False, repr=False, eq=False)
class Comparison(Value):
    """The two fastest, and every plan against the baseline."""
    faster: str | None
    slower: str | None
    ratio: float | None
    # Nearer to each other than tie_within.
    tie: bool | None
    # Half of the predicted speeds of that framework on that GPU were further off.
    tie_within: float | None
    link: Link | None
    crossover: Crossover | None
    # What the deltas are from: a plan's id, or the file of a saved report.
    baseline: str
    # One per plan, in the order in which they were asked for; null where a saved report has no such plan.
    deltas: tuple[PlanDeltas, ...]

@dataclass(init=False, repr=False, eq=False)
class Crossover(Value):
    """The speed of that link at which both are equally fast."""
    bytes_per_second: float
    faster_below: str
    faster_above: str

@dataclass(init=False, repr=False, eq=False)
class DeadlineReport(Value):
    """Runs of a budget within a time: numbers of GPUs, the fewest, cheapest and fastest of those in time."""
    within_seconds: float
    fewest: int | None
    cheapest: int | None
    fastest: int | None
    nearest: int | None
    runs: tuple[TimedRun, ...]

@dataclass(init=False, repr=False, eq=False)
class Delta(Value):
    """A difference from the baseline: in bytes, seconds or tokens per second, and as a fraction of its figure."""
    absolute: int
    # Of the baseline's figure; null where that is 0.
    fraction: float | None

@dataclass(init=False, repr=False, eq=False)
class Edit(Value):
    """Text that replaces what stands between two places of the file."""
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

@dataclass(init=False, repr=False, eq=False)
class EngineShares(Value):
    """Shares of a GPU for vLLM: the least with which it starts, and that runs all sequences of a generation at once."""
    starts: float | None
    holds_all: float | None
    sequences: int

@dataclass(init=False, repr=False, eq=False)
class ErrorGroup(Value):
    """Errors of one kind of figure, as fractions; None where nothing was judged."""
    kind: str
    statistic: str
    records: int
    judged: int
    skipped: int
    # of absolute errors; null where nothing was judged
    median_error: float | None
    p90_error: float | None
    worst_error: float | None
    # share of the judged that are too low by more than 5 %
    under_predicted: float | None
    # share of the judged that are not too low
    cautious: float | None
    # judged records that are equal, to the byte and the call
    exact: int
    # of peaks whose phase was seen, the share that is predicted in it
    phase_right: float | None
    # feature that is not modelled: records that it keeps from being judged
    skip_reasons: dict[str, int]

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
    symbols: tuple[Symbol, ...]
    # bytes of each term at the peak
    memory: tuple[ExplainedFigure, ...]
    # bytes of the smallest device, and how they come about
    required: tuple[ExplainedFigure, ...]
    # bytes of the states as the ZeRO paper tabulates them
    steady: tuple[ExplainedFigure, ...]
    # seconds of the step and its speed
    time: tuple[ExplainedFigure, ...]
    # bytes per node, with offload
    host: tuple[ExplainedFigure, ...] = ()
    # bytes of loading, evaluation, generation and saving
    moments: tuple[ExplainedFigure, ...] = ()
    # bytes sent per GPU and step; absent where nothing is sent
    communication: tuple[ExplainedFigure, ...] = ()

@dataclass(init=False, repr=False, eq=False)
class ExposedTime(Value):
    """Seconds of communication that compute does not hide, by phase."""
    forward: float
    loss: float
    backward: float
    step: float

@dataclass(init=False, repr=False, eq=False)
class Family(Value):
    """Plans that differ in micro-batch and accumulation alone, and the outcome of their search."""
    id: str
    framework: str
    activation_checkpointing: str
    # null: nothing goes through them.
    buckets: str | None
    outcome: str
    reason: str
    candidates: int
    largest_micro_batch: int
    micro_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None
    required_low: int | None = None
    host: int | None = None
    tokens_per_second: float | None = None

@dataclass(init=False, repr=False, eq=False)
class Figure(Value):
    """A figure of a profile with its unit, and its source."""
    value: str
    source: str

@dataclass(init=False, repr=False, eq=False)
class Finding(Value):
    """A problem, its effect in DeepSpeed, and the value to write instead."""
    rule: str
    # "error", "warning" or "note"
    severity: str
    # JSON pointer
    pointer: str
    line: int
    column: int
    found: str
    outcome: str
    effect: str
    advice: str
    fix: Fix | None
    # Repairs that give up another part of what is written.
    other_fixes: tuple[Fix, ...]

@dataclass(init=False, repr=False, eq=False)
class FitReport(Document):
    """The answer of `fit` (zplan.fit/1): `questions`, or `oom` where a message was to be explained."""
    zplan_version: str
    warnings: tuple[str, ...]
    questions: tuple[SolvedQuestion, ...] = ()
    oom: OomReport | None = None
    deadline: DeadlineReport | None = None

@dataclass(init=False, repr=False, eq=False)
class FitVerdicts(Value):
    """Runs whose GPU is known: whether they ran, and whether they were predicted to fit."""
    ran: int
    ran_and_fits: int
    failed: int
    failed_and_fits: int

@dataclass(init=False, repr=False, eq=False)
class Fix(Value):
    """A repair."""
    what: str
    edits: tuple[Edit, ...]

@dataclass(init=False, repr=False, eq=False)
class FixedFinding(Value):
    """A repair that was made."""
    rule: str
    pointer: str
    what: str

@dataclass(init=False, repr=False, eq=False)
class FoundPlan(Value):
    """A plan that a search found: host in bytes per node, step in seconds."""
    id: str
    framework: str
    activation_checkpointing: str
    # null: nothing goes through them.
    buckets: str | None
    micro_batch_size: int
    gradient_accumulation_steps: int
    global_batch_size: int
    required_low: int
    host: int
    wire_bytes_per_gpu: int
    step: float
    tokens_per_second: float
    share_of_fastest: float
    # As fast as the fastest within tie_within.
    tie: bool
    # Half of the predicted speeds of that framework on that GPU were further off.
    tie_within: float

@dataclass(init=False, repr=False, eq=False)
class HardwareCatalogue(Document):
    """The answer of `hardware` (zplan.hardware/1)."""
    gpus: tuple[HardwareProfile, ...]
    nodes: tuple[HardwareProfile, ...]
    networks: tuple[HardwareProfile, ...]
    instances: tuple[HardwareProfile, ...]

@dataclass(init=False, repr=False, eq=False)
class HardwareComparison(Document):
    """The answer of `compare_hardware` (zplan.hardware-comparison/1)."""
    zplan_version: str
    # "given", "fastest", "cheapest"
    order: str
    # in the order in which they were named; by tokens per second or money per token, first those on which a plan fits,
    # then those on which none does, then those on which nothing can be planned
    hardware: tuple[ComparedHardware, ...]

@dataclass(init=False, repr=False, eq=False)
class HardwareProfile(Value):
    """A GPU, a node type or a network."""
    # "GPU", "node" or "network"
    kind: str
    name: str
    aliases: tuple[str, ...]
    figures: dict[str, Figure]

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
class JudgedRecord(Value):
    """One prediction against its measurement: bytes, seconds or tokens per second, by its statistic."""
    id: str
    file: str
    kind: str
    statistic: str
    predicted: float | None
    measured_low: float | None
    # null with measured_low: at least that
    measured_high: float | None
    # signed, relative to the nearer end of the measurement, 0 inside; null: skipped
    error: float | None
    exact: bool
    phase_right: bool | None
    # of several figures, the one that is furthest off
    part: str | None
    # features that are not modelled
    skipped: str | None
    subset: str | None
    # on the GPU that was used
    ran: bool | None
    # whether it was predicted to run there
    fits: bool | None
    # why the check fails, whatever the tolerance: a replayed step's calls that are not the plan's
    failure: str | None
    # null: no training
    framework: str | None
    # null: no training
    method: str | None
    # name of the profile; null: the source names none, or none ran it
    card: str | None
    # that the source of a published figure was given
    grade: str | None
    # the source ran a slower attention kernel than plans assume
    slower_attention: bool

@dataclass(init=False, repr=False, eq=False)
class Launch(Value):
    """Command lines that start the recommended plan; None where its framework has none."""
    launcher: str
    deepspeed: str | None
    torchrun: str | None
    swift: str | None
    accelerate: str | None
    torchtitan: str | None

@dataclass(init=False, repr=False, eq=False)
class LengthRow(Value):
    """The longest sequence with some means: no loss of speed, levers, everything."""
    strategy: str
    required: int
    host: int
    step: float
    tokens_per_second: float
    means: str
    options: str
    value: int | None

@dataclass(init=False, repr=False, eq=False)
class Lever(Value):
    """A setting of the training script."""
    option: str
    name: str
    without: WithoutLever | None

@dataclass(init=False, repr=False, eq=False)
class Link(Value):
    """The link that decides between the two fastest: the network out of a node, or the collectives' inside the only
    one."""
    name: str
    between_nodes: bool
    bytes_per_second: float
    lowest_tried: float
    highest_tried: float

@dataclass(init=False, repr=False, eq=False)
class LintPlan(Value):
    """The plan of the config: bytes, seconds."""
    id: str
    fits: bool
    # planned as --fix would write the file
    as_fixed: bool
    required: int
    available: int
    step_seconds: float
    tokens_per_second: float
    why: tuple[str, ...]

@dataclass(init=False, repr=False, eq=False)
class LintReport(Document):
    """The answer of `lint` (zplan.lint/1); `ok` is False where errors remain."""
    zplan_version: str
    deepspeed_version: str
    files: tuple[LintedFile, ...]
    summary: LintSummary

@dataclass(init=False, repr=False, eq=False)
class LintSummary(Value):
    """How many findings there are, and how many of them `fix` repairs."""
    errors: int
    warnings: int
    notes: int
    fixable: int

@dataclass(init=False, repr=False, eq=False)
class LintedFile(Value):
    """A file and its findings."""
    file: str
    config_style: str
    findings: tuple[Finding, ...]
    fixed: tuple[FixedFinding, ...]
    summary: LintSummary
    plan: LintPlan | None
    not_planned: str | None

@dataclass(init=False, repr=False, eq=False)
class Memory(Value):
    """Bytes on the rank that needs most. The first eight are what each holds at the peak, and add up to it."""
    parameters: int
    gradients: int
    # master weights and moments
    optimizer_states: int
    activations: int
    loss: int
    communication_buffers: int
    temporaries: int
    # CUDA context, NCCL, cuBLAS workspaces
    framework_overhead: int
    # bytes in use at the worst moment
    peak: int
    # torch.cuda.max_memory_allocated()
    peak_allocated: int
    # torch.cuda.max_memory_reserved() on a GPU with memory to spare
    peak_reserved: int
    # the smallest device on which the run completes
    required: int
    # if the allocator packed without gaps
    required_low: int
    # if cached blocks were never freed
    required_high: int
    # "forward", "loss", "backward" or "step"
    peak_phase: str
    steady: SteadyState
    # per node, of offload
    host: int
    host_pinned: int
    # per node
    nvme: int
    timeline: tuple[Moment, ...]

@dataclass(init=False, repr=False, eq=False)
class Model(Value):
    """The model that is trained."""
    name: str
    # "catalogue", "config", "size", "cache" or "hub"
    source: str
    # where its shape comes from
    origin: str
    architecture: str
    parameters: int
    trainable_parameters: int
    # per token; fewer than `parameters` in a mixture of experts
    active_parameters: int
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    key_value_heads: int
    head_size: int
    vocabulary_size: int
    tied_embeddings: bool
    # 0: dense
    experts: int
    experts_per_token: int

@dataclass(init=False, repr=False, eq=False)
class ModelCatalogue(Document):
    """The answer of `models` (zplan.models/1)."""
    models: tuple[CatalogueModel, ...]

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
    tensors: tuple[Tensor, ...]

@dataclass(init=False, repr=False, eq=False)
class ModelFit(Value):
    """A model of the catalogue that fits."""
    strategy: str
    required: int
    host: int
    step: float
    tokens_per_second: float
    name: str
    parameters: int

@dataclass(init=False, repr=False, eq=False)
class Moment(Value):
    """Live bytes at one moment of the step."""
    phase: str
    at: str
    bytes: int
    layer: int | None = None

@dataclass(init=False, repr=False, eq=False)
class OomChange(Value):
    """A change: the bytes that it frees, and its speed as a ratio of tokens per second."""
    change: str
    # the change in the words of training scripts; empty: options alone say it
    script: str
    options: str
    launch: str
    fits: bool
    illegal: tuple[str, ...]
    strategy: str | None = None
    frees: int | None = None
    required: int | None = None
    host: int | None = None
    tokens_per_second: float | None = None
    speed: float | None = None

@dataclass(init=False, repr=False, eq=False)
class OomExplanation(Value):
    """A cause, the likeliest first: what ran, what to check in the script, and what speaks for it."""
    cause: str
    what: str
    check: str
    evidence: tuple[str, ...]
    options: str
    # of the simulated run from the message, as a share of PyTorch's memory; null: the message alone
    distance: float | None
    frees: int | None

@dataclass(init=False, repr=False, eq=False)
class OomMatch(Value):
    """Places of the step that request blocks of the size in the message."""
    term: str
    phase: str
    at: str
    times: int
    bytes: int

@dataclass(init=False, repr=False, eq=False)
class OomMessage(Value):
    """An out-of-memory message taken apart, in bytes."""
    line: int
    device: str
    gpu: int | None
    rank: int | None
    asked: int
    asked_text: str
    capacity: int | None
    free: int | None
    allowed: int | None
    allocated: int | None
    unallocated: int | None
    private_pools: int | None
    process: int | None
    outside_pytorch: int | None
    other_processes: int | None
    cause: str
    sentences: tuple[str, ...]

@dataclass(init=False, repr=False, eq=False)
class OomPlan(Value):
    """The plan of the run that ended."""
    strategy: str
    fits: bool
    required: int
    available: int
    tokens_per_second: float
    why: tuple[str, ...]

@dataclass(init=False, repr=False, eq=False)
class OomRefusal(Value):
    """The block that the allocator could not place."""
    term: str
    phase: str
    at: str
    layer: int | None
    bytes: int
    held: int

@dataclass(init=False, repr=False, eq=False)
class OomReplay(Value):
    """The run in an allocator of `pool` bytes."""
    pool: int
    completes: bool
    refused: OomRefusal | None
    matches: tuple[OomMatch, ...]

@dataclass(init=False, repr=False, eq=False)
class OomReport(Value):
    """Out-of-memory messages, their meaning, and changes that help."""
    messages: tuple[OomMessage, ...]
    plan: OomPlan | None
    replay: OomReplay | None
    causes: tuple[OomExplanation, ...]
    changes: tuple[OomChange, ...]

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
    why: tuple[str, ...]
    # the stages of a pipeline, in order; absent: there is one
    stages: tuple[Stage, ...] = ()
    # device and host memory of loading, evaluation, generation and saving, in order
    moments: tuple[RunMoment, ...] = ()
    # the first moment at which memory does not suffice
    short_moment: str | None = None
    run: RunCost | None = None
    # The ranges that held a share of comparable measured runs, around this plan's figures.
    ranges: dict[str, Any] | None = None
    explain: Explanation | None = None
    # With --explain: what such figures were validated against: of each kind and statistic the narrowest group of
    # measurements that covers the plan.
    accuracy: tuple[Accuracy, ...] = ()
    training: Training | None = None

@dataclass(init=False, repr=False, eq=False)
class PlanDelta(Value):
    """The differences of a plan from the baseline."""
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

@dataclass(init=False, repr=False, eq=False)
class PlanDeltas(Value):
    """A plan's differences; None where a saved report has no such plan."""
    id: str
    delta: PlanDelta | None

@dataclass(init=False, repr=False, eq=False)
class Range(Value):
    """Ends of a figure, as far apart as predicted speeds were off."""
    low: float
    high: float

@dataclass(init=False, repr=False, eq=False)
class Rejection(Value):
    """A strategy that is not legal."""
    id: str
    reasons: tuple[str, ...]

@dataclass(init=False, repr=False, eq=False)
class Report(Document):
    """The answer of `plan`, `compare`, `search` and `explain` (zplan.report/1)."""
    zplan_version: str
    model: Model
    cluster: Cluster
    training: Training
    # Every plan considered, the recommended one first.
    plans: tuple[results.Plan, ...]
    # its id; None where nothing fits
    recommended: str | None
    rejected: tuple[Rejection, ...]
    alternative: Alternative | None
    # null where nothing asked for it: of compare, or of one file on stdout
    advice: Advice | None
    # The recommended plan's, where it is DeepSpeed's.
    ds_config: dict[str, Any] | None
    # accelerate's config of the recommended plan, where it is FSDP2's.
    fsdp_config: dict[str, Any] | None
    # Command lines; null where a launcher has none for the recommended plan's framework.
    launch: Launch | None
    # What the recommended plan assumes of the training script; None where nothing fits.
    script: tuple[ScriptSetting, ...] | None
    # of `compare`
    comparison: Comparison | None
    warnings: tuple[str, ...]
    # the calls of one optimizer step of the first plan, all micro-steps, in order of issue; null where there are more
    # than 20000 entries
    schedule: Schedule | None
    # null: not a search.
    search: Search | None
    # With --trainer unsloth: what the run takes, and how far it reaches, under the trainer and under the one that its
    # script runs without it.
    reach: tuple[TrainerReach, ...] = ()
    # with --recipe: what trainers' configs said
    recipes: tuple[dict[str, Any], ...] = ()
    # with --trainer: what trainers chose that the user left open
    trainer_defaults: tuple[dict[str, Any], ...] = ()
    # with --lengths: the data set's samples, and what batches the first plan makes of them
    lengths: dict[str, Any] | None = None

@dataclass(init=False, repr=False, eq=False)
class Resident(Value):
    """Bytes that one use of memory takes at a moment of a run."""
    name: str
    # of each rank
    device: int
    # of each rank
    host: int
    # what the node's first rank has beside that
    host_of_first_rank: int

@dataclass(init=False, repr=False, eq=False)
class RunCost(Value):
    """How long the whole run takes and what it costs."""
    steps: int
    wall_seconds: float
    gpu_hours: float
    # None: no price
    cost: float | None
    # measured speeds that the ranges are from
    speeds_judged: int
    wall_seconds_range: Range | None
    cost_range: Range | None

@dataclass(init=False, repr=False, eq=False)
class RunMoment(Value):
    """Memory at one moment of a run: "load", "training", "evaluation", "generation", "save_model" or
    "save_checkpoint"."""
    moment: str
    # bytes of a rank; 0 where the moment takes none
    device: int
    # bytes
    host_per_node: int
    parts: tuple[Resident, ...]
    # a change that needs less; empty where none is known
    needs_less: str

@dataclass(init=False, repr=False, eq=False)
class Rung(Value):
    """One step of the way to a longer sequence: the longest with all that was kept so far, in tokens."""
    means: str
    step: float
    options: str
    value: int | None
    # tokens more than the last rung that was kept; negative where the step takes more memory than it frees
    gained: int
    kept: bool
    strategy: str
    required: int
    host: int
    tokens_per_second: float

@dataclass(init=False, repr=False, eq=False)
class Schedule(Value):
    """The calls of one optimizer step of the first plan, in order of issue."""
    plan: str
    ranks: int
    tensor_parallel: int
    data_parallel: int
    # memory.required of the plan
    device_memory_bytes: int
    # time.step of the plan
    step_seconds: float
    # sum over the calls of seconds times times, hidden or not
    communication_seconds: float
    # of step_seconds: what offload adds, which no call shows
    offload_seconds: float
    # of the compute stream, behind the last call
    compute_seconds_behind: float
    calls: tuple[Call, ...]
    # ranks that divide a sample's tokens for its heads (Ulysses); absent: 1
    sequence_parallel: int | None = None
    # ranks that divide a sample's tokens in a ring; absent: 1
    context_parallel: int | None = None
    # copies of what FSDP2 shards (hybrid sharding); absent: 1
    dp_replicate: int | None = None
    # ranks that divide a layer's experts under DeepSpeed's AutoEP; absent: experts are not replaced
    expert_parallel: int | None = None
    # expert-parallel groups are of every (ranks / expert_parallel)-th rank; absent: of neighbours
    data_before_expert: bool | None = None

@dataclass(init=False, repr=False, eq=False)
class ScriptSetting(Value):
    """A setting of the training script."""
    # trainer: TrainingArguments, or the recipe's config; config: what accelerate launches with
    place: str
    key: str | None
    value: str
    # key and value as they are written
    text: str

@dataclass(init=False, repr=False, eq=False)
class Search(Value):
    """All that a search looked at."""
    candidates: int
    stopped: bool
    # plans of frameworks with pipeline stages, by what became of them
    layouts: dict[str, int] | None
    # The fastest of each strategy, fastest first.
    best: tuple[FoundPlan, ...]
    # What needs less device or host memory than all that is faster.
    front: tuple[FoundPlan, ...]
    # Every family of plans, with what became of it.
    families: tuple[Family, ...]

@dataclass(init=False, repr=False, eq=False)
class Solution(Value):
    """The most or the least that fits with one strategy, and what bounds it."""
    strategy: str
    required: int
    host: int
    step: float
    tokens_per_second: float
    # null: it fits nowhere, and the figures are those where it comes nearest
    value: int | None
    # the next value, which does not fit; null at the end of the range
    next: int | None
    limit: str
    reason: str

@dataclass(init=False, repr=False, eq=False)
class SolvedQuestion(Value):
    """One unknown: `answer` in `unit` (samples, tokens, gpus, parameters, gib), None where nothing fits."""
    solve: str
    # of answer, value and next
    unit: str
    # null: nothing fits
    answer: int | None
    strategy: str | None
    why: tuple[str, ...]
    solutions: tuple[Solution, ...]
    rejected: tuple[Rejection, ...]
    cards: tuple[CardFit, ...]
    models: tuple[ModelFit, ...]
    # longest sequences, each means on top of those before it that were kept; absent: on one GPU, or where more than the
    # sequence is asked for
    ladder: tuple[Rung, ...] = ()
    shares: EngineShares | None = None
    lengths: tuple[LengthRow, ...] = ()

@dataclass(init=False, repr=False, eq=False)
class Stage(Value):
    """Memory and time of the neediest rank of one stage."""
    stage: int
    # bytes of the smallest device
    required: int
    # bytes
    required_low: int
    # bytes
    required_high: int
    peak_phase: str
    # when the stage is through with the step
    seconds: float

@dataclass(init=False, repr=False, eq=False)
class SteadyState(Value):
    """Bytes of the states as the ZeRO paper tabulates them."""
    parameters: int
    gradients: int
    optimizer_states: int

@dataclass(init=False, repr=False, eq=False)
class StepTime(Value):
    """Seconds of one optimizer step, and its speed."""
    # compute + launching + exposed_communication + offload + optimizer + generation + scoring
    step: float
    # products + attention + other_kernels
    compute: float
    # all of it, hidden or not
    communication: float
    exposed_communication: float
    offload: float
    optimizer: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    # model FLOPs utilisation
    mfu: float
    bound: str
    products: float
    attention: float
    other_kernels: float
    # the device waits for the host
    launching: float
    exposed_by_phase: ExposedTime
    exposed_tensor_parallel: float
    # with recomputation
    hfu: float
    # of completions, by arithmetic alone
    generation: float = 0.0
    # of ppo's completions by reference, value and reward model, not measured
    scoring: float = 0.0

@dataclass(init=False, repr=False, eq=False)
class Strategy(Value):
    """One way to train."""
    framework: str
    zero_stage: int
    tensor_parallel: int
    data_parallel: int
    # "none", "cpu" or "nvme"
    offload_optimizer: str
    offload_parameters: str
    activation_checkpointing: str
    # samples
    micro_batch_size: int
    gradient_accumulation_steps: int
    # samples
    global_batch_size: int
    reduce_bucket_elements: int
    prefetch_bucket_elements: int
    persistence_threshold_elements: int
    # ranks that divide a sample's tokens for its heads (Ulysses); absent: 1
    sequence_parallel: int = 1
    # ranks that divide a sample's tokens in a ring; absent: 1
    context_parallel: int = 1
    # stages that divide the layers, under Megatron-Core; absent: 1
    pipeline_parallel: int = 1
    # chunks of layers on each pipeline stage, under Megatron-Core; absent: 1
    virtual_stages: int = 1
    # arguments of Megatron-Core that are set, by its own names without dashes, NAME or NAME=VALUE; absent: another
    # framework
    megatron: tuple[str, ...] = ()
    # copies of what FSDP2 shards (hybrid sharding); absent: 1
    dp_replicate: int = 1
    # ranks that divide a layer's experts under DeepSpeed's AutoEP or Megatron-Core; absent: 1
    expert_parallel: int = 1
    # ranks that divide each expert's tensors, under Megatron-Core; absent: 1
    expert_tensor_parallel: int = 1
    # "allgather" or "alltoall", of a ring
    key_rotation: str | None = None
    # slices of the tokens; absent: not tiled
    tiled_mlp: Any | None = None
    # slices of the tokens; absent: not tiled
    tiled_loss: Any | None = None
    # who keeps inputs of layers, or all that autograd saves (trl, torchtune), on the host
    checkpoint_offload: str | None = None

@dataclass(init=False, repr=False, eq=False)
class Symbol(Value):
    """A letter of the formulas."""
    symbol: str
    meaning: str
    value: str

@dataclass(init=False, repr=False, eq=False)
class Tensor(Value):
    """A parameter tensor, of each of the layers that `where` counts."""
    where: str
    name: str
    shape: tuple[int, ...]
    role: str

@dataclass(init=False, repr=False, eq=False)
class TimedRun(Value):
    """A run on so many GPUs, as its fastest plan trains it."""
    gpus: int
    nodes: int
    framework: str
    strategy: str
    micro_batch: int
    grad_accum: int
    required: int
    tokens_per_second: float
    steps: int
    seconds: float
    gpu_hours: float
    cost: float | None

@dataclass(init=False, repr=False, eq=False)
class TrainerReach(Value):
    """What a run takes under a trainer, and how far it reaches with all else as asked."""
    # name and release
    trainer: str
    fits: bool
    # of a GPU
    required_bytes: int
    step_seconds: float
    # in samples; null: none fits
    largest_micro_batch: int | None
    # in tokens of a sample; null: none fits
    longest_sequence: int | None

@dataclass(init=False, repr=False, eq=False)
class Training(Value):
    """The settings that all plans of an answer share."""
    method: str
    lora_rank: int | None
    lora_targets: tuple[str, ...] | None
    lora_dropout: float | None
    prepares_kbit_training: bool
    quantization: str | None
    precision: str
    optimizer: str
    master_weights: bool
    # tokens
    sequence_length: int
    attention: str
    expandable_segments: bool
    fused_loss: bool
    loss_chunks: int
    sliced_head: bool
    # the library whose layers run
    modules: str
    framework: str
    deepspeed_version: str
    # images of each sample, of an image-text model
    images: dict[str, Any] | None = None
    # frozen parts of an image-text model: vision, projector
    frozen_parts: tuple[str, ...] = ()
    # in memory, where there are several: one trains
    adapters: int = 1
    # adapters with magnitudes, where they have them
    dora: bool = False
    # copies trained beside adapters, where there are some
    modules_to_save: tuple[str, ...] = ()
    # one copy of tied embeddings
    ties_saved_modules: bool = False
    # false where adapters have the weights' type
    fp32_adapters: bool = True
    # type that packed values are stored in, where it can be sharded
    quant_storage: str | None = None
    # where it is not next tokens
    objective: str = 'sft'
    # of training on completions that the model generates
    rollout: dict[str, Any] | None = None
    # of gkd
    distillation: dict[str, Any] | None = None
    # layers that train while all else is frozen
    trained_layers: tuple[int, ...] = ()
    # tower and projector train whole beside the adapters
    trains_tower: bool | None = None
    # logits exist in the multiprocessors alone; fused_loss is true, too
    cut_cross_entropy: bool = False
    # how float8 layers multiply; absent: they do not
    float8: str | None = None
    # what torch.compile compiles; absent: nothing
    compile: str | None = None
    # TRL's head without logits
    fused_head: bool = False
    # what the loss shifts, where it is not labels
    loss_shift: str = 'labels'
    # whose kernels layers run in, where they are not PyTorch's
    kernels: str = 'torch'
    # of preference training, grpo and ppo: what log-probabilities are compared with
    reference: str | None = None

@dataclass(init=False, repr=False, eq=False)
class WithoutLever(Value):
    """The same strategy without the lever: required_low in bytes."""
    id: str
    fits: bool
    required_low: int
    tokens_per_second: float
