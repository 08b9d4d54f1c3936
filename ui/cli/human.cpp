#include "ui/cli/human.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace mare::cli {
namespace {

std::string with_unit(double value, const char* unit) {
  char text[64];
  // Three digits tell enough: 9.87, 98.7, 987.
  const int digits = value >= 99.95 || value == std::floor(value) ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
  return text;
}

struct Quantity {
  double value = 0;
  std::string unit;  // lower case, without blanks
  std::string exact_unit;
};

std::optional<Quantity> split(std::string_view text) {
  Quantity out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.value);
  if (error != std::errc{} || !std::isfinite(out.value) || out.value <= 0) return std::nullopt;
  for (const char* at = end; at != text.data() + text.size(); ++at) {
    if (*at == ' ') continue;
    out.exact_unit += *at;
    out.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  }
  return out;
}

}  // namespace

std::string human_bytes(double bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1023.95 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return with_unit(bytes, kUnits[unit]);
}

std::string human_rate(double bytes_per_s) {
  static constexpr std::array kUnits{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  while (bytes_per_s >= 999.95 && unit + 1 < kUnits.size()) {
    bytes_per_s /= 1000;
    ++unit;
  }
  return with_unit(bytes_per_s, kUnits[unit]);
}

std::string human_ms(double milliseconds) {
  if (milliseconds < 0) return "-" + human_ms(-milliseconds);
  if (milliseconds < 1000) return with_unit(milliseconds, "ms");
  if (milliseconds < 120'000) return with_unit(milliseconds / 1000, "s");
  const auto seconds = static_cast<long long>(std::llround(milliseconds / 1000));
  if (seconds < 7200) {
    return std::to_string(seconds / 60) + "m " + std::to_string(seconds % 60) + "s";
  }
  return std::to_string(seconds / 3600) + "h " + std::to_string(seconds / 60 % 60) + "m";
}

std::string human_age(WallTime then, WallTime now) {
  if (then.count() == 0) return {};
  const long long seconds = std::max<long long>(0, (now - then).count() / 1'000'000);
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  if (seconds < 172'800) {
    return std::to_string(seconds / 3600) + "h " + std::to_string(seconds / 60 % 60) + "m";
  }
  return std::to_string(seconds / 86'400) + "d";
}

std::string short_time(const std::string& rfc3339) {
  if (rfc3339.size() < 20 || rfc3339[10] != 'T' || rfc3339.back() != 'Z') return rfc3339;
  return rfc3339.substr(0, 10) + " " + rfc3339.substr(11, 8) + "Z";
}

Result<BytesPerSecond> parse_rate(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 20> kUnits{{
      {"", 1},       {"b", 1},         {"k", 1e3},          {"kb", 1e3},
      {"m", 1e6},    {"mb", 1e6},      {"g", 1e9},          {"gb", 1e9},
      {"kib", 1024}, {"mib", 1048576}, {"gib", 1073741824}, {"bit", 0.125},
      {"kbit", 125}, {"mbit", 125e3},  {"gbit", 125e6},     {"bps", 0.125},
      {"kbps", 125}, {"mbps", 125e3},  {"gbps", 125e6},     {"tbit", 125e9},
  }};
  if (auto quantity = split(text)) {
    std::string unit = quantity->unit;
    if (unit.ends_with("/s")) unit.resize(unit.size() - 2);
    // "Mb" is megabits to some and megabytes to others: refuse to guess.
    const bool doubtful = quantity->exact_unit.size() >= 2 && quantity->exact_unit[1] == 'b' &&
                          (quantity->exact_unit.size() == 2 || quantity->exact_unit[2] == '/');
    for (const auto& [name, factor] : kUnits) {
      if (name == unit && !doubtful) return BytesPerSecond{quantity->value * factor};
    }
  }
  return field_error("bandwidth", "'" + std::string(text) + "' is not a rate",
                     "write it like 50MB/s, 12MiB/s or 1gbit");
}

Result<Bytes> parse_memory(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 11> kMib{{
      {"", 1},
      {"m", 1},
      {"mib", 1},
      {"mb", 1},
      {"g", 1024},
      {"gib", 1024},
      {"gb", 1024},
      {"t", 1048576},
      {"tib", 1048576},
      {"k", 1.0 / 1024},
      {"kib", 1.0 / 1024},
  }};
  if (auto quantity = split(text)) {
    for (const auto& [name, factor] : kMib) {
      const double mib = quantity->value * factor;
      if (name == quantity->unit && mib == std::floor(mib) && mib <= 16.0 * 1024 * 1024) {
        return mebibytes(static_cast<std::uint64_t>(mib));
      }
    }
  }
  return field_error("memory", "'" + std::string(text) + "' is not a size in whole MiB",
                     "write it like 192, 192MiB or 2GiB");
}

}  // namespace mare::cli
