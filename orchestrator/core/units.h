// Units are types inside, suffixes at SQL and JSON borders.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace mare {

using Seconds = std::chrono::duration<double>;
using Milliseconds = std::chrono::milliseconds;
using Microseconds = std::chrono::microseconds;

struct Bytes {
  std::uint64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
  constexpr double mib() const { return static_cast<double>(count) / (1024.0 * 1024.0); }
};
constexpr Bytes mebibytes(std::uint64_t n) {
  return Bytes{n * 1024 * 1024};
}
constexpr Bytes operator+(Bytes a, Bytes b) {
  return Bytes{a.count + b.count};
}
/// Never below zero.
constexpr Bytes operator-(Bytes a, Bytes b) {
  return Bytes{a.count > b.count ? a.count - b.count : 0};
}

/// For people: "192 MiB", rounded down.
inline std::string mib_text(Bytes bytes) {
  return std::to_string(bytes.count / (1024 * 1024)) + " MiB";
}

struct BytesPerSecond {
  double value = 0;
  auto operator<=>(const BytesPerSecond&) const = default;
};

}  // namespace mare
