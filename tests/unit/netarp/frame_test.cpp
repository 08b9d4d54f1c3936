// The bytes, once literally and once by an independent parser (libtins).
#include "netarp/frame.h"

#include <gtest/gtest.h>
#include <tins/tins.h>

#include <algorithm>
#include <vector>

namespace mare::netarp {
namespace {

const MacAddress kMac{{0x52, 0x54, 0x00, 0xab, 0xcd, 0xef}};
const Ipv4Address kIp{0x0a4d0102};  // 10.77.1.2
const Ipv6Address kIp6{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0xab, 0xcd, 0xef}};

TEST(ArpFrame, RequestBytes) {
  const std::array<std::uint8_t, 42> expected{
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0x00, 0xab, 0xcd, 0xef, 0x08, 0x06,
      0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x52, 0x54, 0x00, 0xab, 0xcd, 0xef,
      0x0a, 0x4d, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d, 0x01, 0x02};
  const auto frame = gratuitous_arp_request(kMac, kIp);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin()));
  EXPECT_TRUE(std::all_of(frame.begin() + 42, frame.end(), [](auto b) { return b == 0; }));
  EXPECT_EQ(frame.size(), 60U);
}

TEST(ArpFrame, ReplyBytes) {
  const std::array<std::uint8_t, 42> expected{
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0x00, 0xab, 0xcd, 0xef, 0x08, 0x06,
      0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02, 0x52, 0x54, 0x00, 0xab, 0xcd, 0xef,
      0x0a, 0x4d, 0x01, 0x02, 0x52, 0x54, 0x00, 0xab, 0xcd, 0xef, 0x0a, 0x4d, 0x01, 0x02};
  const auto frame = gratuitous_arp_reply(kMac, kIp);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.begin()));
  EXPECT_TRUE(std::all_of(frame.begin() + 42, frame.end(), [](auto b) { return b == 0; }));
}

void check_arp(const ArpFrame& frame, Tins::ARP::Flags operation, const std::string& target) {
  const Tins::EthernetII ethernet(frame.data(), static_cast<std::uint32_t>(frame.size()));
  EXPECT_EQ(ethernet.dst_addr(), Tins::HWAddress<6>::broadcast);
  EXPECT_EQ(ethernet.src_addr().to_string(), kMac.text());
  const auto& arp = ethernet.rfind_pdu<Tins::ARP>();
  EXPECT_EQ(arp.opcode(), operation);
  EXPECT_EQ(arp.hw_addr_format(), 1);
  EXPECT_EQ(arp.prot_addr_format(), 0x0800);
  EXPECT_EQ(arp.sender_hw_addr().to_string(), kMac.text());
  EXPECT_EQ(arp.sender_ip_addr().to_string(), "10.77.1.2");
  EXPECT_EQ(arp.target_ip_addr().to_string(), "10.77.1.2");
  EXPECT_EQ(arp.target_hw_addr().to_string(), target);
}

TEST(ArpFrame, IndependentParser) {
  check_arp(gratuitous_arp_request(kMac, kIp), Tins::ARP::REQUEST, "00:00:00:00:00:00");
  check_arp(gratuitous_arp_reply(kMac, kIp), Tins::ARP::REPLY, kMac.text());
}

TEST(Advertisement, IndependentParser) {
  const auto frame = unsolicited_advertisement(kMac, kIp6);
  Tins::EthernetII ethernet(frame.data(), static_cast<std::uint32_t>(frame.size()));
  EXPECT_EQ(ethernet.dst_addr().to_string(), "33:33:00:00:00:01");
  EXPECT_EQ(ethernet.src_addr().to_string(), kMac.text());
  const auto& ip = ethernet.rfind_pdu<Tins::IPv6>();
  EXPECT_EQ(ip.hop_limit(), 255);
  EXPECT_EQ(ip.src_addr().to_string(), kIp6.text());
  EXPECT_EQ(ip.dst_addr().to_string(), "ff02::1");
  const auto& icmp = ethernet.rfind_pdu<Tins::ICMPv6>();
  EXPECT_EQ(icmp.type(), Tins::ICMPv6::NEIGHBOUR_ADVERT);
  EXPECT_EQ(icmp.override(), 1);
  EXPECT_EQ(icmp.solicited(), 0);
  EXPECT_EQ(icmp.router(), 0);
  EXPECT_EQ(icmp.target_addr().to_string(), kIp6.text());
  EXPECT_EQ(icmp.target_link_layer_addr().to_string(), kMac.text());

  // libtins computes the checksum itself when it writes the frame again.
  const std::uint16_t ours = icmp.checksum();
  EXPECT_NE(ours, 0);
  const std::vector<std::uint8_t> again = ethernet.serialize();
  ASSERT_EQ(again.size(), frame.size());
  EXPECT_TRUE(std::equal(again.begin(), again.end(), frame.begin()));
  EXPECT_EQ(ethernet.rfind_pdu<Tins::ICMPv6>().checksum(), ours);
}

TEST(Advertisement, ChecksumOfManyAddresses) {
  // Sums that carry more than once are where a hand-made fold goes wrong.
  for (unsigned i = 0; i < 256; ++i) {
    const auto b = static_cast<std::uint8_t>(i);
    const auto n = static_cast<std::uint8_t>(255 - i);
    const MacAddress mac{{0x52, 0xff, b, 0xff, n, 0xff}};
    Ipv6Address ip;
    ip.bytes.fill(0xff);
    ip.bytes[0] = 0xfd;
    ip.bytes[8] = b;
    ip.bytes[15] = n;
    const auto frame = unsolicited_advertisement(mac, ip);
    Tins::EthernetII ethernet(frame.data(), static_cast<std::uint32_t>(frame.size()));
    const std::vector<std::uint8_t> again = ethernet.serialize();
    ASSERT_EQ(again.size(), frame.size());
    EXPECT_TRUE(std::equal(again.begin(), again.end(), frame.begin())) << i;
  }
}

}  // namespace
}  // namespace mare::netarp
