#include "hypervisor/dirtylog/send_queue.h"

#include <gtest/gtest.h>
#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hypervisor/dirtylog/sockets.h"

namespace mare::dirtylog {
namespace {

constexpr Bytes kLimit{200'000};

std::uint32_t limit_of(const Fd& socket) {
  std::uint32_t bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(getsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size), 0);
  return bytes;
}

int priority_of(const Fd& socket) {
  int priority = 0;
  socklen_t size = sizeof priority;
  EXPECT_EQ(getsockopt(socket.get(), SOL_SOCKET, SO_PRIORITY, &priority, &size), 0);
  return priority;
}

class SendQueue : public testing::Test {
 protected:
  SendQueue() {
    auto listening = listen_on("127.0.0.1", port_);
    EXPECT_TRUE(listening.ok());
    listener_ = std::move(*listening);
  }
  Fd connect() {
    auto out = connect_to({"127.0.0.1", port_}, clock_, clock_.now() + std::chrono::seconds{5});
    EXPECT_TRUE(out.ok()) << (out ? "" : out.error().text());
    return out ? std::move(*out) : Fd{};
  }

  SystemClock clock_;
  std::uint16_t port_ = 0;
  Fd listener_;
};

TEST_F(SendQueue, OnlyConnectionsAreBoundedAndGiveWayAndEachOnce) {
  const Fd first = connect();
  auto queues = SendQueues::open(getpid());
  ASSERT_TRUE(queues.ok()) << queues.error().text();
  const auto usual = limit_of(listener_);
  auto bounded = queues->bound(kLimit);
  if (!bounded && bounded.error().code == Code::Unavailable) GTEST_SKIP() << bounded.error().text();
  ASSERT_TRUE(bounded.ok()) << bounded.error().text();
  EXPECT_GE(*bounded, 1);
  EXPECT_EQ(limit_of(first), kLimit.count);
  EXPECT_EQ(limit_of(listener_), usual);
  EXPECT_EQ(priority_of(first), TC_PRIO_BULK);
  EXPECT_EQ(priority_of(listener_), TC_PRIO_BESTEFFORT);

  const Fd second = connect();
  EXPECT_EQ(*queues->bound(kLimit), 1);
  EXPECT_EQ(limit_of(second), kLimit.count);
  EXPECT_EQ(*queues->bound(kLimit), 0);
}

TEST_F(SendQueue, AProcessThatHasEndedIsNotFound) {
  EXPECT_EQ(SendQueues::open(0x3fffffff).error().code, Code::NotFound);
}

TEST(UnsentLimit, IsTenMillisecondsOfTheLinkWithinBounds) {
  EXPECT_EQ(unsent_limit(BytesPerSecond{50e6}).count, 500'000U);
  EXPECT_EQ(unsent_limit(BytesPerSecond{12e6}).count, 128U * 1024);
  EXPECT_EQ(unsent_limit(BytesPerSecond{5e9}).count, 1024U * 1024);
  EXPECT_EQ(unsent_limit(BytesPerSecond{}).count, 256U * 1024);
}

}  // namespace
}  // namespace mare::dirtylog
