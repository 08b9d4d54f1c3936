#include "orchestrator/core/net.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstdio>

namespace mare {

std::string MacAddress::text() const {
  std::array<char, 18> out{};
  std::snprintf(out.data(), out.size(), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1],
                bytes[2], bytes[3], bytes[4], bytes[5]);
  return out.data();
}

Result<MacAddress> MacAddress::parse(std::string_view text) {
  const Error bad =
      make_error(Code::InvalidArgument, "'" + std::string(text) + "' is not a MAC address",
                 "write it as 52:54:00:12:34:56");
  if (text.size() != 17) return bad;
  MacAddress mac;
  for (std::size_t i = 0; i < 6; ++i) {
    const char* begin = text.data() + i * 3;
    const auto parsed = std::from_chars(begin, begin + 2, mac.bytes[i], 16);
    if (parsed.ec != std::errc{} || parsed.ptr != begin + 2) return bad;
    if (i < 5 && text[i * 3 + 2] != ':') return bad;
  }
  return mac;
}

std::string Ipv4Address::text() const {
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), "%u.%u.%u.%u", value >> 24U, (value >> 16U) & 0xffU,
                (value >> 8U) & 0xffU, value & 0xffU);
  return out.data();
}

Result<Ipv4Address> Ipv4Address::parse(std::string_view text) {
  in_addr raw{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &raw) != 1) {
    return make_error(Code::InvalidArgument, "'" + std::string(text) + "' is not an IPv4 address",
                      "write it as 10.77.1.1");
  }
  return Ipv4Address{ntohl(raw.s_addr)};
}

std::string Ipv6Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(AF_INET6, bytes.data(), out.data(), out.size());
  return out.data();
}

Result<Ipv6Address> Ipv6Address::parse(std::string_view text) {
  Ipv6Address address;
  if (inet_pton(AF_INET6, std::string(text).c_str(), address.bytes.data()) != 1) {
    return make_error(Code::InvalidArgument, "'" + std::string(text) + "' is not an IPv6 address",
                      "write it as fe80::1");
  }
  return address;
}

bool Ipv4Subnet::contains(Ipv4Address address) const {
  const std::uint32_t mask = prefix_length == 0 ? 0 : ~0U << (32 - prefix_length);
  return (address.value & mask) == (network.value & mask);
}

std::uint32_t Ipv4Subnet::usable() const {
  const std::uint64_t all = 1ULL << (32 - prefix_length);
  return all <= 2 ? 0 : static_cast<std::uint32_t>(all - 2);
}

Result<Ipv4Subnet> Ipv4Subnet::parse(std::string_view text) {
  const Error bad =
      make_error(Code::InvalidArgument, "'" + std::string(text) + "' is not an IPv4 subnet",
                 "write it as 10.77.1.0/24");
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return bad;
  auto address = Ipv4Address::parse(text.substr(0, slash));
  if (!address) return bad;
  const auto digits = text.substr(slash + 1);
  int length = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return bad;
  if (length < 1 || length > 30) return bad;
  const std::uint32_t mask = ~0U << (32 - length);
  return Ipv4Subnet{Ipv4Address{address->value & mask}, length};
}

std::string Endpoint::text() const {
  return host + ":" + std::to_string(port);
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const Error bad =
      make_error(Code::InvalidArgument, "'" + std::string(text) + "' is not an address with a port",
                 "write it as 10.77.0.11:7412");
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  Endpoint endpoint;
  endpoint.host = std::string(text.substr(0, colon));
  const auto digits = text.substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return bad;
  for (const char c : endpoint.host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '/') return bad;
  }
  return endpoint;
}

}  // namespace mare
