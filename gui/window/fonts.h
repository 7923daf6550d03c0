#pragma once

namespace zplan::gui {

/// Adds the program's own fonts after those of the desktop: for signs in formulas that these lack, and for
/// Chinese if the system has no font for it.
void provide_fonts();

}  // namespace zplan::gui
