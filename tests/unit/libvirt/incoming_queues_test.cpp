#include "hypervisor/libvirt/incoming_queues.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "hypervisor/dirtylog/sockets.h"
#include "orchestrator/core/clock.h"

namespace mare::libvirt {
namespace {

// As unread_limit() for two channels over a link of 100 Mbit/s.
constexpr int kBound = 512 * 1024;

int buffer_of(const Fd& socket) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &size), 0);
  return bytes;
}

/// This process stands in for the QEMU that a VM comes to.
class IncomingQueuesTest : public testing::Test {
 protected:
  IncomingQueuesTest()
      : log_(clock_, LogLevel::Debug, [this](std::string_view) { warned_ = true; }) {
    auto listening = dirtylog::listen_on("127.0.0.1", port_);
    EXPECT_TRUE(listening.ok());
    listener_ = std::move(*listening);
    vm_.uuid = "6f0d3c1e-2a5b-4c7d-8e9f-001122334455";
    vm_.id = VmId{"demo-0"};
  }
  IncomingQueues::Host host() {
    return {[this](const VmKey&) -> Result<pid_t> {
              ++looked_;
              if (!started_) return make_error(Code::NotFound, "not started");
              return getpid();
            },
            [this](const std::string&) {
              ++asked_;
              if (!expected_) ++refused_;
              return expected_.load();
            },
            [] { return BytesPerSecond{12e6}; }};
  }
  Fd connect() {
    auto out =
        dirtylog::connect_to({"127.0.0.1", port_}, clock_, clock_.now() + std::chrono::seconds{5});
    EXPECT_TRUE(out.ok());
    peers_.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return out ? std::move(*out) : Fd{};
  }
  /// Its connection is bounded then, or there was a warning.
  Fd comes_by_one(IncomingQueues& queues, bool more) {
    Fd stream = connect();
    started_ = true;
    queues.expect(vm_, 1, dirtylog::Reader::Copies, more);
    EXPECT_TRUE(within_seconds([&] { return buffer_of(stream) == kBound || warned_; }));
    return stream;
  }
  template <typename Condition>
  bool within_seconds(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      clock_.sleep_for(std::chrono::milliseconds{10});
    }
    return false;
  }

  SystemClock clock_;
  std::atomic<bool> warned_ = false;
  Log log_;
  std::uint16_t port_ = 0;
  Fd listener_;
  std::vector<Fd> peers_;
  VmKey vm_;
  std::atomic<bool> started_ = false;
  std::atomic<bool> expected_ = true;
  std::atomic<int> looked_ = 0;
  std::atomic<int> refused_ = 0;
  std::atomic<int> asked_ = 0;  // once a look
};

TEST_F(IncomingQueuesTest, ConnectionsAreBoundedWheneverTheyComeUntilItHasCome) {
  const Fd first = connect();
  IncomingQueues queues(host(), clock_, log_);
  queues.expect(vm_, 2, dirtylog::Reader::Unpacks, false);
  ASSERT_TRUE(within_seconds([this] { return looked_ > 2; }));
  EXPECT_NE(buffer_of(first), kBound) << "there is no QEMU yet";
  started_ = true;
  ASSERT_TRUE(within_seconds([&] { return buffer_of(first) == kBound || warned_; }));
  if (warned_) GTEST_SKIP() << "not without CAP_SYS_PTRACE and CAP_NET_ADMIN";
  const Fd second = connect();
  EXPECT_TRUE(within_seconds([&] { return buffer_of(second) == kBound; }));

  expected_ = false;
  ASSERT_TRUE(within_seconds([this] { return refused_ > 0; }));
  // Another one is looked after from then on.
  started_ = false;
  expected_ = true;
  looked_ = 0;
  vm_.uuid[0] = '7';
  queues.expect(vm_, 2, dirtylog::Reader::Unpacks, false);
  ASSERT_TRUE(within_seconds([this] { return looked_ > 2; }));
  const Fd later = connect();
  looked_ = 0;
  ASSERT_TRUE(within_seconds([this] { return looked_ > 2; }));
  EXPECT_NE(buffer_of(later), kBound) << "what it connects to when it runs is its own";
}

TEST_F(IncomingQueuesTest, OneThatRunsBeforeAnybodyLookedIsStillBounded) {
  const Fd stream = connect();
  started_ = true;
  expected_ = false;
  IncomingQueues queues(host(), clock_, log_);
  queues.expect(vm_, 1, dirtylog::Reader::Copies, false);
  EXPECT_TRUE(within_seconds([&] { return buffer_of(stream) == kBound || warned_; }));
  if (warned_) GTEST_SKIP() << "not without CAP_SYS_PTRACE and CAP_NET_ADMIN";
}

TEST_F(IncomingQueuesTest, WhenAllAreThereItLooksSeldom) {
  IncomingQueues queues(host(), clock_, log_);
  const Fd stream = comes_by_one(queues, false);
  if (warned_) GTEST_SKIP() << "not without CAP_SYS_PTRACE and CAP_NET_ADMIN";
  const int then = asked_;
  const auto began = clock_.now();
  ASSERT_TRUE(within_seconds([&] { return asked_ >= then + 4; }));
  // One of them may have been on its way, or the first.
  EXPECT_GE(clock_.now() - began, std::chrono::milliseconds{1000});
  const Fd anew = connect();
  EXPECT_TRUE(within_seconds([&] { return buffer_of(anew) == kBound; }))
      << "it is found all the same";
}

TEST_F(IncomingQueuesTest, OneThatMayRunHereBeforeItsPagesComeIsLookedAtAllAlong) {
  IncomingQueues queues(host(), clock_, log_);
  const Fd stream = comes_by_one(queues, true);
  if (warned_) GTEST_SKIP() << "not without CAP_SYS_PTRACE and CAP_NET_ADMIN";
  const int then = asked_;
  EXPECT_TRUE(within_seconds([&] { return asked_ >= then + 25; }))
      << "20 of them at most, if seldom";
}

TEST_F(IncomingQueuesTest, EndsWhileOneIsExpected) {
  IncomingQueues queues(host(), clock_, log_);
  queues.expect(vm_, 2, dirtylog::Reader::Unpacks, false);
  ASSERT_TRUE(within_seconds([this] { return looked_ > 0; }));
}

}  // namespace
}  // namespace mare::libvirt
