#include "harness/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "models/base/error.h"

namespace zplan::bench {

namespace {

template <class E>
std::vector<E> every() {
  std::vector<E> all;
  for (const auto& [value, name] : EnumNames<E>::table) all.push_back(value);
  return all;
}

/// Parses "8", "4K", "64M", "1GiB". K, M and G are powers of 1024, as in nccl-tests.
Bytes size_of_text(const std::string& option, const std::string& text) {
  std::string digits = text;
  std::uint64_t value = 0;
  bool is_size = false;
  try {
    is_size =
        !text.empty() && CLI::AsSizeValue(false)(digits).empty() && CLI::detail::lexical_cast(digits, value);
  } catch (const CLI::ParseError&) {
  }
  if (!is_size || value > (1ULL << 46))
    throw InputError(option, in_quotes(text), "accepted: a size such as 8, 4K, 64M or 1G, at most 64T");
  return Bytes(static_cast<std::int64_t>(value));
}

/// Parses "60", "60s", "2m", "500ms".
Seconds time_of_text(const std::string& option, const std::string& text) {
  const std::map<std::string, double> units{{"", 1},   {"s", 1},    {"ms", 1e-3},
                                            {"m", 60}, {"min", 60}, {"h", 3600}};
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const auto unit = units.find(text.substr(std::min(end, text.size())));
  if (!(value > 0 && value < 1e7) || unit == units.end())
    throw InputError(option, in_quotes(text), "accepted: a time above zero such as 500ms, 60s or 2m");
  return Seconds(value * unit->second);
}

template <class E>
std::vector<E> names(const std::string& option, const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"all"}) return every<E>();
  std::vector<E> values;
  for (const std::string& word : words) values.push_back(parse_name<E>(option, word));
  return values;
}

/// Returns a range check without a description, which CLI11 would print behind the value's name.
template <class Number>
CLI::Validator within(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

using Strings = std::vector<std::string>;

class Parser {
 public:
  Parser() : app_("Runs real collectives, checks and times them.", "zplan bench") {
    app_.set_help_flag();
    app_.footer(
        "zplan bench --profile FILE also writes what was measured as a profile, for zplan --gpu FILE.");
    app_.get_formatter()->column_width(34);
    what();
    how_much();
    plan();
    machine();
    who();
    output();
  }

  Options parse(Strings arguments) {
    std::reverse(arguments.begin(), arguments.end());
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      throw InputError("bench", error.what(), "zplan bench --help lists all options");
    }
    check();
    return options_;
  }

  std::string help() { return app_.help(); }

 private:
  void words(const std::string& flags, const std::string& name, const std::string& help,
             std::function<void(const Strings&)> take) {
    app_.add_option_function<Strings>(flags, std::move(take), help)
        ->type_name(name)
        ->delimiter(',')
        ->take_all()
        ->group(group_);
  }
  void text(const std::string& flags, const std::string& name, const std::string& help,
            std::function<void(const std::string&)> take) {
    app_.add_option_function<std::string>(flags, std::move(take), help)->type_name(name)->group(group_);
  }
  void flag(const std::string& flags, bool& value, const std::string& help) {
    app_.add_flag(flags, value, help)->group(group_);
  }
  void integer(const std::string& flags, std::int64_t& value, std::int64_t low, std::int64_t high,
               const std::string& help) {
    app_.add_option(flags, value, help)->check(within(low, high))->type_name("N")->group(group_);
  }

  void what();
  void how_much();
  void plan();
  void machine();
  void who();
  void output();
  void check() const;

  CLI::App app_;
  std::string group_;
  Options options_;
};

void Parser::what() {
  group_ = "What is measured";
  words("--op", "LIST",
        "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv [all of them]",
        [this](const Strings& w) { options_.operations = names<Operation>("--op", w); });
  words("-d,--dtype", "LIST",
        "float32, float64, float16, bfloat16, int8, uint8, int32, int64 or all [float32]",
        [this](const Strings& w) { options_.dtypes = names<DataType>("--dtype", w); });
  words("--groups", "LIST", "world, tensor, data: which ranks communicate [world]",
        [this](const Strings& w) { options_.groups = names<GroupKind>("--groups", w); });
  integer("--tp", options_.tensor_parallel, 1, 1 << 20, "ranks that share a model's tensors: neighbours [1]");
  text("--place", "out|in|both", "out of place, in place [both]",
       [this](const std::string& w) { options_.placement = parse_name<Placement>("--place", w); });
}

void Parser::how_much() {
  group_ = "How much";
  text("-b,--min-bytes", "SIZE", "smallest message [8]; of all_gather and reduce_scatter over all ranks",
       [this](const std::string& w) { options_.lowest = size_of_text("--min-bytes", w); });
  text("-e,--max-bytes", "SIZE", "largest message [64M]",
       [this](const std::string& w) { options_.highest = size_of_text("--max-bytes", w); });
  app_.add_option("-f,--step-factor", options_.factor, "factor from one size to the next [2]")
      ->check(within(1.01, 1e6))
      ->type_name("X")
      ->group(group_);
  text("-i,--step-bytes", "SIZE", "bytes from one size to the next, instead of the factor",
       [this](const std::string& w) { options_.step = size_of_text("--step-bytes", w); });
  integer("-n,--iters", options_.iterations, 1, 1 << 24, "calls that are timed per size [20]");
  integer("-w,--warmup-iters", options_.warmup, 0, 1 << 24, "calls before them [5]");
  text("--budget", "TIME", "end after this time and keep what was measured: 60s, 5m",
       [this](const std::string& w) { options_.budget = time_of_text("--budget", w); });
}

void Parser::plan() {
  group_ = "Replay";
  app_.add_option("--plan", options_.plan, "replay the calls of this plan (zplan … --json > plan.json)")
      ->type_name("FILE")
      ->group(group_);
  integer("--steps", options_.steps, 1, 1 << 20, "optimizer steps that are timed [10]");
  flag("--allocate", options_.allocate,
       "first allocate the memory that the plan needs, to show that it is available");
  flag("--compute", options_.compute, "keep the processor busy between the calls for as long as planned");
}

void Parser::machine() {
  group_ = "The machine";
  flag("--calibrate", options_.calibrate,
       "everything that a profile needs: collectives, copies between host and GPU, matrix products, "
       "memory");
  app_.add_option("--storage", options_.storage, "read and write a file in this folder, past the page cache")
      ->type_name("FOLDER")
      ->group(group_);
  flag("--topology", options_.topology, "print hosts, GPUs, links and NICs; nothing is measured");
}

void Parser::who() {
  group_ = "Who takes part";
  text("--backend", "auto|nccl|mpi", "auto: NCCL where there is a GPU, else MPI [auto]",
       [this](const std::string& w) { options_.backend = parse_name<BackendChoice>("--backend", w); });
  app_.add_option(
          "--local", options_.local,
          "start this many ranks on this machine [one per GPU or core where no mpirun, torchrun or srun "
          "started this one]")
      ->check(within(1, 4096))
      ->type_name("N")
      ->group(group_);
  app_.add_option(
          "--meet", options_.meet,
          "folder on a disk that all hosts share, where ranks that torchrun or srun started meet [the "
          "current one]")
      ->type_name("FOLDER")
      ->group(group_);
  text("--timeout", "TIME", "give up where no call ends for this long [60s]",
       [this](const std::string& w) { options_.timeout = time_of_text("--timeout", w); });
  flag("--share-gpu", options_.share_gpu,
       "let several ranks use one GPU, as if they were on different hosts");
}

void Parser::output() {
  group_ = "Output";
  app_.add_option("-o,--output", options_.output, "write everything that was measured to this file")
      ->type_name("FILE")
      ->group(group_);
  flag("--json", options_.json, "print that instead of a table");
  flag("-q,--quiet", options_.quiet, "do not print the next commands");
  flag("-h,--help", options_.help, "show this");
  flag("--version", options_.version, "show the version");
}

void Parser::check() const {
  const Options& o = options_;
  if (o.lowest > o.highest)
    throw InputError("--min-bytes",
                     fmt::format("{} is more than --max-bytes, {}", o.lowest.value, o.highest.value),
                     "accepted: at most that");
  if (o.step && o.step->value == 0) throw InputError("--step-bytes", "0", "accepted: a size above zero");
  if (!o.plan.empty() && !o.operations.empty())
    throw InputError("--op", "the plan determines the calls", "accepted: either --plan or --op");
  if (o.plan.empty() && (o.allocate || o.compute))
    throw InputError(o.allocate ? "--allocate" : "--compute", "does nothing without a plan",
                     "needed: --plan FILE");
  if (std::count(o.groups.begin(), o.groups.end(), GroupKind::tensor) > 0 && o.tensor_parallel == 1)
    throw InputError("--groups", "tensor groups of one rank send nothing", "needed: --tp with 2 or more");
}

}  // namespace

std::vector<Operation> Options::measured_operations() const {
  if (!operations.empty()) return operations;
  const bool asks_for_less = !plan.empty() || topology || (!storage.empty() && !calibrate);
  return asks_for_less ? std::vector<Operation>{} : every<Operation>();
}

std::vector<Bytes> sizes(const Options& options) {
  std::vector<Bytes> all;
  for (double at = static_cast<double>(options.lowest.value);
       at <= static_cast<double>(options.highest.value);) {
    const Bytes size(static_cast<std::int64_t>(at));
    if (all.empty() || size > all.back()) all.push_back(size);
    at = options.step ? at + static_cast<double>(options.step->value) : std::max(at, 1.0) * options.factor;
  }
  return all;
}

Options parse_options(const std::vector<std::string>& arguments) { return Parser().parse(arguments); }

std::string help_text() { return Parser().help(); }

}  // namespace zplan::bench
