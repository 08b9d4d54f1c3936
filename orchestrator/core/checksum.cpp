#include "orchestrator/core/checksum.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace mare {
namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87ULL;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fULL;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9ULL;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63ULL;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5ULL;
constexpr std::size_t kStripe = 32;

// The specification reads little-endian; so does every machine that Maré runs on.
static_assert(std::endian::native == std::endian::little);

template <typename T>
T read(const unsigned char* from) {
  T value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

void add_stripe(std::array<std::uint64_t, 4>& lanes, const unsigned char* stripe) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i] = round(lanes[i], read<std::uint64_t>(stripe + 8 * i));
  }
}

}  // namespace

Checksum::Checksum(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Checksum::add(const void* data, std::size_t size) {
  if (size == 0) return;  // of nothing there need not be an address
  const auto* from = static_cast<const unsigned char*>(data);
  total_ += size;
  if (kept_ > 0) {
    const std::size_t take = std::min(size, kStripe - kept_);
    std::memcpy(rest_.data() + kept_, from, take);
    kept_ += take;
    from += take;
    size -= take;
    if (kept_ < kStripe) return;
    add_stripe(lanes_, rest_.data());
    kept_ = 0;
  }
  for (; size >= kStripe; from += kStripe, size -= kStripe) add_stripe(lanes_, from);
  if (size > 0) std::memcpy(rest_.data(), from, size);
  kept_ = size;
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = seed_ + kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const auto lane : lanes_) hash = merge(hash, lane);
  }
  hash += total_;
  std::size_t at = 0;
  for (; at + 8 <= kept_; at += 8) {
    hash ^= round(0, read<std::uint64_t>(rest_.data() + at));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (at + 4 <= kept_) {
    hash ^= read<std::uint32_t>(rest_.data() + at) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < kept_; ++at) {
    hash ^= rest_[at] * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33U)) * kPrime2;
  hash = (hash ^ (hash >> 29U)) * kPrime3;
  return hash ^ (hash >> 32U);
}

std::string checksum_text(std::uint64_t checksum) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(checksum));
  return text.data();
}

bool checksum_from(std::string_view text, std::uint64_t& checksum) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, checksum, 16);
  return text.size() == 16 && error == std::errc{} && stop == end;
}

}  // namespace mare
