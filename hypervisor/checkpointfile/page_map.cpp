#include "hypervisor/checkpointfile/page_map.h"

#include "orchestrator/core/checksum.h"

namespace mare::checkpointfile {
namespace {
constexpr std::uint64_t kOtherSeed = 0x6d617265'70616765ULL;
}  // namespace

PageHash hash_page(std::string_view content) {
  Checksum first;
  Checksum second(kOtherSeed);
  first.add(content);
  second.add(content);
  return {first.value(), second.value()};
}

PageEntry* PageMap::find(const std::string& block, std::uint64_t number) {
  const auto leaves = blocks_.find(block);
  if (leaves == blocks_.end()) return nullptr;
  const auto leaf = leaves->second.find(number / kLeaf);
  if (leaf == leaves->second.end()) return nullptr;
  PageEntry& entry = leaf->second->at(number % kLeaf);
  return entry.there ? &entry : nullptr;
}

void PageMap::put(const std::string& block, std::uint64_t number, const PageEntry& entry) {
  auto& leaf = blocks_[block][number / kLeaf];
  if (!leaf) leaf = std::make_unique<Leaf>();
  PageEntry& mine = leaf->at(number % kLeaf);
  if (!mine.there) ++count_;
  mine = entry;
  mine.there = true;
}

void PageMap::erase(const std::string& block, std::uint64_t number) {
  PageEntry* entry = find(block, number);
  if (entry == nullptr) return;
  entry->there = false;
  --count_;
}

void PageMap::unmark() {
  for (auto& [block, leaves] : blocks_) {
    for (auto& [index, leaf] : leaves) {
      for (auto& entry : *leaf) entry.same = false;
    }
  }
}

void PageMap::each(const std::function<void(const std::string& block, std::uint64_t number,
                                            const PageEntry& entry)>& visit) const {
  for (const auto& [block, leaves] : blocks_) {
    for (const auto& [index, leaf] : leaves) {
      for (std::size_t i = 0; i < kLeaf; ++i) {
        if (leaf->at(i).there) visit(block, index * kLeaf + i, leaf->at(i));
      }
    }
  }
}

}  // namespace mare::checkpointfile
