#include "hypervisor/dirtylog/tcp_queues.h"

#include <gtest/gtest.h>
#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

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

/// What the kernel took from the network for a program that does not read.
int unread(const Fd& socket) {
  int bytes = 0;
  EXPECT_EQ(ioctl(socket.get(), FIONREAD, &bytes), 0);
  return bytes;
}

/// Sends until no more is taken for a while, as the kernel grows a buffer that is read from.
void fill(const Fd& sender, const Fd& receiver, std::size_t read_first) {
  const std::vector<char> block(256 * 1024, 'x');
  std::vector<char> into(block.size());
  std::size_t read_so_far = 0;
  pollfd writable{sender.get(), POLLOUT, 0};
  while (poll(&writable, 1, 200) == 1) {
    if (send(sender.get(), block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL) <= 0) break;
    if (read_so_far >= read_first) continue;
    const ssize_t got = recv(receiver.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) read_so_far += static_cast<std::size_t>(got);
  }
}

class TcpQueuesTest : public testing::Test {
 protected:
  TcpQueuesTest() {
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

TEST_F(TcpQueuesTest, OnlyConnectionsAreBoundedAndGiveWayAndEachOnce) {
  const Fd first = connect();
  auto queues = TcpQueues::open(getpid());
  ASSERT_TRUE(queues.ok()) << queues.error().text();
  const auto usual = limit_of(listener_);
  auto bounded = queues->bound_unsent(kLimit);
  if (!bounded && bounded.error().code == Code::Unavailable) GTEST_SKIP() << bounded.error().text();
  ASSERT_TRUE(bounded.ok()) << bounded.error().text();
  EXPECT_GE(*bounded, 1);
  EXPECT_EQ(limit_of(first), kLimit.count);
  EXPECT_EQ(limit_of(listener_), usual);
  EXPECT_EQ(priority_of(first), TC_PRIO_BULK);
  EXPECT_EQ(priority_of(listener_), TC_PRIO_BESTEFFORT);

  const Fd second = connect();
  EXPECT_EQ(*queues->bound_unsent(kLimit), 1);
  EXPECT_EQ(limit_of(second), kLimit.count);
  EXPECT_EQ(*queues->bound_unsent(kLimit), 0);
}

TEST_F(TcpQueuesTest, UrgentOnesAreBoundedAndGoWithAllOthers) {
  const Fd urgent = connect();
  auto queues = TcpQueues::open(getpid());
  ASSERT_TRUE(queues.ok()) << queues.error().text();
  const auto bounded = queues->bound_unsent(kLimit, Way::Urgent);
  if (!bounded && bounded.error().code == Code::Unavailable) GTEST_SKIP() << bounded.error().text();
  EXPECT_EQ(limit_of(urgent), kLimit.count);
  EXPECT_EQ(priority_of(urgent), TC_PRIO_BESTEFFORT);
}

TEST_F(TcpQueuesTest, WhatAReaderAsksForGoesOutAtOnce) {
  const auto waits = [](const Fd& socket) {
    int at_once = 0;
    socklen_t size = sizeof at_once;
    EXPECT_EQ(getsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, &size), 0);
    return at_once == 0;
  };
  const Fd reader = connect();
  ASSERT_TRUE(waits(reader));
  auto queues = TcpQueues::open(getpid());
  ASSERT_TRUE(queues.ok()) << queues.error().text();
  const auto bounded = queues->bound_unread(BytesPerSecond{12e6}, 1, Reader::Copies);
  if (!bounded) GTEST_SKIP() << bounded.error().text();
  EXPECT_FALSE(waits(reader));
  // Nor does one that is accepted before anybody has looked again.
  const Fd writer = connect();
  EXPECT_TRUE(waits(writer));
  const Fd first{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  const Fd accepted{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  EXPECT_FALSE(waits(accepted));
}

TEST_F(TcpQueuesTest, WhatWaitsToBeReadIsBoundedHoweverMuchWasReadBefore) {
  constexpr std::size_t kReadFirst = 64U << 20U;
  constexpr auto kUnread = 512 * 1024;
  const auto accepted = [this] {
    return Fd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  };
  const Fd free_sender = connect();
  const Fd free = accepted();
  fill(free_sender, free, kReadFirst);
  if (unread(free) < 2 * kUnread) GTEST_SKIP() << "this kernel keeps little by itself";

  const Fd sender = connect();
  const Fd receiver = accepted();
  auto queues = TcpQueues::open(getpid());
  ASSERT_TRUE(queues.ok()) << queues.error().text();
  const auto bounded = queues->bound_unread(BytesPerSecond{12e6}, 1, Reader::Copies);
  if (!bounded) GTEST_SKIP() << bounded.error().text();
  EXPECT_GE(*bounded, 2);
  fill(sender, receiver, kReadFirst);
  EXPECT_LE(unread(receiver), kUnread + 64 * 1024);
  EXPECT_GT(unread(receiver), kUnread / 4) << "not more than it has to";
  EXPECT_EQ(*queues->bound_unread(BytesPerSecond{12e6}, 1, Reader::Copies), 0);
}

TEST_F(TcpQueuesTest, AProcessThatHasEndedIsNotFound) {
  EXPECT_EQ(TcpQueues::open(0x3fffffff).error().code, Code::NotFound);
}

TEST(UnsentLimit, IsAConnectionsPartOfTenMillisecondsOfTheLinkWithinBounds) {
  EXPECT_EQ(unsent_limit(BytesPerSecond{50e6}, 1).count, 500'000U);
  EXPECT_EQ(unsent_limit(BytesPerSecond{50e6}, 2).count, 250'000U);
  EXPECT_EQ(unsent_limit(BytesPerSecond{12e6}, 1).count, 128U * 1024);
  EXPECT_EQ(unsent_limit(BytesPerSecond{5e9}, 1).count, 1024U * 1024);
  EXPECT_EQ(unsent_limit(BytesPerSecond{5e9}, 2).count, 512U * 1024) << "1 MiB in all";
  EXPECT_EQ(unsent_limit(BytesPerSecond{5e9}, 16).count, 128U * 1024);
  EXPECT_EQ(unsent_limit(BytesPerSecond{}, 0).count, 256U * 1024);
}

TEST(UnreadLimit, IsAConnectionsPartOfWhatALateReaderNeedsAndLeavesALongWayAlone) {
  const BytesPerSecond gigabit{117e6};
  const auto unpacks = [](BytesPerSecond link, int round_trip_us, int connections) {
    return unread_limit(link, Microseconds{round_trip_us}, connections, Reader::Unpacks);
  };
  EXPECT_EQ(unpacks(gigabit, 0, 1)->count, 1'170'000U);
  EXPECT_EQ(unpacks(gigabit, 0, 2)->count, 585'000U);
  EXPECT_EQ(unpacks(gigabit, 1000, 2)->count, 819'000U);
  EXPECT_EQ(unpacks(gigabit, 0, 8)->count, 512U * 1024);
  EXPECT_EQ(unpacks(BytesPerSecond{12e6}, 0, 0)->count, 512U * 1024);
  EXPECT_FALSE(unpacks(gigabit, 20'000, 1));
  EXPECT_FALSE(unpacks(BytesPerSecond{}, 0, 1)) << "for all it knows, 10 Gbit/s";
  EXPECT_EQ(unpacks(BytesPerSecond{}, 0, 10)->count, 1'250'000U);
}

TEST(UnreadLimit, OneThatOnlyCopiesMayBeThreeTimesAsLate) {
  const auto copies = [](double link, int round_trip_us) {
    return unread_limit(BytesPerSecond{link}, Microseconds{round_trip_us}, 1, Reader::Copies);
  };
  EXPECT_EQ(copies(117e6, 0)->count, 3'510'000U);
  EXPECT_EQ(copies(117e6, 1000)->count, 3'978'000U);
  EXPECT_FALSE(copies(117e6, 2000));
  EXPECT_EQ(copies(12e6, 0)->count, 512U * 1024);
}

}  // namespace
}  // namespace mare::dirtylog
