#include "cli/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/embedded.h"
#include "models/base/format.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> page_style;
}

namespace {

/// A part of a bar: a member of the report, which names the colour too, and what people call it.
struct Part {
  const char* key;
  const char* name;
  const char* heading{nullptr};  ///< of a column; null: the name
};
constexpr std::array<Part, 8> kMemory{{{"parameters", "parameters"},
                                       {"gradients", "gradients"},
                                       {"optimizer_states", "optimizer states", "optimizer"},
                                       {"activations", "activations"},
                                       {"loss", "loss"},
                                       {"communication_buffers", "communication buffers", "buffers"},
                                       {"temporaries", "temporaries"},
                                       {"framework_overhead", "framework overhead", "overhead"}}};
constexpr Part kSlack{"slack", "allocator slack", "slack"};
constexpr std::array<Part, 6> kTime{{{"compute", "compute"},
                                     {"launching", "waiting for kernel launches"},
                                     {"exposed_communication", "communication that nothing hides"},
                                     {"offload", "offload that nothing hides"},
                                     {"optimizer", "optimizer on the GPU"},
                                     {"generation", "generation"}}};

/// A part of a bar, how much of it the part takes, and that in words.
struct Piece {
  Part part;
  double value{};
  std::string text;
};

/// Plans in the table; more stand in a list that opens.
constexpr std::size_t kMostPlans = 12;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char each : text) {
    switch (each) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += each;
    }
  }
  return out;
}

Bytes bytes_of(const Json& value) { return Bytes(value.get<std::int64_t>()); }
std::string gib(const Json& value) { return format_bytes_value(bytes_of(value)); }
std::string gib(double bytes) { return format_bytes_value(Bytes(static_cast<std::int64_t>(bytes))); }
std::string seconds(const Json& value) { return format_seconds(Seconds(value.get<double>())); }
std::string per_second(const Json& value) {
  return group_digits(static_cast<std::int64_t>(value.get<double>() + 0.5));
}
std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

class Page {
 public:
  explicit Page(const Json& report) : report_(report), plans_(report.at("plans")), first_(plans_.front()) {
    available_ = report.at("cluster").at("available_memory_bytes").get<double>();
  }

  std::string write() {
    begin();
    write_strategies();
    write_timeline();
    write_time();
    write_traffic();
    write_config();
    write_reasons();
    write_assumptions();
    end();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool fits() const { return report_.at("recommended").is_string(); }

  // ---- verdict
  [[nodiscard]] std::string needs(const Json& plan) const {
    const Json& memory = plan.at("memory");
    std::string text = fmt::format("{} of {} GiB per GPU", gib(memory.at("required")), gib(available_));
    if (memory.at("host").get<std::int64_t>() > 0)
      text += fmt::format(", {} GiB of host memory per node", gib(memory.at("host")));
    return text;
  }
  [[nodiscard]] static std::string speed(const Json& plan) {
    const Json& time = plan.at("time");
    return fmt::format("about {} a step, {} tokens/s", seconds(time.at("step")),
                       per_second(time.at("tokens_per_second")));
  }
  [[nodiscard]] std::string verdict() const {
    const std::string id = text_of(first_.at("id"));
    if (fits()) return fmt::format("Fits with {}: {}, {}.", id, needs(first_), speed(first_));
    if (first_.at("fits_device").get<bool>())
      return fmt::format("Does not fit the host: {} needs {}; {} GiB per node are available.", id,
                         needs(first_),
                         gib(report_.at("cluster").at("available_host_memory_bytes_per_node")));
    return fmt::format("Does not fit: {} needs {}.", id, needs(first_));
  }
  [[nodiscard]] std::string question() const {
    const Json& model = report_.at("model");
    const Json& cluster = report_.at("cluster");
    const Json& training = report_.at("training");
    const auto nodes = cluster.at("nodes").get<std::int64_t>();
    return fmt::format(
        "{}: {} parameters, {} of them trained ({}, {}). {} × {}{}, micro-batch {} of {} tokens, {}.",
        text_of(model.at("name")), format_count(Elements(model.at("parameters").get<std::int64_t>())),
        format_count(Elements(model.at("trainable_parameters").get<std::int64_t>())),
        text_of(training.at("method")), text_of(training.at("precision")),
        cluster.at("gpus").get<std::int64_t>(), text_of(cluster.at("gpu")),
        nodes > 1 ? fmt::format(" in {} nodes", nodes) : std::string(),
        first_.at("strategy").at("micro_batch_size").get<std::int64_t>(),
        group_digits(training.at("sequence_length").get<std::int64_t>()), text_of(training.at("framework")));
  }

  void begin() {
    add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n");
    add("<title>zplan: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        escaped(text_of(report_.at("model").at("name"))), embedded::page_style.front().text);
    add("<header>\n<h1><span class=\"mark {}\" aria-hidden=\"true\">{}</span> {}</h1>\n",
        fits() ? "good" : "bad", fits() ? "\u2713" : "\u2717", escaped(verdict()));
    add("<p>{}</p>\n", escaped(question()));
    if (const Json& other = report_.at("alternative"); !other.is_null()) {
      const std::string change = text_of(other.at("change"));
      add("<p><span class=\"good\" aria-hidden=\"true\">\u2713</span> It fits with {}{}: {}, {}.</p>\n",
          escaped(text_of(other.at("plan").at("id"))),
          change.empty() ? std::string() : fmt::format(" (<code>{}</code>)", escaped(change)),
          escaped(needs(other.at("plan"))), escaped(speed(other.at("plan"))));
    }
    add("</header>\n<main>\n");
  }
  void end() {
    if (open_) add("</section>\n");
    add("</main>\n<footer><p>zplan {}. Every figure is a prediction, not a "
        "measurement.</p></footer>\n</body>\n"
        "</html>\n",
        escaped(text_of(report_.at("zplan_version"))));
  }

  // ---- strategies
  void write_strategies() {
    heading("strategies", "Strategies");
    table_begin("Memory per GPU at the worst moment, against what is available (the mark)",
                {"strategy", "", "GiB", "free, GiB", "host, GiB", "step", "tokens/s"}, 1);
    const std::size_t most = std::min(plans_.size(), kMostPlans);
    for (std::size_t i = 0; i < most; ++i) add_plan(plans_[i]);
    table_end();
    add_legend();
    if (most < plans_.size()) {
      add("<details><summary>{} more</summary>\n", plans_.size() - most);
      table_begin("Further strategies", {"strategy", "", "GiB", "free, GiB", "host, GiB", "step", "tokens/s"},
                  1);
      for (std::size_t i = most; i < plans_.size(); ++i) add_plan(plans_[i]);
      table_end();
      add("</details>\n");
    }
    table_begin("What the memory holds at that moment, GiB", part_heads());
    for (std::size_t i = 0; i < most; ++i) add_parts(plans_[i]);
    table_end();
  }
  /// The range of the bars: a plan that needs far more would leave nothing to be seen of those that fit.
  [[nodiscard]] double scale() const {
    double widest = available_;
    for (const Json& each : plans_) widest = std::max(widest, each.at("memory").at("required").get<double>());
    return std::min(widest, 1.6 * available_);
  }
  [[nodiscard]] static double slack(const Json& memory) {
    return std::max(0.0, memory.at("required").get<double>() - memory.at("peak").get<double>());
  }
  void add_plan(const Json& plan) {
    const Json& memory = plan.at("memory");
    const bool chosen = fits() && plan.at("id") == report_.at("recommended");
    const bool fits = plan.at("fits").get<bool>();
    const double free = available_ - memory.at("required").get<double>();
    add("<tr{}><th scope=\"row\"><span class=\"{}\">{}</span> {}{}</th><td class=\"wide\">",
        chosen ? " class=\"chosen\"" : "", fits ? "good" : "bad", fits ? "fits" : "short",
        escaped(text_of(plan.at("id"))), chosen ? " (recommended)" : "");
    add_bar(plan);
    const auto host = memory.at("host").get<std::int64_t>();
    add("</td><td>{}</td><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", gib(memory.at("required")),
        free < 0 ? "−" : "+", gib(std::abs(free)),
        host > 0 ? format_bytes_value(Bytes(host)) : std::string("none"), seconds(plan.at("time").at("step")),
        per_second(plan.at("time").at("tokens_per_second")));
  }
  void add_bar(const Json& plan) {
    const Json& memory = plan.at("memory");
    std::vector<Piece> pieces;
    const auto add_piece = [&](const Part& part, double held) {
      if (held > 0) pieces.push_back({part, held, fmt::format("{} GiB", gib(held))});
    };
    for (const Part& each : kMemory) add_piece(each, memory.at(each.key).get<double>());
    add_piece(kSlack, slack(memory));
    const double widest = scale(), limit = available_ / widest * 1000;
    add_stack(fmt::format("{} needs {} of {} GiB:", text_of(plan.at("id")), gib(memory.at("required")),
                          gib(available_)),
              pieces, widest);
    add(R"(<line class="limit" x1="{0:.2f}" x2="{0:.2f}" y1="0" y2="20"/></svg>)", std::min(limit, 999.0));
  }
  /// Adds the pieces side by side, `whole` being the width; the caller closes the drawing.
  void add_stack(std::string label, const std::vector<Piece>& pieces, double whole) {
    std::string shapes;
    double at = 0;
    for (const auto& [part, value, text] : pieces) {
      const double width = std::min(value, whole - at) / whole * 1000;
      label += fmt::format(" {} {},", part.name, text);
      if (width > 0)
        shapes += fmt::format(
            R"svg(<rect x="{:.2f}" y="0" width="{:.2f}" height="20" fill="var(--{})"><title>{}: {}</title></rect>)svg",
            at / whole * 1000, width, part.key, part.name, text);
      at += value;
    }
    if (label.ends_with(',')) label.pop_back();
    add(R"(<svg class="bar" role="img" aria-label="{}" viewBox="0 0 1000 20" preserveAspectRatio="none">{})",
        escaped(label), shapes);
  }
  [[nodiscard]] static std::vector<std::string> part_heads() {
    std::vector<std::string> heads{"strategy"};
    for (const Part& each : kMemory) heads.emplace_back(each.heading != nullptr ? each.heading : each.name);
    heads.emplace_back(kSlack.heading);
    return heads;
  }
  void add_parts(const Json& plan) {
    const Json& memory = plan.at("memory");
    add("<tr><th scope=\"row\">{}</th>", escaped(text_of(plan.at("id"))));
    for (const Part& each : kMemory) add("<td>{}</td>", gib(memory.at(each.key)));
    add("<td>{}</td></tr>\n", gib(slack(memory)));
  }
  void add_legend() {
    add("<ul class=\"legend\">");
    for (const Part& each : kMemory) add_key(each.key, each.name);
    add_key(kSlack.key, kSlack.name);
    add("</ul>\n");
  }
  void add_key(std::string_view color, std::string_view name) {
    add(R"svg(<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" fill="var(--{})"/></svg>{}</li>)svg",
        color, escaped(name));
  }

  // ---- memory over the step
  static constexpr double kLeft = 64, kTop = 24, kWidth = 880, kHeight = 220;
  void write_timeline() {
    const Json& timeline = first_.at("memory").at("timeline");
    if (timeline.empty()) return;
    heading("memory", fmt::format("Memory over a step of {}", text_of(first_.at("id"))));
    const double worst = worst_of(timeline).at("bytes").get<double>();
    const bool shows_limit = available_ < 1.8 * worst;
    const double top = (shows_limit ? std::max(worst, available_) : worst) * 1.08;
    const Json& peak = worst_of(timeline);
    const std::string where = place(peak);
    add("<figure>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Memory over the "
        "step\">\n");
    add(R"(<svg class="chart" role="img" aria-label="Bytes that PyTorch's allocator has handed out, by moment of the step: at most {} GiB, in {}. The table below has the phases." viewBox="0 0 {} {}">)",
        gib(peak.at("bytes")), escaped(where), kLeft + kWidth + 16, kTop + kHeight + 44);
    add("\n");
    add_bands(timeline);
    add_grid(top);
    add_area(timeline, top);
    if (shows_limit) {
      const double y = height_at(available_, top);
      add(R"(<line class="limit" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}">available: {} GiB</text>)",
          kLeft, kLeft + kWidth, y, y, kLeft + 6, y - 5, gib(available_));
    }
    add("</svg>\n</div>\n<figcaption>Bytes that PyTorch's allocator has handed out. CUDA's context, NCCL's "
        "buffers "
        "and what the allocator cannot use come on top: {} GiB are needed.</figcaption>\n</figure>\n",
        gib(first_.at("memory").at("required")));
    add_phases(timeline);
  }
  [[nodiscard]] static const Json& worst_of(const Json& timeline) {
    return *std::max_element(timeline.begin(), timeline.end(), [](const Json& a, const Json& b) {
      return a.at("bytes").get<std::int64_t>() < b.at("bytes").get<std::int64_t>();
    });
  }
  [[nodiscard]] static std::string place(const Json& moment) {
    std::string at = text_of(moment.at("at"));
    return moment.contains("layer") ? fmt::format("{} {}", at, moment.at("layer").get<int>()) : at;
  }
  [[nodiscard]] static double height_at(double bytes, double top) {
    return kTop + kHeight * (1 - bytes / top);
  }
  void add_bands(const Json& timeline) {
    const auto width = kWidth / static_cast<double>(timeline.size());
    bool shaded = false;
    for (std::size_t from = 0; from < timeline.size();) {
      const std::string phase = text_of(timeline[from].at("phase"));
      std::size_t until = from;
      while (until < timeline.size() && text_of(timeline[until].at("phase")) == phase) ++until;
      const double x = kLeft + width * static_cast<double>(from),
                   w = width * static_cast<double>(until - from);
      if (std::exchange(shaded, !shaded))
        add(R"(<rect class="band" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>)", x, kTop, w, kHeight);
      if (w > 9.0 * static_cast<double>(phase.size()))
        add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x + w / 2, kTop + kHeight + 20,
            escaped(phase));
      from = until;
    }
  }
  void add_grid(double top) {
    constexpr double kUnit = 1024.0 * 1024.0 * 1024.0;
    double step = 1;
    while (top / kUnit / step > 6) step *= step == 2 || step == 20 ? 2.5 : 2;
    if (top < kUnit) step = top / kUnit / 4;
    for (double each = 0; each * kUnit <= top; each += step) {
      const double y = height_at(each * kUnit, top);
      add(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", kLeft, kLeft + kWidth, y, y);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{:.3g}</text>)", kLeft - 8, y + 4, each);
    }
    add(R"(<text x="{}" y="14">GiB</text>)", kLeft - 34);
  }
  void add_area(const Json& timeline, double top) {
    const auto width = kWidth / static_cast<double>(timeline.size());
    std::string path = fmt::format("M{:.1f} {:.1f}", kLeft, kTop + kHeight);
    double x = kLeft;
    for (const Json& each : timeline) {
      path += fmt::format("V{:.1f}H{:.1f}", height_at(each.at("bytes").get<double>(), top), x += width);
    }
    add(R"(<path class="area" d="{}V{:.1f}Z"/>)", path, kTop + kHeight);
    const Json& peak = worst_of(timeline);
    const double at = kLeft + width * (static_cast<double>(&peak - &timeline.front()) + 0.5);
    const double y = height_at(peak.at("bytes").get<double>(), top);
    const bool on_right = at > kLeft + kWidth / 2;
    add(R"(<circle class="peak" cx="{:.1f}" cy="{:.1f}" r="4"/><text x="{:.1f}" y="{:.1f}" text-anchor="{}">peak {} GiB: {}</text>)",
        at, y, on_right ? at - 8 : at + 8, y - 7, on_right ? "end" : "start", gib(peak.at("bytes")),
        escaped(place(peak)));
  }
  void add_phases(const Json& timeline) {
    table_begin("The worst moment of each phase", {"phase", "moment", "GiB"}, 0, 2);
    std::vector<std::string> seen;
    for (const Json& each : timeline) {
      const std::string phase = text_of(each.at("phase"));
      if (std::find(seen.begin(), seen.end(), phase) != seen.end()) continue;
      seen.push_back(phase);
      const Json* worst = &each;
      for (const Json& other : timeline)
        if (text_of(other.at("phase")) == phase &&
            other.at("bytes").get<std::int64_t>() > worst->at("bytes").get<std::int64_t>())
          worst = &other;
      add("<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td>{}</td></tr>\n", escaped(phase),
          escaped(place(*worst)), gib(worst->at("bytes")));
    }
    table_end();
  }

  // ---- time
  void write_time() {
    const Json& time = first_.at("time");
    heading("time", fmt::format("Time of a step of {}", text_of(first_.at("id"))));
    const auto step = time.at("step").get<double>();
    std::vector<Piece> pieces;
    for (const Part& each : kTime)
      if (time.contains(each.key) && time.at(each.key).is_number() && time.at(each.key).get<double>() > 0)
        pieces.push_back({each, time.at(each.key).get<double>(), seconds(time.at(each.key))});
    add_stack(fmt::format("A step takes {}:", seconds(time.at("step"))), pieces, step);
    add("</svg>");
    add("\n<ul class=\"legend\">");
    for (const Piece& each : pieces) add_key(each.part.key, each.part.name);
    add("</ul>\n");
    table_begin(fmt::format("{} tokens/s, {} per GPU; {:.0f} % model FLOPs utilisation; bound by {}",
                            per_second(time.at("tokens_per_second")),
                            per_second(time.at("tokens_per_second_per_gpu")),
                            time.at("mfu").get<double>() * 100, text_of(time.at("bound"))),
                {"part", "time", "share"});
    for (const Piece& each : pieces)
      add("<tr><th scope=\"row\">{}</th><td>{}</td><td>{:.0f} %</td></tr>\n", each.part.name, each.text,
          each.value / step * 100);
    add("<tr><th scope=\"row\">step</th><td>{}</td><td>100 %</td></tr>\n", seconds(time.at("step")));
    table_end();
  }

  // ---- traffic
  void write_traffic() {
    const Json& traffic = first_.at("communication");
    const Json& calls = traffic.at("collectives");
    const auto to_host = traffic.at("device_to_host_bytes").get<std::int64_t>();
    const auto to_device = traffic.at("host_to_device_bytes").get<std::int64_t>();
    if (calls.empty() && to_host == 0 && to_device == 0) return;
    heading("traffic", fmt::format("Traffic of a step of {}", text_of(first_.at("id"))));
    if (to_host > 0 || to_device > 0)
      add("<p>Offload copies {} GiB to the host and {} GiB to the device, per GPU.</p>\n",
          format_bytes_value(Bytes(to_host)), format_bytes_value(Bytes(to_device)));
    if (calls.empty()) return;
    table_begin("Collectives of one optimizer step",
                {"operation", "what", "group", "phase", "calls", "GiB", "sent per GPU, GiB", "time"}, 0, 4);
    for (const Json& each : calls)
      add("<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td class=\"left\">{}, {} ranks</td><td "
          "class=\"left\">{}</td>"
          "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
          escaped(text_of(each.at("operation"))), escaped(text_of(each.at("purpose"))),
          escaped(text_of(each.at("group"))), each.at("group_size").get<std::int64_t>(),
          escaped(text_of(each.at("phase"))), group_digits(each.at("count").get<std::int64_t>()),
          gib(each.at("bytes")), gib(each.at("wire_bytes_per_gpu")),
          each.contains("seconds") && each.at("seconds").is_number() ? seconds(each.at("seconds")) : "");
    table_end();
  }

  // ---- what to do
  void write_config() {
    if (!fits()) return;
    const Json& deepspeed = report_.at("ds_config");
    const Json& accelerate = report_.at("fsdp_config");
    const Json& launch = report_.at("launch");
    const std::string line =
        launch.is_null() ? std::string() : text_of(launch.at(text_of(launch.at("launcher"))));
    heading("config", "Start it");
    if (!line.empty()) add("<pre tabindex=\"0\"><code>{}</code></pre>\n", escaped(line));
    const Json& config = deepspeed.is_null() ? accelerate : deepspeed;
    if (config.is_null()) return;
    add("<p>{}:</p>\n<pre tabindex=\"0\"><code>{}</code></pre>\n",
        deepspeed.is_null() ? "Config of accelerate" : "ds_config.json", escaped(config.dump(2)));
  }
  void write_reasons() {
    heading("reasons", "Why");
    for (const Json& each : plans_) {
      if (each.at("why").empty()) continue;
      add("<h3>{}</h3>\n", escaped(text_of(each.at("id"))));
      add_list(each.at("why"));
      if (&each - &plans_.front() >= static_cast<std::ptrdiff_t>(kMostPlans)) break;
    }
    const Json& rejected = report_.at("rejected");
    if (rejected.empty()) return;
    add("<h3>Not possible</h3>\n<ul>");
    for (const Json& each : rejected)
      add("<li>{}: {}</li>", escaped(text_of(each.at("id"))),
          each.at("reasons").empty() ? std::string() : escaped(text_of(each.at("reasons").front())));
    add("</ul>\n");
  }
  void write_assumptions() {
    heading("assumptions", "Assumptions");
    add("<ul>");
    if (const std::string origin = text_of(report_.at("model").at("origin")); !origin.empty())
      add("<li>Model: {}</li>", escaped(origin));
    for (const Json& each : report_.at("cluster").at("assumptions"))
      add("<li>{}</li>", escaped(text_of(each)));
    for (const Json& each : report_.at("warnings")) add("<li>{}</li>", escaped(text_of(each)));
    add("</ul>\n");
    table_begin("Training", {"setting", "value"}, 0, 2);
    for (const auto& [key, value] : report_.at("training").items())
      if (!value.is_null())
        add("<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td></tr>\n", escaped(spaced(key)),
            escaped(value.is_string()    ? text_of(value)
                    : value.is_boolean() ? (value.get<bool>() ? "yes" : "no")
                                         : value.dump()));
    table_end();
  }
  [[nodiscard]] static std::string spaced(std::string key) {
    std::replace(key.begin(), key.end(), '_', ' ');
    return key;
  }
  void add_list(const Json& sentences) {
    add("<ul>");
    for (const Json& each : sentences) add("<li>{}</li>", escaped(text_of(each)));
    add("</ul>\n");
  }

  // ---- elements
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }
  void heading(std::string_view id, const std::string& text) {
    if (open_) add("</section>\n");
    open_ = true;
    add("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", id, escaped(text));
  }
  /// `bar`: the column of a chart, which the caption names; columns before `left` are words.
  void table_begin(const std::string& caption, const std::vector<std::string>& heads, std::size_t bar = 0,
                   std::size_t left = 1) {
    add("<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"{0}\">\n<table{1}>\n<caption>{0}</caption>\n<thead><tr>",
        escaped(caption), heads.size() > 3 ? " class=\"full\"" : "");
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (bar > 0 && i == bar)
        add("<th scope=\"col\" class=\"left\">memory</th>");
      else
        add("<th scope=\"col\"{}>{}</th>", i < left ? " class=\"left\"" : "", escaped(heads[i]));
    }
    add("</tr></thead>\n<tbody>\n");
  }
  void table_end() { add("</tbody>\n</table>\n</div>\n"); }

  const Json& report_;
  const Json& plans_;
  const Json& first_;
  double available_{};
  std::string out_;
  bool open_{};
};

}  // namespace

std::string html_page(const Json& report) { return Page(report).write(); }

}  // namespace zplan
