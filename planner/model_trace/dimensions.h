#pragma once
// Sizes or strides of a tensor: a few numbers that lie in the object itself, since a recording copies them all
// the time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace zplan::symbolic {

class Dimensions {
 public:
  static constexpr std::size_t kMost = 8;
  using value_type = std::int64_t;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  Dimensions() = default;
  Dimensions(std::initializer_list<std::int64_t> values) : Dimensions(values.size()) {
    std::copy(values.begin(), values.end(), begin());
  }
  explicit Dimensions(std::size_t count, std::int64_t value = 0) { resize(count, value); }
  explicit Dimensions(const std::vector<std::int64_t>& values) : Dimensions(values.size()) {
    std::copy(values.begin(), values.end(), begin());
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] iterator begin() { return values_.data(); }
  [[nodiscard]] iterator end() { return begin() + count_; }
  [[nodiscard]] const_iterator begin() const { return values_.data(); }
  [[nodiscard]] const_iterator end() const { return begin() + count_; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) { return values_[i]; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] std::int64_t& front() { return values_[0]; }
  [[nodiscard]] std::int64_t front() const { return values_[0]; }
  [[nodiscard]] std::int64_t& back() { return values_[count_ - 1]; }
  [[nodiscard]] std::int64_t back() const { return values_[count_ - 1]; }

  /// Throws std::length_error above kMost.
  void resize(std::size_t count, std::int64_t value = 0) {
    if (count > kMost) throw std::length_error("a tensor of more than eight dimensions");
    for (; count_ < count; ++count_) values_[count_] = value;
    count_ = count;
  }
  void push_back(std::int64_t value) { resize(count_ + 1, value); }
  void pop_back() { --count_; }
  void insert(const_iterator at, std::size_t count, std::int64_t value) {
    const std::ptrdiff_t place = at - begin();
    const std::size_t before = count_;
    resize(before + count);
    std::move_backward(begin() + place, begin() + before, end());
    std::fill_n(begin() + place, count, value);
  }
  void insert(const_iterator at, std::int64_t value) { insert(at, 1, value); }
  void erase(const_iterator at) {
    const std::ptrdiff_t place = at - begin();
    std::move(begin() + place + 1, end(), begin() + place);
    --count_;
  }

  friend bool operator==(const Dimensions& a, const Dimensions& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMost> values_{};
  std::size_t count_{};
};

}  // namespace zplan::symbolic
