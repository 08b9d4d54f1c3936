// The lease of a host with its real watchdog, on processes that stand for VMs. Terms are short, and
// what is waited for is the end of a process: nothing here depends on how fast the machine is.
#include "hypervisor/leases/watchdog.h"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <array>
#include <fstream>
#include <limits>

#include "hypervisor/leases/fence_notes.h"
#include "hypervisor/leases/host_lease.h"
#include "orchestrator/core/boot_clock.h"
#include "tests/unit/leases/scratch.h"
#include "tests/unit/leases/stand_in.h"

namespace mare::leases {
namespace {

constexpr Milliseconds kShortTerm{1500};

class HostWithLease : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(places.directory);
    std::filesystem::create_directories(places.vm_status_directory);
    std::filesystem::create_directories(scratch.path("ck"));
    std::ofstream(places.vm_status_directory + "/p-0.xml") << status_text(vm.pid(), kUuid);
  }
  void TearDown() override {
    // So that the watchdog goes by itself.
    EXPECT_TRUE(RecordFile(places.record(), boot_id()).write(LeaseRecord{}));
    EXPECT_TRUE(remove_note(note));
  }
  std::unique_ptr<HostLease> agent() {
    auto made =
        std::make_unique<HostLease>(HostLeaseOptions{places, MARE_WATCHDOG, Milliseconds{0}}, log);
    EXPECT_TRUE(made->open());
    return made;
  }
  /// mared's word, with a stamp that was just asked for.
  bool renew(HostLease& lease) {
    auto asked = lease.renew({"", kShortTerm, true, note});
    EXPECT_TRUE(asked.ok());
    auto answer = lease.renew({asked->stamp, kShortTerm, true, note});
    EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().text());
    return answer && answer->granted;
  }

  SystemClock clock;
  Log log{clock, LogLevel::Error};
  const Scratch scratch;
  const LeasePlaces places{scratch.path("lease"), scratch.path("status"), scratch.path("deadman")};
  /// The words of the file: agent's, watchdog's.
  std::array<std::uint64_t, 2> said() const {
    std::array<std::uint64_t, 3> words{};
    std::ifstream in(places.deadman, std::ios::binary);
    in.read(reinterpret_cast<char*>(words.data()), sizeof words);
    return {words[1], words[2]};
  }
  const std::string note = scratch.path("ck/fenced/h1-1-1");
  StandIn vm{kUuid};
};

TEST_F(HostWithLease, TheWatchdogEndsVmsWhoseAgentIsGone) {
  {
    auto lease = agent();
    ASSERT_TRUE(renew(*lease));
    EXPECT_TRUE(watchdog_lives(places));
    ASSERT_TRUE(lease->check());
  }
  EXPECT_TRUE(watchdog_lives(places)) << "it outlives its agent";
  EXPECT_TRUE(vm.lives());
  ASSERT_TRUE(put_note(note));
  EXPECT_EQ(vm.await_signal(), SIGKILL);
}

TEST_F(HostWithLease, TheSwitchesAreToldBeforeALeaseIsGranted) {
  auto lease = agent();
  constexpr auto kForEver = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(said()[0], kForEver);
  const auto now = BootClock().now();
  ASSERT_TRUE(renew(*lease));
  const auto until = MonotonicTime{static_cast<MonotonicTime::rep>(said()[0])};
  EXPECT_GE(until, now + kShortTerm + kDeadmanAfter);
  EXPECT_LE(until, BootClock().now() + kShortTerm + kDeadmanAfter);
  lease.reset();
  // The storage keeps the watchdog speaking, and so the switches off.
  const auto one_more = static_cast<std::uint64_t>((until + kShortTerm).count());
  while (said()[1] < one_more) clock.sleep_for(std::chrono::milliseconds{20});
  EXPECT_TRUE(vm.lives());
  // Without a lease there is nothing to say.
  ASSERT_TRUE(RecordFile(places.record(), boot_id()).write(LeaseRecord{}));
  while (said()[1] != 0) clock.sleep_for(std::chrono::milliseconds{20});
  lease = agent();
  EXPECT_EQ(said()[0], kForEver);
}

TEST_F(HostWithLease, TheAgentEndsThemWhenTheWatchdogCanNot) {
  auto lease = agent();
  // Who holds the lock counts as the watchdog: this one never does anything.
  const int idle = ::open(places.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(idle, LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(renew(*lease));
  ASSERT_TRUE(put_note(note));
  EXPECT_EQ(vm.await_signal(), SIGKILL);
  EXPECT_EQ(lease->check().error().code, Code::FailedPrecondition);
  ::close(idle);
}

TEST_F(HostWithLease, AnAgentThatIsStartedAgainGoesOnWithIt) {
  { ASSERT_TRUE(renew(*agent())); }
  auto lease = agent();
  auto asked = lease->renew({"", kShortTerm, true, note});
  ASSERT_TRUE(asked.ok());
  EXPECT_TRUE(asked->enforced);
  ASSERT_TRUE(put_note(note));
  EXPECT_EQ(vm.await_signal(), SIGKILL);
}

TEST_F(HostWithLease, NothingIsGrantedThatNobodyWouldEnforce) {
  HostLease lease({places, scratch.path("no-such-program"), Milliseconds{0}}, log);
  ASSERT_TRUE(lease.open());
  auto asked = lease.renew({"", kShortTerm, true, note});
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(lease.renew({asked->stamp, kShortTerm, true, note}).error().code, Code::Unavailable);
  EXPECT_FALSE(RecordFile(places.record(), boot_id()).read()->enforced);
}

TEST_F(HostWithLease, NorWhereVmsCanNotBeSeen) {
  HostLease lease({{places.directory, scratch.path("nowhere")}, MARE_WATCHDOG, Milliseconds{0}},
                  log);
  ASSERT_TRUE(lease.open());
  auto asked = lease.renew({"", kShortTerm, true, note});
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(lease.renew({asked->stamp, kShortTerm, true, note}).error().code, Code::Unavailable);
}

}  // namespace
}  // namespace mare::leases
