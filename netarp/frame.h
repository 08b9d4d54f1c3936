// The frames that tell a network where a VM's addresses are now. Pure: bytes from values.
//
// Every frame carries the VM's MAC twice, as Ethernet source and inside. The one inside repairs the
// neighbours' ARP tables; the one outside is what a switch learns its port from, and after a move
// the address has not changed while the port has, so it is the outer one that matters.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/core/net.h"

namespace mare::netarp {

/// 14 (Ethernet) + 28 (ARP) = 42 bytes, padded to Ethernet's least length without FCS.
using ArpFrame = std::array<std::uint8_t, 60>;
/// 14 (Ethernet) + 40 (IPv6) + 24 (advertisement) + 8 (target link-layer address option).
using AdvertisementFrame = std::array<std::uint8_t, 86>;

/// RFC 5227, 3: the announcement, "ARP Request" form; sender and target address are the VM's, the
/// target's hardware address is zero.
ArpFrame gratuitous_arp_request(const MacAddress& mac, Ipv4Address ip);

/// RFC 5944, 4.6: the "ARP Reply" form; the target's hardware address is the sender's. Some stacks
/// take only one of the two forms as a reason to update an entry, so both are sent.
ArpFrame gratuitous_arp_reply(const MacAddress& mac, Ipv4Address ip);

/// RFC 4861, 4.4 and 7.2.6: unsolicited, to all nodes, override set, solicited and router clear.
AdvertisementFrame unsolicited_advertisement(const MacAddress& mac, const Ipv6Address& ip);

}  // namespace mare::netarp
