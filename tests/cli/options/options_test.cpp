#include "cli/options/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/base/values.h"
#include "cli/options/command_line.h"
#include "cli/options/request.h"
#include "tests/cli/support.h"

namespace zplan::test {
namespace {

using testing::ElementsAre;

Options parsed(const std::string& line) { return parse_options(split(line)); }

TEST(Options, EveryValueReachesItsField) {
  const Options o = parsed(
      "plan --model 8B --gpus 16 --nodes 2 --gpu H100-SXM-80GB --instance p5.48xlarge --mem 44.5 --node "
      "nvswitch --network 8x400g "
      "--host-mem 900GiB --pcie 4x8 --topology SYS --host-threads 12 --host-bandwidth 409.6 "
      "--disk-bandwidth 14 "
      "--headroom 5 --zero 2,3 --tp 1,4 --offload none,all --buckets default --method lora --lora-rank 8 "
      "--lora-targets q_proj,v_proj --lora-dropout 0.05 --prepare-kbit --quant-storage bf16 --adapters 3 "
      "--dora "
      "--modules-to-save embed_tokens,lm_head --tie-saved-modules --no-autocast-adapters --objective dpo "
      "--reference copy --seq 4096 --micro-batch 2 "
      "--grad-accum 3 --precision fp16 --optimizer "
      "lion "
      "--checkpointing none --attention sdpa --fused-loss --loss-chunks 8 --sliced-head --modules litgpt "
      "--expandable-segments --emit x.json --config-style "
      "hf-auto --units GB "
      "--load-dtype fp32 --load-everywhere --save sharded --eval-batch 8 --eval-logits --eval-samples 500 "
      "--eval-accumulation 4 --generate 64 --samples 50000 --tokens 7 --epochs 2.5 --price 1.25 "
      "--explain --no-color --images 4 --image-size 1344x1008 --image-tokens 300 "
      "--recipe sft.yaml,accelerate.yaml --recipe-out out.yaml "
      "--fused-head --kernels liger --loss-shift logits-alone --trainer trl@0.24,swift --lengths lengths.txt "
      "--batching grouped");
  EXPECT_EQ(o.images, (ImageRequest{.per_sample = 4, .width = 1344, .height = 1008, .tokens = 300}));
  EXPECT_EQ(o.training.beside, (BesideSteps{.load_dtype = Precision::fp32,
                                            .loads_everywhere = true,
                                            .save = SavedModel::sharded,
                                            .eval_batch = 8,
                                            .eval_samples = 500,
                                            .keeps_logits = true,
                                            .eval_accumulation_steps = 4,
                                            .new_tokens = 64}));
  EXPECT_EQ(o.budget, (Budget{.samples = 50000, .tokens = 7, .epochs = 2.5, .price = 1.25}));
  EXPECT_EQ(o.prices, std::vector<double>{1.25});
  EXPECT_EQ(o.recipe_files, (std::vector<std::string>{"sft.yaml", "accelerate.yaml"}));
  EXPECT_EQ(o.recipe_out, "out.yaml");
  EXPECT_EQ(o.command, Command::plan);
  EXPECT_EQ(o.model, "8B");
  EXPECT_EQ(o.cluster.gpus, 16);
  EXPECT_EQ(o.cluster.nodes, 2);
  EXPECT_EQ(o.cluster.gpu, "H100-SXM-80GB");
  EXPECT_EQ(o.cluster.instance, "p5.48xlarge");
  EXPECT_EQ(o.cluster.memory, Bytes(47'781'511'168));  // 44.5 · 1024³
  EXPECT_EQ(o.cluster.node, "nvswitch");
  EXPECT_EQ(o.cluster.network, "8x400g");
  EXPECT_EQ(o.cluster.host_memory, kGiB * 900);
  EXPECT_EQ(o.cluster.pcie, (PcieLink{4, 8}));
  EXPECT_EQ(o.cluster.path, PciePath::sys);
  EXPECT_EQ(o.cluster.host_threads, 12);
  EXPECT_EQ(o.cluster.host_bandwidth, BytesPerSecond(409.6e9));
  EXPECT_EQ(o.cluster.disk, BytesPerSecond(14e9));
  EXPECT_DOUBLE_EQ(o.headroom.fraction, 0.05);
  EXPECT_THAT(o.space.zero_stages, ElementsAre(2, 3));
  EXPECT_THAT(o.space.tensor_parallel, ElementsAre(1, 4));
  EXPECT_THAT(o.space.offloads, ElementsAre(Offload{}, Offload{OffloadDevice::cpu, OffloadDevice::cpu}));
  EXPECT_EQ(o.space.buckets, Buckets::defaults);
  EXPECT_EQ(o.training.method, Method::lora);
  EXPECT_EQ(o.training.lora_rank, 8);
  EXPECT_THAT(o.training.lora_targets.modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_DOUBLE_EQ(o.training.lora_dropout, 0.05);
  EXPECT_TRUE(o.training.prepares_kbit_training);
  EXPECT_EQ(o.training.adapters, 3);
  EXPECT_TRUE(o.training.dora);
  EXPECT_THAT(o.training.modules_to_save, ElementsAre("embed_tokens", "lm_head"));
  EXPECT_TRUE(o.training.ties_saved_modules);
  EXPECT_FALSE(o.training.fp32_adapters);
  EXPECT_EQ(o.training.quant_storage, QuantStorage::bf16);
  EXPECT_EQ(o.training.objective, Objective::dpo);
  EXPECT_EQ(o.training.reference, ReferenceModel::copy);
  EXPECT_EQ(o.training.sequence_length, 4096);
  EXPECT_EQ(o.space.micro_batch_size, 2);
  EXPECT_EQ(o.space.gradient_accumulation_steps, 3);
  EXPECT_EQ(o.training.precision, Precision::fp16);
  EXPECT_EQ(o.training.optimizer, Optimizer::lion);
  EXPECT_EQ(o.space.checkpointing, Checkpointing::none);
  EXPECT_EQ(o.training.attention, Attention::sdpa);
  EXPECT_TRUE(o.training.fused_loss);
  EXPECT_EQ(o.training.loss_chunks, 8);
  EXPECT_TRUE(o.training.sliced_head);
  EXPECT_EQ(o.training.modules.name, "litgpt");
  EXPECT_TRUE(o.training.expandable_segments);
  EXPECT_TRUE(o.training.fused_head);
  EXPECT_EQ(o.training.modules.kernels.name, "liger");
  EXPECT_EQ(o.training.loss_shift, LossShift::logits_alone);
  EXPECT_THAT(o.trainers, ElementsAre(TrainerChoice{"trl", {0, 24}}, TrainerChoice{"swift", {4, 6}}));
  EXPECT_EQ(o.lengths, "lengths.txt");
  EXPECT_EQ(o.batching, Batching::grouped);
  EXPECT_EQ(o.emit, "x.json");
  EXPECT_EQ(o.config_style, ConfigStyle::hf_auto);
  EXPECT_EQ(o.unit, ByteUnit::gb);
  EXPECT_TRUE(o.explain);
  EXPECT_TRUE(o.no_color);
}

TEST(Options, CountsAreReadAsPeopleWriteThem) {
  for (const auto& [text, tokens] : {std::pair("100B", 100'000'000'000),
                                     {"1e11", 100'000'000'000},
                                     {"100e9", 100'000'000'000},
                                     {"1.5T", 1'500'000'000'000},
                                     {"0.5b", 500'000'000},
                                     {"2.5e3", 2500},
                                     {"7", 7},
                                     {"300k", 300'000},
                                     {"1E+6", 1'000'000}})
    EXPECT_EQ(parsed(fmt::format("--model 8B --tokens {}", text)).budget.tokens, tokens) << text;
  for (const char* text : {"1.5", "1e-3", "-7", "", "B", "1x", "1e", "1ee3", "1.2.3", "9999T", "0", "1e999",
                           "0x10", "99999999999999999999"})
    EXPECT_THROW(static_cast<void>(parse_options({"--model", "8B", "--tokens", text})), InputError) << text;
}

TEST(Options, LengthsCountInPowersOfTwo) {
  for (const auto& [text, length] : {std::pair("8k", 8192),
                                     {"32K", 32'768},
                                     {"1M", 1'048'576},
                                     {"1.5k", 1536},
                                     {"8000", 8000},
                                     {"8e3", 8000}}) {
    EXPECT_EQ(parsed(fmt::format("--model 8B --seq {}", text)).training.sequence_length, length) << text;
    EXPECT_EQ(parsed(fmt::format("--model 8B --generate {}", text)).training.beside.new_tokens, length)
        << text;
  }
  // A global batch counts samples, which people may take for tokens.
  EXPECT_THROW(static_cast<void>(parsed("--model 8B --global-batch 4M")), InputError);
}

TEST(Options, PricesAndMemoryMayHaveTheirUnits) {
  for (const char* text : {"2.2", "2.2/h", "$2.2", "$2.2/hr", "2.2/hour"})
    EXPECT_DOUBLE_EQ(parsed(fmt::format("--model 8B --tokens 1B --price {}", text)).budget.price.value(), 2.2)
        << text;
  for (const char* text : {"2.2/d", "free", "-1", "2.2/h/h"})
    EXPECT_THROW(static_cast<void>(parsed(fmt::format("--model 8B --tokens 1B --price {}", text))),
                 InputError)
        << text;
  EXPECT_EQ(parsed("--model 8B --mem 81559MiB").cluster.memory, kMiB * 81'559);
  EXPECT_THROW(static_cast<void>(parsed("--model 8B --mem 80GB")), InputError);
}

TEST(Options, OfRolloutsSetThem) {
  const Rollout r = parsed(
                        "--model 8B --objective grpo --generations 16 --completion-length 1024 "
                        "--steps-per-generation 4 --iterations 2 --rollout server --vllm-memory 0.5 "
                        "--vllm-sleep 1 --vllm-tp 2")
                        .training.rollout;
  EXPECT_EQ(r, (Rollout{.completion_length = 1024,
                        .generations = 16,
                        .steps_per_generation = 4,
                        .iterations = 2,
                        .engine = RolloutEngine::server,
                        .engine_share = 0.5,
                        .sleep_level = 1,
                        .engine_ranks = 2}));
}

TEST(Options, OfPpoSetThem) {
  const Options o = parsed(
      "--model 8B --objective ppo --value-model 3B --reward-model 70B --mini-batches 2 --rollout-batch 16 "
      "--completion-length 512 --iterations 2");
  EXPECT_EQ(o.training.objective, Objective::ppo);
  EXPECT_EQ(o.value_model, "3B");
  EXPECT_EQ(o.reward_model, "70B");
  const Rollout& rollout = o.training.rollout;
  EXPECT_EQ(rollout.mini_batches, 2);
  EXPECT_EQ(rollout.forward_batch, 16);
  EXPECT_EQ(rollout.completion_length, 512);
  EXPECT_EQ(passes(o.training), 2);
  EXPECT_EQ(passes(parsed("--model 8B --objective ppo").training), 4);
}

TEST(Options, WithoutAWordThePlannersDefaultsHold) {
  const Options o = parsed("--model 8B");
  EXPECT_EQ(o.training, Training{});
  EXPECT_EQ(o.space, SearchSpace{});
  EXPECT_EQ(o.headroom.fraction, Headroom{}.fraction);
  EXPECT_FALSE(o.cluster.gpus.has_value());
  EXPECT_FALSE(o.cluster.nodes.has_value());
  EXPECT_FALSE(o.cluster.memory.has_value());
}

TEST(Options, EqualSignsAndOrderDoNotMatter) {
  EXPECT_EQ(parsed("--gpus=4 --model=8B").cluster.gpus, 4);
  const Options o = parsed("--model 8B compare zero3 --gpus 4 tp2+zero1");
  EXPECT_EQ(o.command, Command::compare);
  EXPECT_EQ(o.cluster.gpus, 4);
  EXPECT_THAT(o.words, ElementsAre("zero3", "tp2+zero1"));
}

TEST(Options, APipelinesScheduleStandsBesideOtherSettings) {
  const std::string line = "plan --framework torchtitan --pipeline-schedule GPipe --torchtitan num_chunks=0";
  const TitanOptions titan = parsed(line).space.torchtitan;
  EXPECT_EQ(titan.schedule, PipelineSchedule::gpipe);
  EXPECT_EQ(titan.loss_chunks, 0);
  EXPECT_EQ(parsed("plan --framework torchtitan --pipeline-schedule LoopedBFS").space.torchtitan.schedule,
            PipelineSchedule::looped_breadth_first);
  EXPECT_EQ(parsed("plan --framework torchtitan --pipeline-schedule ZBVZeroBubble").space.torchtitan.schedule,
            PipelineSchedule::zero_bubble_v);
  EXPECT_THROW(parsed(line + " --torchtitan pipeline_parallel_schedule=LoopedBFS"), InputError);
  EXPECT_THROW(parsed("plan --torchtitan pipeline_parallel_schedule=LoopedBFS --pipeline-schedule GPipe"),
               InputError);
}

TEST(Options, HardwareHasCommandsOfTwoWords) {
  const Options o = parsed("hardware compare h100 a100 --model 8B --gpus 4");
  EXPECT_EQ(o.command, Command::hardware_compare);
  EXPECT_THAT(o.words, ElementsAre("h100", "a100"));
  EXPECT_EQ(parsed("hardware import log.txt").command, Command::hardware_import);
  EXPECT_EQ(parsed("hardware search import").command, Command::hardware);
}

TEST(Options, CommandNamesAreWordsBehindACommand) {
  EXPECT_THAT(parsed("models search plan").words, ElementsAre("search", "plan"));
}

TEST(Options, MaxLeavesTheMicroBatchOpen) {
  EXPECT_FALSE(parsed("--model 8B --micro-batch max").space.micro_batch_size.has_value());
}

TEST(Options, EachStandsOnceInTheTable) {
  std::set<std::string_view> names;
  for (const OptionSpec& spec : option_table()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(spec.name.starts_with("--"));
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_EQ(spec.type.kind == OptionKind::flag, spec.value.empty()) << spec.name;
  }
}

TEST(Options, EveryChoiceThatIsOfferedIsTaken) {
  int tried = 0;
  for (const OptionSpec& spec : option_table()) {
    for (const std::string& word : spec.type.words) {
      std::vector<std::string> line{std::string(spec.name), word};
      if (spec.group == "Fit") line.insert(line.begin(), "fit");
      if (spec.group == "Compare") line.insert(line.begin(), "compare");
      EXPECT_NO_THROW((void)parse_options(line)) << spec.name << " " << word;
      ++tried;
    }
  }
  EXPECT_GT(tried, 30);
}

TEST(Options, EveryCommandTakesItsOwnAndNoOther) {
  for (const auto& [command, name] : EnumNames<Command>::table)
    for (const OptionSpec& spec : option_table()) {
      std::vector<std::string> line = split(std::string(name));
      line.emplace_back(spec.name);
      if (!spec.value.empty()) line.emplace_back(spec.type.words.empty() ? "1" : spec.type.words.front());
      std::string error;
      try {
        (void)parse_options(line);
      } catch (const InputError& thrown) {
        error = thrown.what();
      }
      const bool refused = error.find(fmt::format("not an option of {};", name)) != std::string::npos;
      EXPECT_EQ(refused, !spec.commands.has(command)) << name << " " << spec.name << ": " << error;
    }
}

/// The first sentence about the option's conditions; empty: they hold.
std::string refusal(const std::string& line) {
  try {
    check_conditions(parsed(line));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(Conditions, NameOptionsOfTheTableAndTheirValues) {
  int seen = 0;
  for (const OptionSpec& option : option_table())
    for (const Condition& condition : option.conditions) {
      ASSERT_FALSE(condition.options.empty()) << option.name;
      for (const std::string_view other : condition.options) {
        const OptionSpec* found = find_option(other);
        ASSERT_NE(found, nullptr) << option.name << " " << other;
        for (const std::string& word : condition.words)
          EXPECT_THAT(found->type.words, testing::Contains(word)) << option.name << " " << other;
      }
      if (!condition.of.empty()) {
        EXPECT_THAT(option.type.words, testing::Contains(std::string(condition.of))) << option.name;
      }
      ++seen;
    }
  EXPECT_GT(seen, 50);
}

// Without the option or value that it needs, each is refused by name.
TEST(Conditions, OptionsThatCouldDoNothingAreRefused) {
  for (const OptionSpec& option : option_table()) {
    if (option.conditions.empty() || !option.commands.has(Command::plan)) continue;
    const Condition& first = option.conditions.front();
    if (first.is_excluded || !first.of.empty()) continue;
    std::string line = "--model 8B";
    // A value of the other option that is not among those that the condition names.
    if (!first.words.empty())
      for (const std::string& word : find_option(first.options.front())->type.words)
        if (std::ranges::find(first.words, word) == first.words.end())
          line = fmt::format("--model 8B {} {}", first.options.front(), word);
    std::string own = option.type.words.empty() ? "1" : option.type.words.front();
    if (option.name == "--image-size") own = "8x8";
    if (option.name == "--generations") own = "2";
    if (option.value.empty()) own.clear();
    const std::string error = refusal(fmt::format("{} {} {}", line, option.name, own));
    EXPECT_THAT(error, testing::StartsWith(fmt::format("{}: does nothing with", option.name))) << line;
  }
}

TEST(Conditions, OfOneValueLeaveTheOthers) {
  EXPECT_EQ(refusal("--model 8B --objective ppo --rollout trainer"), "");
  EXPECT_THAT(refusal("--model 8B --objective ppo --rollout server"),
              testing::StartsWith("--rollout: server with"));
  EXPECT_EQ(refusal("--model 8B --objective grpo --reference none"), "");
  EXPECT_THAT(refusal("--model 8B --objective dpo --reference none"),
              testing::StartsWith("--reference: none with --objective dpo"));
}

TEST(Conditions, OptionsThatExcludeEachOther) {
  EXPECT_THAT(refusal("--model 8B --samples 1 --tokens 1"),
              testing::StartsWith("--tokens: given with --samples, which says it already"));
  EXPECT_THAT(refusal("--model 8B --fused-loss --loss-chunks 4"),
              testing::StartsWith("--loss-chunks: given with --fused-loss"));
  EXPECT_EQ(refusal("--model 8B --fused-head --loss-chunks 1"), "");  // which is the default
}

TEST(Conditions, StrategiesThatNameAMethodCount) {
  EXPECT_EQ(refusal("compare --model 8B --lora-rank 4 lora+zero2 zero3"), "");
  EXPECT_THAT(
      refusal("compare --model 8B --lora-rank 4 zero2 zero3"),
      testing::StartsWith("--lora-rank: does nothing with --method full; accepted: with --method lora or"));
}

TEST(Values, GibibytesWithAndWithoutTheUnit) {
  EXPECT_EQ(parse_gib("--mem", "44"), kGiB * 44);
  EXPECT_EQ(parse_gib("--mem", "44GiB"), kGiB * 44);
  EXPECT_EQ(parse_gib("--mem", "44 GiB"), kGiB * 44);
  EXPECT_EQ(parse_gib("--mem", "0.5"), kMiB * 512);
  for (const char* text : {"", "GiB", "44TB", "44gib", "-1", "0", "nan", "inf", "1e30", "0x10", "44 44"})
    EXPECT_THROW((void)parse_gib("--mem", text), InputError) << text;
}

TEST(Values, IntegersInTheirRangeOnly) {
  EXPECT_EQ(parse_integer("--gpus", "8", 1, 8), 8);
  for (const char* text : {"", "9", "0", "-1", "1.0", "1e3", " 1", "1 ", "9223372036854775808"})
    EXPECT_THROW((void)parse_integer("--gpus", text, 1, 8), InputError) << text;
}

TEST(CommandLine, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(command_line({"--model", "my model", "--emit", "it's.json", "--zero", "2,3"}),
            "zplan --model 'my model' --emit 'it'\\''s.json' --zero 2,3");
  EXPECT_EQ(command_line({"--model", ""}), "zplan --model ''");
}

TEST(CommandLine, ChangesReplaceWhatWasTyped) {
  EXPECT_THAT(with_options({"--zero", "2", "--model", "8B", "--zero=1", "--explain"},
                           {{"--zero", "3"}, {"--explain", ""}}),
              ElementsAre("--model", "8B", "--zero", "3"));
}

TEST(CommandLine, ValuesAreReadInBothSpellings) {
  const std::vector<std::string> arguments{"--model", "8B", "--seq=4096", "--fused-loss", "--gpus"};
  EXPECT_EQ(given_value(arguments, "--model"), "8B");
  EXPECT_EQ(given_value(arguments, "--seq"), "4096");
  EXPECT_EQ(given_value(arguments, "--fused-loss"), kFlagGiven);
  EXPECT_EQ(given_value(arguments, "--gpus"), "");
  EXPECT_FALSE(given_value(arguments, "--gpu"));
}

TEST(CommandLine, AValueThatLooksLikeAnOptionIsAValue) {
  const std::vector<std::string> arguments{"--model", "--gpus", "--seq", "512"};
  EXPECT_EQ(given_value(arguments, "--model"), "--gpus");
  EXPECT_FALSE(given_value(arguments, "--gpus"));
  EXPECT_EQ(given_value(with_options(arguments, {{"--gpus", "8"}}), "--model"), "--gpus");
}

TEST(Environment, FoldersFollowTheVariables) {
  Environment e;
  e.home = "/home/u";
  EXPECT_EQ(user_models_folder(e), "/home/u/.config/zplan/models");
  EXPECT_EQ(hub_cache_folder(e), "/home/u/.cache/huggingface/hub");
  e.config_home = "/etc/u", e.hugging_face_home = "/data/hf";
  EXPECT_EQ(user_hardware_folder(e), "/etc/u/zplan/hardware");
  EXPECT_EQ(hub_cache_folder(e), "/data/hf/hub");
  e.hugging_face_cache = "/data/hub";
  EXPECT_EQ(hub_cache_folder(e), "/data/hub");
  EXPECT_EQ(hub_cache_folder(Environment{}), "");
}

TEST(Environment, VariablesAreReadByTheProgram) {
  const Folder folder;
  folder.write(
      "zplan/models/mine.json",
      R"([{"name": "me/tiny", "source": "made here", "config": {"model_type": "llama", "hidden_size": 64,
                   "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "vocab_size": 1000, "max_position_embeddings": 512, "tie_word_embeddings": false}}])");
  EXPECT_EQ(as_process(split("models show me/tiny"), {"XDG_CONFIG_HOME=" + folder.path()}).status, 0);
  EXPECT_EQ(as_process(split("models show me/tiny")).status, kBadInput);
}

}  // namespace
}  // namespace zplan::test
