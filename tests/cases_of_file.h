#pragma once

namespace zplan::test {

/// Narrows a run to the cases of one source file: `--cases-of=FILE`, below tests/, becomes a filter of
/// GoogleTest by the files in which its cases were defined. Cases that `--gtest_filter=-PATTERN` leaves out
/// stay left out. To be called after GoogleTest's initialisation. Exits with status 2 if no case is defined
/// in the file.
void select_cases_of_file(int argc, char** argv);

}  // namespace zplan::test
