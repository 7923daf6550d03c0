#pragma once
// Writes short answers of one screen: the verdict, then the table, the reasons and the next commands.
// --verbose prints the whole reports of report_text.h and fit_report.h in their place.

#include "cli/document/document.h"
#include "cli/report/report.h"

namespace zplan {

/// Screen is what a short answer may take of a terminal.
struct Screen {
  int width{100};         ///< columns
  bool unicode{};         ///< characters beyond ASCII can be shown
  std::size_t lines{30};  ///< most lines of an answer
};

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
