#include "netarp/frame.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace mare::netarp {
namespace {

constexpr MacAddress kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
/// RFC 2464, 7: 33:33 and the last four bytes of ff02::1.
constexpr MacAddress kAllNodesMac{{0x33, 0x33, 0x00, 0x00, 0x00, 0x01}};
constexpr Ipv6Address kAllNodes{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01}};

constexpr std::uint16_t kEtherTypeArp = 0x0806;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr std::uint16_t kArpRequest = 1;
constexpr std::uint16_t kArpReply = 2;
constexpr std::uint8_t kIcmpv6 = 58;
constexpr std::uint8_t kNeighbourAdvertisement = 136;
constexpr std::uint8_t kOverride = 0x20;
constexpr std::uint8_t kTargetLinkLayerAddress = 2;
/// RFC 4861, 7.1.2: anything less has been forwarded and is dropped.
constexpr std::uint8_t kHopLimit = 255;
constexpr std::uint16_t kAdvertisementLength = 32;
constexpr std::size_t kIpv6Start = 14;
constexpr std::size_t kIcmpStart = kIpv6Start + 40;

/// Writes big-endian fields one after the other.
class Writer {
 public:
  explicit Writer(std::span<std::uint8_t> out) : out_(out) {}
  void u8(std::uint8_t value) { out_[at_++] = value; }
  void u16(std::uint16_t value) {
    u8(static_cast<std::uint8_t>(value >> 8U));
    u8(static_cast<std::uint8_t>(value & 0xffU));
  }
  void u32(std::uint32_t value) {
    u16(static_cast<std::uint16_t>(value >> 16U));
    u16(static_cast<std::uint16_t>(value & 0xffffU));
  }
  void bytes(std::span<const std::uint8_t> from) {
    std::copy(from.begin(), from.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += from.size();
  }

 private:
  std::span<std::uint8_t> out_;
  std::size_t at_ = 0;
};

ArpFrame arp(std::uint16_t operation, const MacAddress& mac, Ipv4Address ip,
             const MacAddress& target) {
  ArpFrame frame{};
  Writer out(frame);
  out.bytes(kBroadcast.bytes);
  out.bytes(mac.bytes);
  out.u16(kEtherTypeArp);
  out.u16(1);       // hardware: Ethernet
  out.u16(0x0800);  // protocol: IPv4
  out.u8(6);
  out.u8(4);
  out.u16(operation);
  out.bytes(mac.bytes);
  out.u32(ip.value);
  out.bytes(target.bytes);
  out.u32(ip.value);
  return frame;
}

/// RFC 1071; `bytes` has an even length everywhere it is used.
std::uint32_t add_words(std::uint32_t sum, std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += (static_cast<std::uint32_t>(bytes[i]) << 8U) | bytes[i + 1];
  }
  return sum;
}

std::uint16_t fold(std::uint32_t sum) {
  while (sum > 0xffffU) sum = (sum >> 16U) + (sum & 0xffffU);
  return static_cast<std::uint16_t>(~sum & 0xffffU);
}

}  // namespace

ArpFrame gratuitous_arp_request(const MacAddress& mac, Ipv4Address ip) {
  return arp(kArpRequest, mac, ip, MacAddress{});
}

ArpFrame gratuitous_arp_reply(const MacAddress& mac, Ipv4Address ip) {
  return arp(kArpReply, mac, ip, mac);
}

AdvertisementFrame unsolicited_advertisement(const MacAddress& mac, const Ipv6Address& ip) {
  AdvertisementFrame frame{};
  Writer out(frame);
  out.bytes(kAllNodesMac.bytes);
  out.bytes(mac.bytes);
  out.u16(kEtherTypeIpv6);
  out.u32(0x60000000);  // version 6, no traffic class, no flow
  out.u16(kAdvertisementLength);
  out.u8(kIcmpv6);
  out.u8(kHopLimit);
  out.bytes(ip.bytes);
  out.bytes(kAllNodes.bytes);
  out.u8(kNeighbourAdvertisement);
  out.u8(0);
  out.u16(0);  // checksum, below
  out.u8(kOverride);
  out.u8(0);
  out.u16(0);
  out.bytes(ip.bytes);
  out.u8(kTargetLinkLayerAddress);
  out.u8(1);  // in units of 8 bytes
  out.bytes(mac.bytes);

  // RFC 4443, 2.3: over the pseudo-header (addresses, length, next header) and the message.
  const std::span<const std::uint8_t> all(frame);
  std::uint32_t sum = add_words(0, all.subspan(kIpv6Start + 8, 32));
  sum += kAdvertisementLength;
  sum += kIcmpv6;
  const std::uint16_t checksum = fold(add_words(sum, all.subspan(kIcmpStart)));
  frame[kIcmpStart + 2] = static_cast<std::uint8_t>(checksum >> 8U);
  frame[kIcmpStart + 3] = static_cast<std::uint8_t>(checksum & 0xffU);
  return frame;
}

}  // namespace mare::netarp
