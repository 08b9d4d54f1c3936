// Which pages of a VM's RAM: a bit each, so 32 KiB for a GiB.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mare::dirtylog {

inline constexpr std::uint64_t kPageBytes = 4096;

class PageSet {
 public:
  /// `begin` to before `end`, as numbers of pages since the RAM's start.
  void add(std::size_t begin, std::size_t end) {
    if (end > begin && words_.size() <= (end - 1) / kBits) words_.resize((end - 1) / kBits + 1);
    for (std::size_t page = begin; page < end; ++page) {
      words_[page / kBits] |= std::uint64_t{1} << page % kBits;
    }
  }
  void add(const PageSet& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool has(std::size_t page) const {
    return page / kBits < words_.size() && (words_[page / kBits] >> page % kBits & 1U) != 0;
  }
  std::size_t count() const {
    std::size_t sum = 0;
    for (const std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
    return sum;
  }
  PageSet without(const PageSet& other) const {
    PageSet out = *this;
    for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
      out.words_[i] &= ~other.words_[i];
    }
    return out;
  }
  bool empty() const { return count() == 0; }
  /// Calls `then` with each page, in order.
  template <typename Then>
  void each(Then then) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
        then(i * kBits + static_cast<std::size_t>(std::countr_zero(left)));
      }
    }
  }
  /// 64 pages each, the first one lowest.
  const std::vector<std::uint64_t>& words() const { return words_; }
  /// Of pages that follow one another without a gap.
  std::size_t runs() const {
    std::size_t sum = 0;
    std::uint64_t before = 0;  // its last page, as the lowest bit
    for (const std::uint64_t word : words_) {
      sum += static_cast<std::size_t>(std::popcount(word & ~(word << 1U | before)));
      before = word >> (kBits - 1);
    }
    return sum;
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

}  // namespace mare::dirtylog
