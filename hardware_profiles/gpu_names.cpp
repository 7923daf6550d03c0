#include "hardware_profiles/gpu_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include "models/base/names.h"
#include "models/base/pattern.h"

namespace zplan {

namespace {

/// Brands, and words that drivers and shops add without telling another GPU.
constexpr std::array<std::string_view, 22> kWithoutMeaning{
    "nvidia", "geforce",  "tesla",      "quadro",  "amd",         "instinct",   "intel",  "gpu",
    "card",   "graphics", "generation", "edition", "workstation", "with",       "design", "blackwell",
    "hbm2",   "hbm2e",    "hbm3",       "hbm3e",   "oem",         "corporation"};

/// The words of a name that tell GPUs apart, and the memory in it.
struct GpuWords {
  std::set<std::string> words;
  std::optional<int> gigabytes;
};

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> split_words(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name.substr(0, 200)) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0)
      words.back() += static_cast<char>(std::tolower(letter));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

/// Returns the gigabytes of "80gb" or "80g".
std::optional<int> gigabytes_of(std::string_view word) {
  for (const std::string_view unit : {"gb", "g"}) {
    if (!word.ends_with(unit)) continue;
    const std::string_view digits = word.substr(0, word.size() - unit.size());
    if (all_digits(digits) && digits.size() < 5) return std::stoi(std::string(digits));
  }
  return std::nullopt;
}

/// "A6000" and "RTX A6000" are one GPU.
bool is_professional(const std::string& word) {
  return word.size() == 5 && word.front() == 'a' && all_digits(std::string_view(word).substr(1));
}

GpuWords words_of_gpu(std::string_view name) {
  GpuWords found;
  for (const std::string& word : split_words(name)) {
    if (word.empty() ||
        std::find(kWithoutMeaning.begin(), kWithoutMeaning.end(), word) != kWithoutMeaning.end())
      continue;
    if (const auto size = gigabytes_of(word))
      found.gigabytes = size;
    else if (word.starts_with("sxm"))
      found.words.insert("sxm");
    else
      found.words.insert(word == "mobile" ? "laptop" : word);
  }
  // "with Max-Q Design" is a laptop's; of RTX PRO it is a card of its own.
  if (found.words.contains("max") && found.words.contains("q")) {
    found.words.erase("max"), found.words.erase("q");
    found.words.insert(found.words.contains("pro") ? "maxq" : "laptop");
  }
  if (std::any_of(found.words.begin(), found.words.end(), is_professional)) found.words.erase("rtx");
  return found;
}

/// The memory that a GPU is sold with, in gigabytes.
int sold_with(const Gpu& gpu) {
  if (const auto named = words_of_gpu(gpu.name).gigabytes) return *named;
  return static_cast<int>(
      std::lround(static_cast<double>(gpu.memory.value) / static_cast<double>(kGiB.value)));
}

bool is_printed_as(const Gpu& gpu, const GpuWords& asked) {
  if (asked.gigabytes && *asked.gigabytes != sold_with(gpu)) return false;
  const auto same = [&](std::string_view name) { return words_of_gpu(name).words == asked.words; };
  return same(gpu.name) || std::any_of(gpu.aliases.begin(), gpu.aliases.end(), same);
}

/// Takes the number of "A100 80" as its gigabytes; false where the name has none, or its unit.
bool reads_number_as_size(GpuWords& asked) {
  const auto number = std::find_if(asked.words.begin(), asked.words.end(), [](const std::string& word) {
    return all_digits(word) && (word.size() == 2 || word.size() == 3);
  });
  if (asked.gigabytes || number == asked.words.end() || asked.words.size() < 2) return false;
  asked.gigabytes = std::stoi(*number);
  asked.words.erase(number);
  return true;
}

double share_of(std::optional<FlopsPerSecond> rate, double share) { return rate ? rate->value * share : 0; }

}  // namespace

std::vector<const Gpu*> gpus_printed_as(const std::vector<Gpu>& gpus, std::string_view name) {
  GpuWords asked = words_of_gpu(name);
  std::vector<const Gpu*> found;
  if (asked.words.empty()) return found;
  const auto search = [&] {
    for (const Gpu& gpu : gpus)
      if (is_printed_as(gpu, asked)) found.push_back(&gpu);
  };
  search();
  if (found.empty() && reads_number_as_size(asked)) search();
  std::stable_sort(found.begin(), found.end(),
                   [](const Gpu* a, const Gpu* b) { return a->memory < b->memory; });
  return found;
}

std::optional<MigName> mig_name(std::string_view name) {
  static const Pattern form(R"((.{1,100}?)\s+MIG\s+((\d)g\.(\d{1,3})gb)\S*\s*)",
                            Pattern::Letters::of_any_case);
  const auto parts = name.size() > 200 ? std::nullopt : form.match(name);
  if (!parts) return std::nullopt;
  const auto part = [&](std::size_t group) { return std::string((*parts)[group]); };
  return MigName{
      .gpu = part(1), .compute = std::stoi(part(3)), .memory_gb = std::stod(part(4)), .profile = part(2)};
}

Gpu mig_part(const Gpu& gpu, const MigName& name) {
  // An A30 has four parts, other GPUs have seven for compute and eight of memory. The driver keeps 2 % of a
  // part: an A100 of 80 GB prints 40192 MiB for 3g.40gb.
  constexpr double kKept = 0.02;
  const bool quarters = sold_with(gpu) <= 24;
  const int parts = quarters ? 4 : 7, memory_parts = quarters ? 4 : 8;
  const double compute = std::min(1.0, static_cast<double>(name.compute) / parts);
  const double memory = std::clamp(std::ceil(name.memory_gb * memory_parts / sold_with(gpu) - 0.2), 1.0,
                                   static_cast<double>(memory_parts)) /
                        memory_parts;
  Gpu part = gpu;
  part.name = fmt::format("{} MIG {}", gpu.name, name.profile);
  part.aliases.clear();
  part.memory = Bytes(std::llround(static_cast<double>(gpu.memory.value) * memory * (1 - kKept)));
  part.driver_reserved = Bytes(std::llround(static_cast<double>(gpu.driver_reserved.value) * memory));
  part.memory_bandwidth = BytesPerSecond{gpu.memory_bandwidth.value * memory};
  for (std::optional<FlopsPerSecond>* rate : {&part.bf16, &part.fp16, &part.tf32, &part.fp32, &part.fp8})
    if (*rate) *rate = FlopsPerSecond{share_of(*rate, compute)};
  // Factors of the whole GPU's rates do not make the part's.
  part.multiprocessors.reset(), part.boost_mhz.reset(), part.memory_bus_bits.reset();
  part.memory_gbit_per_pin.reset();
  part.nvlink = part.nvlink_effective = BytesPerSecond{};
  part.peer_to_peer = false;
  part.usual_node = "pcie-no-p2p";
  part.links.clear(), part.collectives.clear();
  part.collectives_as.clear();
  part.sources["memory_mib"] = fmt::format("assumed: {:.0f} of {} memory parts of {}, less 2 %",
                                           memory * memory_parts, memory_parts, gpu.name);
  part.sources["fp16_dense_tflops"] =
      fmt::format("assumed: {} of {} compute parts of {}", name.compute, parts, gpu.name);
  return part;
}

std::vector<std::string> nearest_gpus(const std::vector<Gpu>& gpus, std::string_view name, std::size_t most) {
  const GpuWords asked = words_of_gpu(name);
  const std::string wanted = fmt::format("{}", fmt::join(asked.words, ""));
  std::vector<std::pair<double, std::string>> scored;
  for (const Gpu& gpu : gpus) {
    constexpr double kSameSize = 0.05;
    const bool same_size = asked.gigabytes && *asked.gigabytes == sold_with(gpu);
    double best = similarity(wanted, fmt::format("{}", fmt::join(words_of_gpu(gpu.name).words, "")));
    for (const std::string& alias : gpu.aliases) best = std::max(best, similarity(name, alias));
    scored.emplace_back(-best - (same_size ? kSameSize : 0), gpu.name);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, scored.size()); ++i) names.push_back(scored[i].second);
  return names;
}

}  // namespace zplan
