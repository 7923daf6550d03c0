// Compares the parameters that ZeRO-3 gathers and releases at every module with DeepSpeed's own log.

#include "planner/frameworks/deepspeed/zero/coordinator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "hardware_profiles/cluster.h"
#include "planner/frameworks/deepspeed/zero/gathered_memory.h"
#include "planner/frameworks/deepspeed/zero/partitioned_run.h"
#include "planner/plan/rank_run.h"
#include "tests/planner/frameworks/deepspeed/zero/decoder_hooks.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using Kind = GatherAction::Kind;
using Lines = std::vector<std::string>;

// ---- recorded runs: tests/reference/zero3_gathers/README.md
// ------------------------------------------------

Lines split(const std::string& text, char separator) {
  Lines parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

/// "1,3,5-7"
std::vector<std::int32_t> numbers(const std::string& text) {
  std::vector<std::int32_t> list;
  for (const std::string& part : split(text, ',')) {
    const Lines ends = split(part, '-');
    for (std::int32_t i = std::stoi(ends.front()); i <= std::stoi(ends.back()); ++i) list.push_back(i);
  }
  return list;
}

/// The other way round.
std::string ranges(std::span<const std::int32_t> list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < list.size() && list[i + 1] == list[i] + 1) ++i;
    text += (text.empty() ? "" : ",") + std::to_string(list[first]);
    if (i > first) text += "-" + std::to_string(list[i]);
  }
  return text;
}

/// "802816 bfloat16 frozen persistent"
ShardedParameter parameter_from(const std::string& text) {
  const std::map<std::string, std::int64_t> sizes{{"bfloat16", 2}, {"float32", 4}};
  const Lines words = split(text, ' ');
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  return {Elements(std::stoll(words[0])), Bytes(sizes.at(words[1])), !has("frozen"), has("persistent")};
}

ShardedModule module_from(const Json& json) {
  if (json.is_string()) return {numbers(json)};
  return {numbers(json["own"]), numbers(json["subtree"]), json.value("leaf", false)};
}

/// "f3": module 3 is entered in the forward; "F3": left. "b3", "B3": the same in the backward. "x3:7": it
/// reads parameter 7 of another module. "k7": parameter 7 is kept, "d7": let go of.
ModuleEvent event_from(const std::string& text) {
  const auto kind = static_cast<ModuleEvent::Kind>(std::string("fFbBxkd").find(text[0]));
  const Lines names = split(text.substr(1), ':');
  if (kind < ModuleEvent::Kind::read) return {kind, std::stoi(names[0]), -1};
  if (kind > ModuleEvent::Kind::read) return {kind, -1, std::stoi(names[0])};
  return {kind, std::stoi(names[0]), std::stoi(names[1])};
}

ModuleTape tape_from(const Json& run) {
  ModuleTape tape;
  for (const Json& each : run["parameters"]) tape.parameters.push_back(parameter_from(each));
  for (const Json& each : run["modules"]) tape.modules.push_back(module_from(each));
  for (const std::string line : run["events"])
    for (const std::string& each : split(line, ' ')) tape.events.push_back(event_from(each));
  if (run.contains("named")) tape.named = numbers(run["named"]);
  return tape;
}

GatherOptions options_from(const Json& json) {
  const auto elements = [&](const char* key) { return Elements(json[key].get<std::int64_t>()); };
  GatherOptions options;
  options.data_parallel = json["data_parallel"];
  options.micro_steps = json["micro_steps"];
  options.prefetch_bucket_size = elements("prefetch_bucket_size");
  options.max_live_parameters = elements("max_live_parameters");
  options.max_reuse_distance = elements("max_reuse_distance");
  options.overlap_comm = json["overlap_comm"];
  options.offloaded = json["offloaded"];
  options.one_by_one = json["allgather_sequential"];
  options.by_all_reduce = json["use_all_reduce"];
  options.secondary_partition = json["secondary_partition"];
  return options;
}

/// The actions at one event. Waits and releases are sorted, since Python's sets have no order.
struct Happening {
  Lines gathers, waits;
  std::vector<std::int32_t> released;

  [[nodiscard]] std::string text() {
    std::sort(waits.begin(), waits.end());
    std::sort(released.begin(), released.end());
    Lines parts = gathers;
    parts.insert(parts.end(), waits.begin(), waits.end());
    if (!released.empty()) parts.push_back("release " + ranges(released));
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

std::string gather_text(const ModuleTape& tape, const GatherAction& action,
                        std::span<const std::int32_t> parameters) {
  const std::string which = ranges(parameters);
  if (action.kind == Kind::gather_now) return "at once " + which;
  if (action.placement == Placement::views) return "reduced " + which;
  if (!is_collective(action)) return "shard " + which;
  const Elements elements = call_elements(parameters, tape.parameters, action.ranks);
  return fmt::format("{} {} of {} on {}", action.placement == Placement::own_buffer ? "alone" : "together",
                     which, elements.value, action.ranks);
}

Lines lines(const ModuleTape& tape, const GatherPlan& plan) {
  std::map<std::int32_t, Happening> events;
  for (const GatherAction& action : plan.actions) {
    const auto parameters = plan.parameters_of(action);
    if (action.kind == Kind::keep_secondary || action.kind == Kind::drop_buffer) continue;
    if (action.kind == Kind::keep || action.kind == Kind::let_go) continue;
    Happening& at = events[action.event];
    if (action.kind == Kind::gather || action.kind == Kind::gather_now)
      at.gathers.push_back(gather_text(tape, action, parameters));
    if (action.kind == Kind::wait) at.waits.push_back("wait " + ranges(parameters));
    if (action.kind == Kind::release)
      at.released.insert(at.released.end(), parameters.begin(), parameters.end());
  }
  Lines lines;
  for (auto& [event, happening] : events) lines.push_back(fmt::format("{} {}", event, happening.text()));
  return lines;
}

/// The optimizer's step: what is let go of, and which persistent parameters are gathered.
std::string optimizer_line(const GatherPlan& plan) {
  Happening before;
  std::vector<std::int32_t> gathered;
  for (const GatherAction& action : plan.actions) {
    const auto parameters = plan.parameters_of(action);
    if (action.kind == Kind::release) before.released.assign(parameters.begin(), parameters.end());
    if (action.kind == Kind::gather) gathered.push_back(parameters.front());
  }
  const std::string text = before.text();
  if (gathered.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "persistent " + ranges(gathered);
}

/// Returns the first difference of two lists with its neighbours; empty if they are equal.
std::string first_difference(const Lines& ours, const Lines& theirs) {
  const auto [our, their] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (our == ours.end() && their == theirs.end()) return "";
  std::string text = fmt::format("line {} of {} and {}:\n", our - ours.begin(), ours.size(), theirs.size());
  const auto around = [&](const Lines& lines, Lines::const_iterator at) {
    for (auto each = at - std::min<std::ptrdiff_t>(4, at - lines.begin());
         each != lines.end() && each < at + 4; ++each)
      text += fmt::format("{} {}\n", each == at ? ">" : " ", *each);
  };
  around(ours, our);
  text += "DeepSpeed:\n";
  around(theirs, their);
  return text;
}

class RecordedGathers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    run = test_json("reference/zero3_gathers/modules/" + GetParam() + ".json");
    tape = tape_from(run);
    options = options_from(run["options"]);
  }
  Json run;
  ModuleTape tape;
  GatherOptions options;
};

TEST_P(RecordedGathers, SameCallsWaitsAndReleasesAtEveryModule) {
  for (const StepKind kind : {StepKind::first, StepKind::steady}) {
    const Json& recorded = run[kind == StepKind::first ? "first" : "steady"];
    const StepGathers step = gather_actions(tape, options, kind);
    for (std::size_t i = 0; i < recorded["micro_steps"].size(); ++i)
      EXPECT_EQ(first_difference(lines(tape, step.micro_step(i)), recorded["micro_steps"][i].get<Lines>()),
                "")
          << "micro-step " << i;
    EXPECT_EQ(optimizer_line(step.optimizer_step), recorded["optimizer_step"]);
  }
}

/// Runs of blocks taken, and of blocks given back, with sizes sorted: "+ 200g 100c". g: on the gathers'
/// stream.
Lines block_lines(const std::vector<GatherBlock>& blocks, bool own_stream) {
  std::vector<std::pair<bool, std::vector<std::pair<std::int64_t, char>>>> runs;
  for (const GatherBlock& block : blocks) {
    if (block.use == GatherBlock::Use::secondary_shard) continue;
    if (runs.empty() || runs.back().first != block.taken) runs.push_back({block.taken, {}});
    runs.back().second.push_back({block.size.value, block.on_compute_stream || !own_stream ? 'c' : 'g'});
  }
  Lines lines;
  for (auto& [taken, sizes] : runs) {
    std::sort(sizes.begin(), sizes.end());
    std::string line(1, taken ? '+' : '-');
    for (const auto& [size, stream] : sizes) line += fmt::format(" {}{}", size, stream);
    lines.push_back(line);
  }
  return lines;
}

TEST_P(RecordedGathers, SameBlocksAskedOfTheAllocator) {
  GatheredMemory memory(tape, options, StepKind::first);
  std::vector<GatherBlock> blocks;
  for (const StepKind kind : {StepKind::first, StepKind::steady, StepKind::steady}) {
    const StepGathers step = gather_actions(tape, options, kind);
    for (std::int64_t i = 0; i < options.micro_steps; ++i)
      memory.play(step.micro_step(static_cast<std::size_t>(i)), blocks);
    memory.play(step.optimizer_step, blocks);
  }
  EXPECT_EQ(first_difference(block_lines(blocks, options.overlap_comm), run["blocks"].get<Lines>()), "");
}

TEST_P(RecordedGathers, AStepGivesBackAllButWhatTheNextOneFinds) {
  const StepGathers step = gather_actions(tape, options);
  GatheredMemory memory(tape, options);
  std::vector<GatherBlock> blocks = memory.held_before();
  for (std::int64_t i = 0; i < options.micro_steps; ++i)
    memory.play(step.micro_step(static_cast<std::size_t>(i)), blocks);
  memory.play(step.optimizer_step, blocks);
  std::map<std::int32_t, Bytes> live;
  for (const GatherBlock& block : blocks) {
    const bool as_expected =
        block.taken ? live.emplace(block.block, block.size).second : live.erase(block.block) == 1;
    EXPECT_TRUE(as_expected) << "block " << block.block;
  }
  std::multiset<Bytes> found, left;
  for (const GatherBlock& block : memory.held_before()) found.insert(block.size);
  for (const auto& [name, size] : live) left.insert(size);
  EXPECT_EQ(left, found);
}

TEST_P(RecordedGathers, SameParametersArePersistent) {
  const Json& knobs = run["options"];
  ModuleTape marked = tape;
  mark_persistent(marked, Elements(knobs["persistence_threshold"].get<std::int64_t>()),
                  Elements(knobs["model_persistence_threshold"].get<std::int64_t>()));
  EXPECT_EQ(marked, tape);
}

/// Modules by what they hold: "f13-14" enters the forward of the one that holds parameters 13 and 14. Reads
/// are left out: DeepSpeed sees them only where the parameter is sharded. What an operator lets go of at once
/// has no order.
Lines event_lines(const ModuleTape& tape) {
  Lines lines;
  for (const ModuleEvent& event : tape.events) {
    if (event.kind == ModuleEvent::Kind::read) continue;
    const std::string kind(1, "fFbBxkd"[static_cast<std::size_t>(event.kind)]);
    if (event.module < 0) {
      lines.push_back(kind + std::to_string(event.parameter));
      continue;
    }
    const ShardedModule& module = tape.modules[static_cast<std::size_t>(event.module)];
    std::vector<std::int32_t> held = module.leaf ? module.subtree : module.own;
    std::sort(held.begin(), held.end());
    lines.push_back(kind + ranges(held));
  }
  const auto let_go = [](const std::string& line) { return line[0] == 'd'; };
  for (auto at = lines.begin(); at != lines.end();) {
    const auto first = std::find_if(at, lines.end(), let_go);
    at = std::find_if_not(first, lines.end(), let_go);
    std::sort(first, at);
  }
  return lines;
}

/// The run according to the model's hooked program.
ModuleTape planned_modules(const Json& run) {
  const std::map<std::string, Checkpointing> kinds{{"none", Checkpointing::none},
                                                   {"reentrant", Checkpointing::full},
                                                   {"non-reentrant", Checkpointing::full}};
  const Model model = read_config(JsonReader(run["config"], "recorded model"));
  Training training;
  training.sequence_length = 64;
  const std::string checkpointing = run.value("checkpointing", "none");
  training.reentrant_checkpointing = checkpointing == "reentrant";
  if (run.contains("lora")) {
    training.method = Method::lora;
    training.lora_rank = 16;
    training.lora_targets.modules = {"all-linear"};
    training.fp32_adapters = run["lora"] == "fp32";
  }
  Strategy strategy;
  strategy.zero_stage = 3;
  strategy.layout.shard = run["ranks"];
  strategy.checkpointing = kinds.at(checkpointing);
  const RankRun planned(model, training, strategy, {});
  const RunInputs inputs = planned.inputs();
  Device device(std::nullopt);
  RankState state(inputs, device);
  return PartitionedRun(state).modules();
}

class PlannedModules : public RecordedGathers {};

TEST_P(PlannedModules, AreHookedAsDeepSpeedHooksThem) {
  EXPECT_EQ(first_difference(event_lines(planned_modules(run["run"])), event_lines(tape)), "");
}

Lines recorded_cases() {
  Lines names;
  for (const auto& each :
       std::filesystem::directory_iterator(ZPLAN_TEST_DATA "/reference/zero3_gathers/modules"))
    if (each.path().extension() == ".json") names.push_back(each.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Plans are for models built under zero.Init, which numbers adapters behind all others.
Lines planned_cases() {
  Lines names;
  for (const std::string& each : recorded_cases()) {
    const Json run = test_json("reference/zero3_gathers/modules/" + each + ".json")["run"];
    if (!run.contains("lora") || run.value("zero_init", true)) names.push_back(each);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(DeepSpeed, RecordedGathers, ::testing::ValuesIn(recorded_cases()),
                         [](const auto& each) { return each.param; });
INSTANTIATE_TEST_SUITE_P(DeepSpeed, PlannedModules, ::testing::ValuesIn(planned_cases()),
                         [](const auto& each) { return each.param; });

// ---- calls of whole steps, modules from Hugging Face's decoders
// --------------------------------------------

DecoderShape shape_from(const Json& json) {
  DecoderShape shape;
  shape.hidden = json["hidden"];
  shape.ffn = json["ffn"];
  shape.layers = json["layers"];
  shape.heads = json["heads"];
  shape.kv = json["kv"];
  shape.head_dim = json["head_dim"];
  shape.vocab = json["vocab"];
  shape.tied = json["tied"];
  shape.qkv_bias = json.value("qkv_bias", false);
  shape.qk_norm = json.value("qk_norm", false);
  return shape;
}

DecoderRun decoder_run_from(const Json& run) {
  const std::map<std::string, Recomputation> recomputations{{"none", Recomputation::none},
                                                            {"reentrant", Recomputation::reentrant},
                                                            {"non-reentrant", Recomputation::non_reentrant}};
  DecoderRun decoder;
  decoder.recomputation = recomputations.at(run["checkpointing"]);
  decoder.lora_rank = run["lora"];
  decoder.tensor_parallel = run["tensor_parallel"];
  decoder.weights = Bytes(run["weights"].get<std::int64_t>());
  decoder.adapters = Bytes(run["adapters"].get<std::int64_t>());
  decoder.adapters_last = run["adapters_last"];
  return decoder;
}

/// Elements of the calls in order, runs of equal ones folded: "256000 98560x3"; f behind those of fp32.
std::string calls(const ModuleTape& tape, const GatherPlan& plan, Bytes plain) {
  std::vector<std::pair<std::string, int>> runs;
  for (const GatherAction& action : plan.actions) {
    if (!is_collective(action) || action.ranks == 1) continue;
    const auto parameters = plan.parameters_of(action);
    const Bytes size = tape.parameters[static_cast<std::size_t>(parameters.front())].element_size;
    const std::string call =
        fmt::format("{}{}", call_elements(parameters, tape.parameters, action.ranks).value,
                    size == plain || size == Bytes(2) ? "" : "f");
    if (runs.empty() || runs.back().first != call) runs.push_back({call, 0});
    ++runs.back().second;
  }
  Lines words;
  for (const auto& [call, times] : runs)
    words.push_back(times == 1 ? call : fmt::format("{}x{}", call, times));
  return fmt::format("{}", fmt::join(words, " "));
}

struct CallsOfRun {
  std::string name;
  Json run;
};
void PrintTo(const CallsOfRun& of, std::ostream* out) { *out << of.name; }

class RecordedCalls : public ::testing::TestWithParam<CallsOfRun> {};

TEST_P(RecordedCalls, SameElementsInTheSameOrder) {
  const Json& run = GetParam().run;
  const DecoderRun decoder = decoder_run_from(run["run"]);
  ModuleTape tape = DecoderHooks(shape_from(run["model"]), decoder).tape();
  mark_persistent(tape, Elements(run["options"]["persistence_threshold"].get<std::int64_t>()));
  const StepGathers step = gather_actions(tape, options_from(run["options"]));
  for (std::size_t i = 0; i < run["micro_steps"].size(); ++i)
    EXPECT_EQ(calls(tape, step.micro_step(i), decoder.weights), run["micro_steps"][i].get<std::string>());
  EXPECT_EQ(calls(tape, step.optimizer_step, decoder.weights), run["optimizer_step"].get<std::string>());
}

std::vector<CallsOfRun> recorded_calls() {
  std::vector<CallsOfRun> all;
  for (const Json& run : test_json("reference/zero3_gathers/calls.json")) all.push_back({run["name"], run});
  return all;
}

std::string test_name(const ::testing::TestParamInfo<CallsOfRun>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(DeepSpeed, RecordedCalls, ::testing::ValuesIn(recorded_calls()), test_name);

// ---- small tapes
// -------------------------------------------------------------------------------------------

/// One module with one parameter, forward and backward.
ModuleTape one_weight() {
  ModuleTape tape;
  tape.parameters = {{Elements(10), Bytes(2), true, false}};
  tape.modules = {{{0}}};
  using enum ModuleEvent::Kind;
  for (const ModuleEvent::Kind kind : {enter_forward, leave_forward, enter_backward, leave_backward})
    tape.events.push_back({kind, 0});
  return tape;
}

std::vector<Kind> kinds(const GatherPlan& plan) {
  std::vector<Kind> list;
  for (const GatherAction& action : plan.actions) list.push_back(action.kind);
  return list;
}

TEST(GatherActions, ReuseDistanceDecidesWhetherAWeightStaysForItsBackward) {
  GatherOptions options;
  options.data_parallel = 4;
  EXPECT_EQ(kinds(gather_actions(one_weight(), options).micro_step(0)),
            (std::vector{Kind::gather, Kind::wait, Kind::release}));
  options.max_reuse_distance = options.prefetch_bucket_size = Elements(0);
  EXPECT_EQ(kinds(gather_actions(one_weight(), options).micro_step(0)),
            (std::vector{Kind::gather, Kind::wait, Kind::release, Kind::gather, Kind::wait, Kind::release}));
}

TEST(GatherActions, TheFirstStepKeepsNothing) {
  GatherOptions options;
  options.data_parallel = 4;
  EXPECT_EQ(gather_actions(one_weight(), options, StepKind::first).micro_step(0).actions.size(), 6U);
}

TEST(GatherActions, CallsArePaddedToTheRanks) {
  const ModuleTape tape = one_weight();
  EXPECT_EQ(call_elements(std::vector<std::int32_t>{0}, tape.parameters, 4), Elements(12));
}

TEST(GatherActions, RefusesATapeThatNamesWhatThereIsNot) {
  ModuleTape tape = one_weight();
  tape.events.front().module = 1;
  EXPECT_THROW((void)gather_actions(tape, {}), InputError);
  tape = one_weight();
  tape.modules.front().own = {1};
  EXPECT_THROW((void)gather_actions(tape, {}), InputError);
  tape = one_weight();
  tape.named = {0, 0};
  EXPECT_THROW((void)gather_actions(tape, {}), InputError);
  tape.events.clear();
  EXPECT_THROW((void)gather_actions(tape, {}), InputError);
  GatherOptions no_steps;
  no_steps.micro_steps = 0;
  EXPECT_THROW((void)gather_actions(one_weight(), no_steps), InputError);
}

TEST(QuantizedGroups, AreTheLargestThatDivide) {
  EXPECT_EQ(quantized_groups(Elements(64)), 1);
  EXPECT_EQ(quantized_groups(Elements(8000)), 1);
  EXPECT_EQ(quantized_groups(Elements(8008)), 7);  // 8 * 7 * 11 * 13
  EXPECT_EQ(quantized_groups(Elements(681'408)), 91);
  EXPECT_EQ(quantized_groups(Elements(8 * 1009)), 1009);  // a prime
}

}  // namespace
}  // namespace zplan::testing
