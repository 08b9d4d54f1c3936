#include "hypervisor/checkpointfile/part_tail.h"

#include "hypervisor/checkpointfile/coding.h"
#include "hypervisor/checkpointfile/ram_stream.h"
#include "orchestrator/core/checksum.h"

namespace mare::checkpointfile {
namespace {

constexpr std::string_view kWhole = "MarePartIsWhole.";
// Each entry takes bytes: a count that is larger than what is left is none.
constexpr std::uint64_t kMostOf = std::uint64_t{1} << 32U;

void put(std::string& to, const Identity& identity) {
  put_number(to, identity.size.count);
  put_fixed(to, identity.checksum);
}

Identity identity_from(Decoder& from) {
  const Bytes size{from.number()};
  return {size, from.fixed()};
}

/// A page's number and place from those of the one before: mostly one on, and 4096 on.
class PageCoder {
 public:
  void begin(const std::string& block) {
    if (block == block_) return;
    block_ = block;
    next_ = 0;
  }
  std::uint64_t ahead(std::uint64_t number) {
    const std::uint64_t distance = number - next_;
    next_ = number + 1;
    return distance;
  }
  std::uint64_t number(std::uint64_t ahead) {
    const std::uint64_t number = next_ + ahead;
    next_ = number + 1;
    return number;
  }
  std::int64_t off(std::uint64_t place) {
    const auto distance = static_cast<std::int64_t>(place - place_);
    place_ = place + kPageBytes;
    return distance;
  }
  std::uint64_t place(std::int64_t off) {
    const std::uint64_t place = place_ + static_cast<std::uint64_t>(off);
    place_ = place + kPageBytes;
    return place;
  }

 private:
  std::string block_;
  std::uint64_t next_ = 0;
  std::uint64_t place_ = 0;
};

using Run = std::pair<std::string, std::uint64_t>;

/// Blocks' names, each with the number of its pages.
void put_runs(std::string& to, const std::vector<Run>& runs) {
  put_number(to, runs.size());
  for (const auto& [block, count] : runs) {
    put_text(to, block);
    put_number(to, count);
  }
}

void count_in(std::vector<Run>& runs, const std::string& block) {
  if (runs.empty() || runs.back().first != block) runs.emplace_back(block, 0);
  ++runs.back().second;
}

std::vector<Run> runs_from(Decoder& from) {
  std::vector<Run> runs;
  const std::uint64_t count = from.number();
  for (std::uint64_t i = 0; i < count && from.ok(); ++i) {
    std::string block(from.text());
    runs.emplace_back(std::move(block), from.number());
  }
  return runs;
}

void put_pages(std::string& to, const PageMap& pages) {
  std::vector<Run> runs;
  std::string entries;
  PageCoder coder;
  pages.each([&](const std::string& block, std::uint64_t number, const PageEntry& entry) {
    count_in(runs, block);
    coder.begin(block);
    put_number(entries, coder.ahead(number));
    put_signed(entries, coder.off(entry.place));
    put_fixed(entries, entry.hash.first);
    put_fixed(entries, entry.hash.second);
  });
  put_runs(to, runs);
  to += entries;
}

void pages_from(Decoder& from, PageMap& pages) {
  PageCoder coder;
  for (const auto& [block, count] : runs_from(from)) {
    coder.begin(block);
    for (std::uint64_t i = 0; i < count && from.ok(); ++i) {
      PageEntry entry;
      const std::uint64_t number = coder.number(from.number());
      entry.place = coder.place(from.signed_number());
      entry.hash.first = from.fixed();
      entry.hash.second = from.fixed();
      if (from.ok()) pages.put(block, number, entry);
    }
  }
}

void put_gone(std::string& to, const std::vector<Run>& gone) {
  std::vector<Run> runs;
  std::string entries;
  PageCoder coder;
  for (const auto& [block, number] : gone) {
    count_in(runs, block);
    coder.begin(block);
    put_number(entries, coder.ahead(number));
  }
  put_runs(to, runs);
  to += entries;
}

void gone_from(Decoder& from, std::vector<Run>& gone) {
  PageCoder coder;
  for (const auto& [block, count] : runs_from(from)) {
    coder.begin(block);
    for (std::uint64_t i = 0; i < count && from.ok(); ++i) {
      gone.emplace_back(block, coder.number(from.number()));
    }
  }
}

}  // namespace

std::string encode(const Tail& tail) {
  std::string out;
  put(out, tail.identity);
  put_text(out, tail.base ? tail.base->path : "");
  put(out, tail.base ? tail.base->identity : Identity{});
  put_number(out, tail.data_bytes);
  put_number(out, tail.chunks.size());
  for (const auto size : tail.chunks) put_number(out, size);
  put_number(out, tail.blocks.size());
  for (const auto& block : tail.blocks) put_text(out, block);
  put_text(out, tail.script);
  put_pages(out, tail.pages);
  put_gone(out, tail.gone);
  return out;
}

std::optional<Tail> decode_tail(std::string_view data) {
  Decoder from(data);
  Tail tail;
  tail.identity = identity_from(from);
  Base base;
  base.path = from.text();
  base.identity = identity_from(from);
  if (!base.path.empty()) tail.base = std::move(base);
  tail.data_bytes = from.number();
  const std::uint64_t chunks = from.number();
  if (chunks > kMostOf) return std::nullopt;
  for (std::uint64_t i = 0; i < chunks && from.ok(); ++i) tail.chunks.push_back(from.number());
  const std::uint64_t blocks = from.number();
  for (std::uint64_t i = 0; i < blocks && from.ok(); ++i) tail.blocks.emplace_back(from.text());
  tail.script = from.text();
  pages_from(from, tail.pages);
  gone_from(from, tail.gone);
  const std::uint64_t expected = (tail.data_bytes + kChunkBytes - 1) / kChunkBytes;
  if (!from.ok() || !from.at_end() || tail.chunks.size() != expected) return std::nullopt;
  return tail;
}

std::string encode(const Foot& foot) {
  std::string out;
  put_fixed(out, foot.tail_at);
  put_fixed(out, foot.tail_packed);
  put_fixed(out, foot.tail_bytes);
  put_fixed(out, foot.tail_checksum);
  put_fixed(out, 0);
  Checksum own;
  own.add(out);
  put_fixed(out, own.value());
  out += kWhole;
  return out;
}

std::optional<Foot> decode_foot(std::string_view data) {
  if (data.size() != kFootBytes || data.substr(kFootBytes - kWhole.size()) != kWhole) {
    return std::nullopt;
  }
  Decoder from(data);
  Foot foot;
  foot.tail_at = from.fixed();
  foot.tail_packed = from.fixed();
  foot.tail_bytes = from.fixed();
  foot.tail_checksum = from.fixed();
  (void)from.fixed();
  Checksum own;
  own.add(data.substr(0, 40));
  if (from.fixed() != own.value()) return std::nullopt;
  return foot;
}

}  // namespace mare::checkpointfile
