#pragma once
// Writes short answers of one screen: the verdict, then the table, the reasons and the next commands.
// --verbose prints the whole reports of report_text.h and fit_report.h in their place.

#include <functional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/report/report.h"

namespace zplan {

/// Screen is what a short answer may take of a terminal.
struct Screen {
  int width{100};         ///< columns
  bool unicode{};         ///< characters beyond ASCII can be shown
  std::size_t lines{30};  ///< most lines of an answer
};

/// Translates a format of a verdict, which has places "{}"; without one the text is English.
using Say = std::function<std::string(const char* format)>;

/// Verdict is the first line of an answer in its parts, without full stops.
struct Verdict {
  std::string subject;      ///< "8B, full fine-tuning, on 5 x H100-SXM-80GB"
  std::string statement;    ///< "fits with zero3, 34.1 of 39.1 GiB per GPU, 2.46 s a step, 4,158 tokens/s"
  std::string alternative;  ///< "It fits with ...", where no plan of the answer fits; else empty
  std::string remedy;       ///< "it would fit on GPUs of 55.0 GiB ...", of a plan that does not; may be empty
};
/// Returns the verdict on a plan of the report's answer; the short answer begins with that on the leading
/// one.
[[nodiscard]] Verdict verdict_of(const Plan& plan, const Report& report, const Say& say = {});

/// Returns the answer of `plan`, `search` or `compare`: whether it fits, what it needs and how fast it is; a
/// bar for each strategy; why the next best was not chosen; what was assumed; the next commands. Rows and
/// reasons are left out from the least important on until the lines suffice.
[[nodiscard]] Document brief_document(const Report& report, const Screen& screen);

/// Adds the sentence of a verdict behind its sign.
void add_verdict_sentence(Document& doc, bool fits, const Screen& screen, const std::string& text);

/// Adds "Next" and the commands, long ones over several lines as a shell takes them.
void add_commands(Document& doc, const std::vector<std::string>& commands, const Screen& screen);

/// Returns the lines that a document takes on the screen.
[[nodiscard]] std::size_t line_count(const Document& doc, const Screen& screen);

}  // namespace zplan
