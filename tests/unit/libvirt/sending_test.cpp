#include "hypervisor/libvirt/sending.h"

#include <gtest/gtest.h>
#include <libvirt/libvirt.h>

namespace mare::libvirt {
namespace {

const Route kRoute{"qemu+tcp://10.0.0.2/system", "tcp://10.0.0.2", "br0", "/c/x.log", false};

MigrationTicket with(Strategy strategy) {
  MigrationTicket ticket;
  ticket.sending.strategy = strategy;
  return ticket;
}

const MigrateCall::Value* find(const MigrateCall& call, const std::string& name) {
  for (const auto& [known, value] : call.parameters) {
    if (name == known) return &value;
  }
  return nullptr;
}

template <typename T>
T value_of(const MigrateCall& call, const std::string& name) {
  const auto* value = find(call, name);
  EXPECT_NE(value, nullptr) << name;
  if (value == nullptr || !std::holds_alternative<T>(*value)) return T{};
  return std::get<T>(*value);
}

TEST(CallFor, EveryStrategyAsksForItselfAndNothingElse) {
  constexpr unsigned kSpecial = VIR_MIGRATE_LIVE | VIR_MIGRATE_AUTO_CONVERGE |
                                VIR_MIGRATE_PARALLEL | VIR_MIGRATE_POSTCOPY |
                                VIR_MIGRATE_POSTCOPY_RESUME | VIR_MIGRATE_COMPRESSED;
  const std::pair<Strategy, unsigned> expected[] = {
      {Strategy::PreCopy, VIR_MIGRATE_LIVE},
      {Strategy::RateControlled, VIR_MIGRATE_LIVE},
      {Strategy::Throttled, VIR_MIGRATE_LIVE | VIR_MIGRATE_AUTO_CONVERGE},
      {Strategy::Compressed, VIR_MIGRATE_LIVE | VIR_MIGRATE_PARALLEL},
      {Strategy::PostCopy, VIR_MIGRATE_LIVE | VIR_MIGRATE_POSTCOPY},
      {Strategy::Hybrid, VIR_MIGRATE_LIVE | VIR_MIGRATE_POSTCOPY},
      {Strategy::StopAndCopy, 0U},
  };
  for (const auto& [strategy, flags] : expected) {
    const auto call = call_for(with(strategy), kRoute, "<domain/>");
    EXPECT_EQ(call.flags & kSpecial, flags) << to_string(strategy);
    EXPECT_TRUE(call.flags & VIR_MIGRATE_PEER2PEER);
    EXPECT_FALSE(call.flags & VIR_MIGRATE_PERSIST_DEST);
    EXPECT_EQ(value_of<std::string>(call, VIR_MIGRATE_PARAM_URI), kRoute.data_uri);
    EXPECT_EQ(value_of<std::string>(call, VIR_MIGRATE_PARAM_DEST_XML), "<domain/>");
  }
}

TEST(CallFor, PagesAreEncryptedInEveryStrategyAndWhenMending) {
  Route secret = kRoute;
  secret.tls = true;
  for (int i = 0; i < kStrategies; ++i) {
    const auto ticket = with(static_cast<Strategy>(i));
    EXPECT_TRUE(call_for(ticket, secret, "").flags & VIR_MIGRATE_TLS);
    EXPECT_FALSE(call_for(ticket, kRoute, "").flags & VIR_MIGRATE_TLS);
  }
  EXPECT_TRUE(call_to_mend(with(Strategy::PostCopy), secret).flags & VIR_MIGRATE_TLS);
}

TEST(RemedyFor, CertificatesThatDoNotFitAreToldWithTheAddressThatTheyNeed) {
  Route secret = kRoute;
  secret.tls = true;
  const std::string wrong = "Certificate does not match the hostname 10.0.0.2";
  EXPECT_NE(remedy_for(secret, wrong).find("the destination's for 10.0.0.2 "), std::string::npos);
  EXPECT_NE(remedy_for(secret, "Unable to access credentials /p/server-cert.pem"), "");
  EXPECT_NE(remedy_for(secret, "TLS handshake failed: a record was bad"), "");
  EXPECT_EQ(remedy_for(secret, "Cannot read from TLS channel: Input/output error"), "");
  EXPECT_EQ(remedy_for(secret, "unable to connect to server"), "");
  EXPECT_EQ(remedy_for(kRoute, wrong), "") << "not of this migration";
}

TEST(CallFor, KnobsGoWithTheTypesThatLibvirtWants) {
  auto throttled = with(Strategy::Throttled);
  throttled.sending.throttle_initial_percent = 30;
  throttled.sending.throttle_step_percent = 15;
  auto call = call_for(throttled, kRoute, "");
  EXPECT_EQ(value_of<int>(call, VIR_MIGRATE_PARAM_AUTO_CONVERGE_INITIAL), 30);
  EXPECT_EQ(value_of<int>(call, VIR_MIGRATE_PARAM_AUTO_CONVERGE_INCREMENT), 15);
  EXPECT_EQ(find(call, VIR_MIGRATE_PARAM_DEST_XML), nullptr);

  auto compressed = with(Strategy::Compressed);
  compressed.sending.channels = 4;
  call = call_for(compressed, kRoute, "");
  EXPECT_EQ(value_of<int>(call, VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS), 4);
  EXPECT_EQ(value_of<std::string>(call, VIR_MIGRATE_PARAM_COMPRESSION), "zstd");
  EXPECT_EQ(value_of<int>(call, VIR_MIGRATE_PARAM_COMPRESSION_ZSTD_LEVEL), 1);
}

TEST(CallFor, ABandwidthLimitHoldsInPostCopyToo) {
  auto ticket = with(Strategy::PreCopy);
  EXPECT_EQ(find(call_for(ticket, kRoute, ""), VIR_MIGRATE_PARAM_BANDWIDTH), nullptr);
  ticket.bandwidth_limit = BytesPerSecond{5.9 * 1024 * 1024};
  auto call = call_for(ticket, kRoute, "");
  EXPECT_EQ(value_of<unsigned long long>(call, VIR_MIGRATE_PARAM_BANDWIDTH), 5U);
  EXPECT_EQ(find(call, VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY), nullptr);
  ticket.sending.allow_post_copy = true;
  call = call_for(ticket, kRoute, "");
  EXPECT_EQ(value_of<unsigned long long>(call, VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY), 5U);
  EXPECT_TRUE(call.flags & VIR_MIGRATE_POSTCOPY);
}

TEST(CallFor, TellsHowFastTheLastRoundWillGoOnlyWhenToldItself) {
  EXPECT_EQ(find(call_for(with(Strategy::PreCopy), kRoute, ""), "bandwidth.avail.switchover"),
            nullptr);
  auto ticket = with(Strategy::PreCopy);
  ticket.sending.switchover_bandwidth = BytesPerSecond{11.2 * 1024 * 1024};
  ticket.bandwidth_limit = BytesPerSecond{5.0 * 1024 * 1024};
  const auto call = call_for(ticket, kRoute, "");
  EXPECT_EQ(value_of<unsigned long long>(call, "bandwidth.avail.switchover"), 11U);
  EXPECT_EQ(value_of<unsigned long long>(call, VIR_MIGRATE_PARAM_BANDWIDTH), 5U);
}

TEST(CallFor, AQemuThatCanNotBeToldIsKnownByItsError) {
  Sending sending;
  const std::string qemu = "Parameter 'avail-switchover-bandwidth' is unexpected";
  EXPECT_FALSE(refuses_switchover_bandwidth(sending, qemu)) << "it was not told";
  sending.switchover_bandwidth = BytesPerSecond{1e7};
  EXPECT_TRUE(refuses_switchover_bandwidth(sending, qemu));
  EXPECT_TRUE(refuses_switchover_bandwidth(
      sending, "Migration option 'bandwidth.avail.switchover' is not supported by QEMU binary"));
  EXPECT_FALSE(refuses_switchover_bandwidth(sending, "unable to connect"));
}

TEST(CallFor, RateControlBeginsAtItsLowestRate) {
  auto ticket = with(Strategy::RateControlled);
  ticket.sending.rate_min = BytesPerSecond{3.0 * 1024 * 1024};
  ticket.sending.rate_max = BytesPerSecond{90.0 * 1024 * 1024};
  ticket.bandwidth_limit = BytesPerSecond{50.0 * 1024 * 1024};
  const auto call = call_for(ticket, kRoute, "");
  EXPECT_EQ(value_of<unsigned long long>(call, VIR_MIGRATE_PARAM_BANDWIDTH), 3U);
}

TEST(CallToMend, TakesUpAPostCopy) {
  const auto call = call_to_mend(with(Strategy::Hybrid), kRoute);
  EXPECT_TRUE(call.flags & VIR_MIGRATE_POSTCOPY);
  EXPECT_TRUE(call.flags & VIR_MIGRATE_POSTCOPY_RESUME);
  EXPECT_EQ(value_of<std::string>(call, VIR_MIGRATE_PARAM_URI), kRoute.data_uri);
}

TEST(CheckSending, KnobsThatWouldBeMisreadAreRefused) {
  Sending sending;
  EXPECT_TRUE(check(sending).ok());
  sending.strategy = Strategy::Compressed;
  sending.channels = 0;
  EXPECT_EQ(check(sending).error().code, Code::InvalidArgument);
  sending.channels = 2;
  EXPECT_TRUE(check(sending).ok());
  sending.allow_post_copy = true;
  EXPECT_EQ(check(sending).error().code, Code::Unsupported);
  sending = {};
  sending.strategy = Strategy::Throttled;
  sending.throttle_initial_percent = 100;
  EXPECT_FALSE(check(sending).ok());
  sending = {};
  sending.strategy = Strategy::Hybrid;
  sending.pre_copy_rounds = 0;
  EXPECT_FALSE(check(sending).ok());
  sending.pre_copy_rounds = 1;
  sending.sweep_switch.waits = {Milliseconds{5}};
  EXPECT_EQ(check(sending).error().code, Code::InvalidArgument);
  sending.sweep_switch.sweep.period = Microseconds{1};
  EXPECT_TRUE(check(sending).ok());
}

TEST(HoldOf, IsTheWayLessWhatIsStillToBeSent) {
  using std::chrono::milliseconds;
  const auto until = [](bool descending, double place, milliseconds rest,
                        milliseconds longest = milliseconds{10'000}) {
    const SweepSwitch how{{descending, Microseconds{10'000'000}}, {Milliseconds{0}}, 0.5, longest};
    return std::chrono::duration<double>(hold_of(how, place, rest)).count();
  };
  EXPECT_NEAR(until(false, 0.2, milliseconds{0}), 3, 1e-6);
  EXPECT_NEAR(until(false, 0.2, milliseconds{1000}), 2, 1e-6);
  EXPECT_NEAR(until(false, 0.45, milliseconds{1000}), 9.5, 1e-6) << "too late for this time";
  EXPECT_NEAR(until(true, 0.2, milliseconds{0}), 7, 1e-6);
  EXPECT_NEAR(until(true, 0.8, milliseconds{0}), 3, 1e-6);
  EXPECT_NEAR(until(false, 0.2, milliseconds{1000}, milliseconds{2001}), 2, 1e-6);
  EXPECT_EQ(until(false, 0.2, milliseconds{1000}, milliseconds{1999}), 0) << "not worth it";
}

TEST(WaitOf, GoesByWhereItWasAtTheRoundsEnd) {
  SweepSwitch how{{false, Microseconds{10'000'000}}, {}, 0, Milliseconds{0}};
  for (int i = 0; i < 10; ++i) how.waits.emplace_back(i);
  using std::chrono::milliseconds;
  EXPECT_EQ(wait_of(how, 0.25, milliseconds{0}), milliseconds{2});
  // In 2 s it goes through a fifth.
  EXPECT_EQ(wait_of(how, 0.25, milliseconds{2000}), milliseconds{0});
  EXPECT_EQ(wait_of(how, 0.05, milliseconds{2000}), milliseconds{8}) << "it came round";
  how.sweep.descending = true;
  EXPECT_EQ(wait_of(how, 0.25, milliseconds{2000}), milliseconds{4});
  EXPECT_EQ(wait_of(how, 0.999999, milliseconds{0}), milliseconds{9});
  EXPECT_EQ(wait_of(how, 1.0, milliseconds{0}), milliseconds{0});
}

}  // namespace
}  // namespace mare::libvirt
