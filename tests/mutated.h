#pragma once
// Documents broken at random, for tests that broken input ends in an InputError.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace zplan {

/// A few bytes flipped, deleted, doubled, or replaced by another digit (what reaches furthest) or one of
/// `words`, which mean something in JSON.
inline std::string mutated(std::string text, const std::vector<std::string>& words, std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  for (std::size_t times = 1 + below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(8, text.size() - at));
    switch (below(6)) {
      case 4:
      case 5:
        if (const std::size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + below(10));
        break;
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      default: text.replace(at, below(2) * length, words[below(words.size())]); break;
    }
  }
  return text;
}

}  // namespace zplan
