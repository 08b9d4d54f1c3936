#include "orchestrator/core/rng.h"

#include <sys/random.h>

#include "orchestrator/core/result.h"

namespace mare {
namespace {
constexpr char kHex[] = "0123456789abcdef";
}

std::uint64_t SeededRng::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

std::uint64_t SystemRng::next() {
  std::uint64_t value = 0;
  const auto got = getrandom(&value, sizeof value, 0);
  MARE_ASSERT(got == static_cast<ssize_t>(sizeof value));
  return value;
}

std::string make_hex(Rng& rng, std::size_t bytes) {
  std::string text;
  text.reserve(bytes * 2);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) word = rng.next();
    const auto byte = static_cast<unsigned>(word & 0xffU);
    word >>= 8U;
    text.push_back(kHex[byte >> 4U]);
    text.push_back(kHex[byte & 0xfU]);
  }
  return text;
}

std::string make_uuid(Rng& rng) {
  std::string hex = make_hex(rng, 16);
  hex[12] = '4';                            // version 4
  hex[16] = kHex[8 + (rng.next() & 0x3U)];  // variant 10
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20);
}

}  // namespace mare
