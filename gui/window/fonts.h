#pragma once

namespace zplan::gui {

/// Every text of the window can be read, whatever fonts the system has: those that the program carries follow
/// the desktop's own, for signs of formulas that these lack, and for Chinese where the system cannot write
/// it.
void provide_fonts();

}  // namespace zplan::gui
