// What the client does when the other side breaks, is silent, or is somebody else.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "fake_guest.h"
#include "images/guest/protocol.h"
#include "orchestrator/guestlink/guestlink.h"

namespace mare::guestlink {
namespace {

class GuestLinkFaultTest : public testing::Test {
 protected:
  std::unique_ptr<GuestPort> link(std::uint16_t port, Milliseconds call = Milliseconds{5'000}) {
    GuestLinkOptions options;
    options.port = port;
    options.call_timeout = call;
    return make_guest_port(clock_, log_, options);
  }
  const GuestAddress guest_{VmId{"demo-0"}, Ipv4Address{INADDR_LOOPBACK}, "secret-token"};
  const GuestRun run_{JobId{"job-1"}, "/jobs/job-1", {"/bin/true"}, {}};
  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
};

std::string running(const std::string& /*line*/, int /*connection*/, bool& /*keep*/) {
  return "OK state=running output_bytes=0\n";
}

TEST_F(GuestLinkFaultTest, ManyCallsUseOneConnection) {
  FakeGuest fake(running);
  const auto port = link(fake.port());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(port->run_status(guest_, run_));
  EXPECT_EQ(fake.connections(), 1);
}

TEST_F(GuestLinkFaultTest, SafePointsAreReadAndAnOlderGuestHasNone) {
  FakeGuest fake([](const std::string& line, int, bool&) {
    if (line.ends_with(" SAFEPOINT id=job-1")) {
      return std::string("OK ranks=3 inside=2 entered=17 outside_ms=41 more=1\n");
    }
    return std::string("ERR bad-request unknown%20verb%20'SAFEPOINT'\n");
  });
  const auto port = link(fake.port());
  const auto found = port->safe_points(guest_, JobId{"job-1"});
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->ranks, 3);
  EXPECT_EQ(found->inside, 2);
  EXPECT_EQ(found->entered, 17U);
  EXPECT_EQ(found->outside, Milliseconds{41});
  const auto older = port->safe_points(guest_, JobId{"job-2"});
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::Unsupported);
  EXPECT_NE(older.error().text().find("build the image"), std::string::npos);
}

TEST_F(GuestLinkFaultTest, AConnectionThatWentWithTheLastBootIsMadeAnew) {
  FakeGuest fake([](const std::string&, int connection, bool& keep) {
    keep = connection > 1;  // the first one answers once and is closed
    return std::string("OK state=running output_bytes=0\n");
  });
  const auto port = link(fake.port());
  ASSERT_TRUE(port->run_status(guest_, run_));
  const auto again = port->run_status(guest_, run_);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(fake.connections(), 2);
}

TEST_F(GuestLinkFaultTest, AFreshConnectionThatBreaksIsNotRepeated) {
  FakeGuest fake([](const std::string&, int, bool& keep) {
    keep = false;
    return std::string();
  });
  const auto port = link(fake.port());
  const auto reply = port->run_status(guest_, run_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::Unavailable);
  EXPECT_NE(reply.error().message.find("127.0.0.1:" + std::to_string(fake.port())),
            std::string::npos);
  EXPECT_EQ(fake.connections(), 1);
}

TEST_F(GuestLinkFaultTest, SilenceEndsAtTheTimeoutAndIsNotAskedTwice) {
  FakeGuest fake([](const std::string& line, int, bool&) {
    return line.find(" STATUS ") != std::string::npos ? std::string()
                                                      : std::string("OK was_ns=1 wall_ns=2\n");
  });
  const auto port = link(fake.port(), Milliseconds{150});
  ASSERT_TRUE(port->set_clock(guest_, WallTime{1}));  // now there is a kept connection
  const MonotonicTime begun = clock_.now();
  const auto reply = port->run_status(guest_, run_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::Unavailable);
  EXPECT_GE(clock_.now() - begun, Milliseconds{150});
  EXPECT_EQ(fake.connections(), 1);
}

TEST_F(GuestLinkFaultTest, NobodyListeningIsUnavailable) {
  std::uint16_t port = 0;
  {
    FakeGuest gone(running);
    port = gone.port();
  }
  const auto reply = link(port)->run_status(guest_, run_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::Unavailable);
  EXPECT_NE(reply.error().message.find("refused"), std::string::npos);
}

TEST_F(GuestLinkFaultTest, SomebodyElsesGuestIsRefused) {
  FakeGuest fake([](const std::string&, int, bool&) {
    return std::string("OK protocol=1 hostname=other-3 boot_id=b uptime_ms=1\n");
  });
  const auto reply = link(fake.port())->hello(guest_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::Unauthenticated);
  EXPECT_NE(reply.error().message.find("other-3"), std::string::npos);
  EXPECT_NE(reply.error().message.find("demo-0"), std::string::npos);
}

TEST_F(GuestLinkFaultTest, AnAnswerWithoutEndOrWithAHugePayloadIsCutOff) {
  FakeGuest endless([](const std::string&, int, bool&) {
    return "OK state=" + std::string(MARE_GUEST_LINE_MAX * 2, 'x');
  });
  EXPECT_FALSE(link(endless.port())->run_status(guest_, run_));
  FakeGuest huge([](const std::string&, int, bool&) {
    return "OK offset=0 total=1 len=" + std::to_string(MARE_GUEST_OUTPUT_MAX + 1) + "\n";
  });
  EXPECT_FALSE(link(huge.port())->output(guest_, run_, 0, 100));
}

TEST_F(GuestLinkFaultTest, AnUnknownStateIsNotGuessed) {
  FakeGuest fake([](const std::string&, int, bool&) { return std::string("OK state=frozen\n"); });
  const auto reply = link(fake.port())->run_status(guest_, run_);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().message.find("frozen"), std::string::npos);
}

TEST_F(GuestLinkFaultTest, AProbeOfNobodySendsAndHearsNothing) {
  // A UDP port that nobody has: taken and given back.
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  auto probe = link(ntohs(address.sin_port))->start_probe(guest_, Microseconds{1'000});
  ASSERT_TRUE(probe) << probe.error().text();
  while ((*probe)->report(false).sent < 20) clock_.sleep_for(Milliseconds{1});
  const auto report = (*probe)->report(true);
  EXPECT_EQ(report.answered, 0);
  EXPECT_FALSE(report.clock_lost);
  EXPECT_EQ((*probe)->report(true).sent, report.sent) << "it goes on after it was stopped";
}

/// A guest that has the CPU for a moment every so often, and answers then what has come meanwhile.
class SeldomEcho {
 public:
  explicit SeldomEcho(Milliseconds every) : every_(every) {
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~SeldomEcho() {
    over_.store(true);
    thread_.join();
    close(fd_);
  }
  std::uint16_t port() const { return ntohs(address_.sin_port); }

 private:
  void serve() {
    while (!over_.load()) {
      clock_.sleep_for(every_);
      std::array<unsigned char, MARE_GUEST_PONG_BYTES> packet{};
      sockaddr_in from{};
      socklen_t size = sizeof from;
      while (recvfrom(fd_, packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from),
                      &size) > 0) {
        std::memcpy(packet.data(), MARE_GUEST_PONG_MAGIC, 8);
        (void)sendto(fd_, packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from),
                     size);
      }
    }
  }

  const Milliseconds every_;
  SystemClock clock_;
  int fd_ = -1;
  sockaddr_in address_{};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_F(GuestLinkFaultTest, AGuestThatIsSlowToAnswerIsAskedSeldom) {
  constexpr Milliseconds kEvery{40};
  SeldomEcho guest(kEvery);
  auto probe = link(guest.port())->start_probe(guest_, Microseconds{2'000});
  ASSERT_TRUE(probe) << probe.error().text();
  (*probe)->watch_closely(true);
  while ((*probe)->report(false).answered == 0) clock_.sleep_for(Milliseconds{1});
  const auto before = (*probe)->report(false);
  const MonotonicTime begun = clock_.now();
  while ((*probe)->report(false).answered < before.answered + 20) clock_.sleep_for(Milliseconds{1});
  const auto periods = (clock_.now() - begun) / kEvery;
  // At 2 ms each there would be 20 in each of them.
  EXPECT_LE((*probe)->report(true).sent - before.sent, 5 + 2 * periods);
}

TEST_F(GuestLinkFaultTest, AGuestIsAskedSeldomUntilItsSwitchIsNear) {
  constexpr Microseconds kPeriod{2'000};
  SeldomEcho guest(Milliseconds{1});
  auto probe = link(guest.port())->start_probe(guest_, kPeriod);
  ASSERT_TRUE(probe) << probe.error().text();
  const auto answered = [&probe] { return (*probe)->report(false).answered; };
  while (answered() < 20) clock_.sleep_for(Milliseconds{1});
  // One more may be on its way; those after it are 200 periods apart.
  int before = answered();
  MonotonicTime begun = clock_.now();
  while (answered() < before + 3) clock_.sleep_for(Milliseconds{1});
  EXPECT_GE(clock_.now() - begun, 200 * kPeriod);
  (*probe)->watch_closely(true);
  before = answered();
  begun = clock_.now();
  while (answered() < before + 20) clock_.sleep_for(Milliseconds{1});
  // Every 4 periods or 5 round trips; seldom, that would be 4,000 periods.
  EXPECT_LT(clock_.now() - begun, 2'000 * kPeriod);
}

TEST_F(GuestLinkFaultTest, APeriodThatMakesNoSenseIsRefused) {
  for (const Microseconds period : {Microseconds{0}, Microseconds{-5}, Microseconds{60'000'000}}) {
    const auto probe = link(1)->start_probe(guest_, period);
    ASSERT_FALSE(probe);
    EXPECT_EQ(probe.error().code, Code::InvalidArgument);
  }
}

TEST_F(GuestLinkFaultTest, ALongPeriodStopsAtOnce) {
  auto probe = link(9)->start_probe(guest_, Microseconds{10'000'000});
  ASSERT_TRUE(probe);
  const MonotonicTime begun = clock_.now();
  EXPECT_LE((*probe)->report(true).sent, 1);
  EXPECT_LT(clock_.now() - begun, std::chrono::seconds{8});
}

}  // namespace
}  // namespace mare::guestlink
