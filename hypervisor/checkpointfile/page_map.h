// Which pages of a VM have which content, and where it is kept. Pages of zeros are not in it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace mare::checkpointfile {

/// 128 bits: XXH64 twice, with different seeds. That two contents that the same page had have the
/// same is less likely than that memory fails unnoticed.
struct PageHash {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool operator==(const PageHash&) const = default;
};
PageHash hash_page(std::string_view content);

struct PageEntry {
  PageHash hash;
  std::uint64_t place = 0;  // in its part's data, in bytes
  std::uint32_t part = 0;   // of a chain, from its oldest on
  bool there = false;
  bool same = false;  // for who compares: what came last is what this says
};

class PageMap {
 public:
  /// nullptr if it is not there.
  PageEntry* find(const std::string& block, std::uint64_t number);
  void put(const std::string& block, std::uint64_t number, const PageEntry& entry);
  void erase(const std::string& block, std::uint64_t number);
  /// In the order of blocks' names and of numbers.
  void each(const std::function<void(const std::string& block, std::uint64_t number,
                                     const PageEntry& entry)>& visit) const;
  /// No entry is `same` any more.
  void unmark();
  std::uint64_t count() const { return count_; }

 private:
  static constexpr std::size_t kLeaf = 256;
  using Leaf = std::array<PageEntry, kLeaf>;
  std::map<std::string, std::map<std::uint64_t, std::unique_ptr<Leaf>>> blocks_;
  std::uint64_t count_ = 0;
};

}  // namespace mare::checkpointfile
