#include "tests/lab/netarp_capture/net.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace mare::netarp::test {
namespace {
/// Longer than any scheduling delay on a busy machine; only a failing test waits for it.
constexpr int kMarkerLimitMs = 10'000;
}  // namespace

bool run(const std::string& command) {
  return std::system(command.c_str()) == 0;
}

void NetTest::SetUp() {
  ASSERT_EQ(unshare(CLONE_NEWNET), 0) << "a network namespace needs root: " << std::strerror(errno);
  // No router solicitations and such between our frames. Absent on a kernel without IPv6.
  for (const char* scope : {"all", "default"}) {
    std::ofstream(std::string("/proc/sys/net/ipv6/conf/") + scope + "/disable_ipv6") << "1";
  }
}

void NetTest::add_bridge(const std::string& name) {
  // A bridge that snoops reports itself as a member of a multicast group, up to a second later.
  ASSERT_TRUE(run("ip link add name " + name +
                  " type bridge forward_delay 0 stp_state 0 mcast_snooping 0"));
  ASSERT_TRUE(run("ip link set " + name + " up"));
}

void NetTest::add_port(const std::string& bridge, const std::string& inside,
                       const std::string& outside) {
  ASSERT_TRUE(run("ip link add name " + inside + " type veth peer name " + outside));
  ASSERT_TRUE(run("ip link set " + inside + " master " + bridge));
  ASSERT_TRUE(run("ip link set " + inside + " up"));
  ASSERT_TRUE(run("ip link set " + outside + " up"));
  // The kernel tells the bridge of the carrier in a work queue of its own.
  ASSERT_TRUE(run("for i in $(seq 1000); do bridge link show dev " + inside +
                  " | grep -q 'state forwarding' && exit 0; sleep 0.01; done; exit 1"))
      << inside << " does not forward";
}

Port::Port(const std::string& interface)
    : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  const int ignore = 1;
  EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0) << interface;
  EXPECT_EQ(::setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore), 0);
}

Port::~Port() {
  ::close(fd_);
}

void Port::send(std::span<const std::uint8_t> frame) const {
  EXPECT_EQ(::send(fd_, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
}

std::optional<Bytes> Port::receive(int limit_ms) const {
  pollfd waiting{fd_, POLLIN, 0};
  if (::poll(&waiting, 1, limit_ms) != 1) return std::nullopt;
  std::array<std::uint8_t, 2048> buffer{};
  const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
  if (got < 0) return std::nullopt;
  return Bytes(buffer.begin(), buffer.begin() + got);
}

bool Port::receives(const Bytes& frame, int limit_ms) const {
  while (auto got = receive(limit_ms)) {
    if (*got == frame) return true;
  }
  return false;
}

bool Port::came_before(const Bytes& frame, const Bytes& marker) const {
  bool seen = false;
  while (auto got = receive(kMarkerLimitMs)) {
    if (*got == frame) seen = true;
    if (*got == marker) return seen;
  }
  ADD_FAILURE() << "the marker frame never came";
  return seen;
}

Bytes plain_frame(const MacAddress& from, const MacAddress& to, std::uint8_t tag) {
  Bytes frame(60, tag);
  std::copy(to.bytes.begin(), to.bytes.end(), frame.begin());
  std::copy(from.bytes.begin(), from.bytes.end(), frame.begin() + 6);
  frame[12] = 0x88;
  frame[13] = 0xb5;
  return frame;
}

}  // namespace mare::netarp::test
