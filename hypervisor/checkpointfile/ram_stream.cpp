#include "hypervisor/checkpointfile/ram_stream.h"

#include <algorithm>

namespace mare::checkpointfile {
namespace {

constexpr std::uint64_t kFlags = kPageBytes - 1;
constexpr std::uint64_t kZero = 0x02;
constexpr std::uint64_t kMemorySize = 0x04;
constexpr std::uint64_t kPage = 0x08;
constexpr std::uint64_t kEnd = 0x10;
constexpr std::uint64_t kContinue = 0x20;
constexpr std::uint64_t kFlush = 0x200;

constexpr std::size_t kWord = 8;
constexpr char kSectionStart = 0x01;
constexpr char kSectionPart = 0x02;
constexpr char kSectionEnd = 0x03;
constexpr char kFooter = 0x7e;
constexpr std::size_t kSectionId = 4;
// START, id, its length and name, instance, version 4.
constexpr std::string_view kRamName{"\x03ram", 4};
constexpr std::string_view kRamVersion{"\0\0\0\x04", 4};
constexpr std::size_t kStartBytes = 1 + kSectionId + 4 + 4 + 4;
// The footer of a section and the head of one of RAM.
constexpr std::size_t kAgainBytes = 2 * (1 + kSectionId);
// More than any machine has: what has not ended by then is not what it seemed to be.
constexpr std::size_t kMostBlockBytes = std::size_t{1} << 16U;
constexpr std::size_t kKeep = std::size_t{1} << 20U;

std::uint64_t word(std::string_view from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kWord; ++i) {
    value = value << 8U | static_cast<unsigned char>(from[i]);
  }
  return value;
}

std::string word_text(std::uint64_t value) {
  std::string out(kWord, '\0');
  for (std::size_t i = kWord; i-- > 0; value >>= 8U) out[i] = static_cast<char>(value & 0xffU);
  return out;
}

bool starts_ram(std::string_view at) {
  return at[0] == kSectionStart && at.substr(1 + kSectionId, 4) == kRamName &&
         at.substr(kStartBytes - 4, 4) == kRamVersion;
}

bool goes_on(std::string_view at, std::string_view section) {
  const char type = at[1 + kSectionId];
  return at[0] == kFooter && (type == kSectionPart || type == kSectionEnd) &&
         at.substr(2 + kSectionId, kSectionId) == section;
}

}  // namespace

std::string page_header(std::uint64_t number) {
  return word_text(number * kPageBytes | kPage | kContinue);
}

std::string zero_header(std::uint64_t number) {
  return word_text(number * kPageBytes | kZero | kContinue) + '\0';
}

Status RamStream::add(std::string_view data) {
  buffer_.append(data);
  while (true) {
    auto more = step();
    if (!more) return more.error();
    if (!*more) break;
  }
  if (at_ >= kKeep || at_ == buffer_.size()) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  return ok_status();
}

Status RamStream::end() {
  return pass(buffer_.size() - at_);
}

Result<bool> RamStream::step() {
  switch (state_) {
    case State::Searching:
      return search();
    case State::Blocks:
      return read_blocks();
    case State::Pages:
      return read_page();
  }
  return false;
}

Status RamStream::pass(std::size_t size) {
  if (size == 0) return ok_status();
  const std::string_view data = rest().substr(0, size);
  at_ += size;
  return sink_.bytes(data);
}

/// It is not what it seemed to be: bytes, until a section is recognised again. At least one goes,
/// so that it ends.
Result<bool> RamStream::lost() {
  state_ = State::Searching;
  if (auto passed = pass(std::min<std::size_t>(1, rest().size())); !passed) return passed.error();
  return true;
}

Result<bool> RamStream::search() {
  const std::string_view here = rest();
  for (std::size_t i = 0; i + kStartBytes <= here.size(); ++i) {
    const std::string_view at = here.substr(i);
    const bool start = starts_ram(at);
    if (!start && (section_.empty() || !goes_on(at, section_))) continue;
    if (start) section_ = at.substr(1, kSectionId);
    state_ = start ? State::Blocks : State::Pages;
    if (auto passed = pass(i + (start ? kStartBytes : kAgainBytes)); !passed) return passed.error();
    return true;
  }
  const std::size_t undecided = std::min(here.size(), kStartBytes - 1);
  if (auto passed = pass(here.size() - undecided); !passed) return passed.error();
  return false;
}

std::size_t RamStream::block_named(const std::string& name) {
  const auto found = std::find(blocks_.begin(), blocks_.end(), name);
  if (found == blocks_.end()) blocks_.push_back(name);
  return static_cast<std::size_t>(std::find(blocks_.begin(), blocks_.end(), name) -
                                  blocks_.begin());
}

/// The memory's size and its blocks, which add up to it.
Result<bool> RamStream::read_blocks() {
  const std::string_view here = rest();
  if (here.size() < kWord) return false;
  const std::uint64_t first = word(here);
  if ((first & kFlags) != kMemorySize) return lost();
  std::uint64_t left = first & ~kFlags;
  std::size_t at = kWord;
  std::map<std::string, std::uint64_t> lengths;
  while (left > 0) {
    if (at > kMostBlockBytes) return lost();
    if (here.size() < at + 1) return false;
    const auto name_bytes = static_cast<unsigned char>(here[at]);
    if (here.size() < at + 1 + name_bytes + kWord) return false;
    const std::string name(here.substr(at + 1, name_bytes));
    const std::uint64_t length = word(here.substr(at + 1 + name_bytes));
    if (length == 0 || length > left || !lengths.emplace(name, length / kPageBytes).second) {
      return lost();
    }
    left -= length;
    at += 1 + name_bytes + kWord;
  }
  for (const auto& [name, pages] : lengths) block_named(name);
  lengths_ = std::move(lengths);
  block_.reset();
  state_ = State::Pages;
  if (auto passed = pass(at); !passed) return passed.error();
  return true;
}

bool RamStream::in_block(std::uint64_t number) const {
  const auto length = lengths_.find(blocks_[*block_]);
  return length != lengths_.end() && number < length->second;
}

Result<bool> RamStream::read_page() {
  const std::string_view here = rest();
  if (here.size() < kWord) return false;
  const std::uint64_t header = word(here);
  const std::uint64_t flags = header & kFlags;
  const std::uint64_t number = header / kPageBytes;
  if (flags == kPage || flags == kZero) return read_first_of_block(header);
  if (header == kEnd || header == kFlush) {
    if (header == kEnd) state_ = State::Searching;
    if (auto passed = pass(kWord); !passed) return passed.error();
    return true;
  }
  const bool zero = flags == (kZero | kContinue);
  const bool page = flags == (kPage | kContinue);
  if ((!zero && !page) || !block_ || !in_block(number)) return lost();
  const std::size_t size = kWord + (zero ? 1 : kPageBytes);
  if (here.size() < size) return false;
  if (zero && here[kWord] != '\0') return lost();
  at_ += size;
  const PageId which{*block_, number};
  const Status taken =
      zero ? sink_.zero(which, true) : sink_.page(which, true, here.substr(kWord, kPageBytes));
  if (!taken) return taken.error();
  return true;
}

/// The block's name is between the header and the content.
Result<bool> RamStream::read_first_of_block(std::uint64_t header) {
  const std::string_view here = rest();
  if (here.size() < kWord + 1) return false;
  const std::size_t head = kWord + 1 + static_cast<unsigned char>(here[kWord]);
  const bool zero = (header & kFlags) == kZero;
  const std::size_t content = zero ? 1 : kPageBytes;
  if (here.size() < head + content) return false;
  const std::string name(here.substr(kWord + 1, head - kWord - 1));
  if (!lengths_.contains(name)) return lost();
  block_ = block_named(name);
  const PageId which{*block_, header / kPageBytes};
  if (!in_block(which.number) || (zero && here[head] != '\0')) return lost();
  if (auto passed = pass(head + (zero ? 1 : 0)); !passed) return passed.error();
  if (zero) {
    auto taken = sink_.zero(which, false);
    if (!taken) return taken.error();
    return true;
  }
  at_ += kPageBytes;
  if (auto taken = sink_.page(which, false, here.substr(head, kPageBytes)); !taken) {
    return taken.error();
  }
  return true;
}

}  // namespace mare::checkpointfile
