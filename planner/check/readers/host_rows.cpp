#include "planner/check/readers/readers.h"
#include "planner/check/readers/run_options.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

constexpr std::int64_t kMostSamples = 1'000'000'000;

BesideSteps beside_of(const JsonReader& options) {
  BesideSteps beside;
  if (const auto type = options.find("load_dtype")) beside.load_dtype = named<Precision>(*type);
  if (const auto save = options.find("save")) beside.save = named<SavedModel>(*save);
  beside.eval_batch = options.integer_or("eval_batch", 0, 0, kMostBatch);
  beside.eval_samples = options.integer_or("eval_samples", 0, 0, kMostSamples);
  beside.eval_accumulation_steps = options.integer_or("eval_accumulation", 0, 0, kMostSamples);
  beside.keeps_logits = beside.eval_batch > 0;
  return beside;
}

Training training_of(const JsonReader& options, const Model& model, Skip& skip) {
  Training training = with_framework({}, named<Framework>(options.at("framework")));
  if (const auto precision = options.find("precision")) training.precision = named<Precision>(*precision);
  // A script that loads 16-bit weights and trains nothing has no fp32 masters.
  else if (!spec(training.framework).casts_model && !spec(training.framework).makes_shards)
    training.master_weights = false;
  if (const auto method = options.find("method")) training.method = named<Method>(*method);
  if (training.method != Method::full) read_adapters(options, model, training, skip);
  training.attention = Attention::sdpa;
  training.sequence_length = options.integer_or("seq", 16, 1, kMostSequence);
  training.beside = beside_of(options);
  return training;
}

std::optional<RunMoment> moment_named(const std::string& name, const std::string& scenario) {
  if (name == "load") return RunMoment::load;
  if (name == "evaluation") return RunMoment::evaluation;
  if (name != "save") return std::nullopt;
  return scenario.ends_with("-checkpoint") || scenario.ends_with("-sharded") ? RunMoment::save_checkpoint
                                                                             : RunMoment::save_model;
}

Case host_case(const JsonReader& row) {
  Case made{
      .id = row.at("id").text(), .file = {}, .kind = Kind::step, .measured = {}, .setup = {}, .skip = {}};
  const std::string scenario = row.at("scenario").text();
  const JsonReader options = row.at("options");
  MeasuredHost host;
  for (const std::string& name : row.at("moments").keys())
    if (const auto moment = moment_named(name, scenario))
      host.moments.push_back({*moment, bytes_at(row.at("moments").at(name).at("anonymous_peak_of_node")),
                              bytes_at(row.at("moments").at(name).at("processes"))});
  std::optional<Model> model = model_at(row.at("config"), made.skip);
  if (!model) return made;
  const std::int64_t ranks = row.at("ranks").integer(1, kMostRanks);
  Setup setup{.model = std::move(*model), .training = {}, .strategy = {}, .cluster = {}};
  setup.training = training_of(options, setup.model, made.skip);
  setup.cluster = usual_cluster(kGenericCard, ranks, std::nullopt);
  setup.strategy.zero_stage = static_cast<int>(options.integer_or("zero", 0, 0, 3));
  setup.strategy.layout = setup.strategy.layout.filling(ranks);
  setup.strategy.checkpointing = Checkpointing::none;
  setup.strategy.zero = zero_options(Buckets::hf_auto, setup.model.shape.hidden_size);
  host.trained = row.at("trained").boolean();
  made.setup = std::move(setup);
  made.measured = std::move(host);
  return made;
}

}  // namespace

std::vector<Case> read_host_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) cases.push_back(host_case(row));
  return cases;
}

}  // namespace zplan::check
