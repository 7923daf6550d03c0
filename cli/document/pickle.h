#pragma once
// Python's pickle format, as far as plain values need it: dicts, lists, texts, numbers. Protocol 2, whose
// opcodes every reader knows, the JavaScript of pytorch.org/memory_viz included.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

/// Writes one value, item by item. Of a dict keys and values come in turn.
class PickleWriter {
 public:
  PickleWriter();

  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  /// A text is written once, and named where it comes again.
  void text(std::string_view text);
  void integer(std::int64_t value);
  void boolean(bool value);
  /// A tuple of two.
  void pair(std::int64_t first, std::int64_t second);

  void put(std::string_view key, std::string_view value) { text(key), text(value); }
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, std::int64_t value) { text(key), integer(value); }
  void put(std::string_view key, bool value) { text(key), boolean(value); }

  /// Names the value that ended last; recall() writes it again.
  [[nodiscard]] std::int32_t remember();
  void recall(std::int32_t name);

  /// Ends the value and returns the file.
  [[nodiscard]] std::string finish();

 private:
  struct Open {
    bool is_list{};
    std::int64_t items{};  ///< since the last batch began
  };
  void byte(int value) { out_.push_back(static_cast<char>(value)); }
  void bytes(std::uint64_t value, int count);
  void number(std::int64_t value);
  /// Counts a value of the open list; lists are written in batches, which readers take at once.
  void count();

  std::string out_;
  std::vector<Open> open_;
  std::map<std::string, std::int32_t, std::less<>> texts_;
  std::int32_t names_{};
};

}  // namespace zplan
