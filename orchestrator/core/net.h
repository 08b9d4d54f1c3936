// MAC and IP addresses as values: parsed once at the border, never passed on as text.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/core/result.h"

namespace mare {

struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};
  auto operator<=>(const MacAddress&) const = default;
  std::string text() const;
  static Result<MacAddress> parse(std::string_view text);
};

struct Ipv4Address {
  std::uint32_t value = 0;  // host byte order
  auto operator<=>(const Ipv4Address&) const = default;
  std::string text() const;
  static Result<Ipv4Address> parse(std::string_view text);
};

struct Ipv6Address {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Ipv6Address&) const = default;
  std::string text() const;
  static Result<Ipv6Address> parse(std::string_view text);
};

/// "10.77.1.0/24"
struct Ipv4Subnet {
  Ipv4Address network;
  int prefix_length = 24;
  bool contains(Ipv4Address address) const;
  /// How many addresses are usable for machines (without network and broadcast).
  std::uint32_t usable() const;
  static Result<Ipv4Subnet> parse(std::string_view text);
};

/// "host:port"; the host may be a name, an IPv4 address or "[v6]".
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const;
  static Result<Endpoint> parse(std::string_view text);
};

}  // namespace mare
