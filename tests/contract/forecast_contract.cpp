// What a forecast is made of: how a VM writes its memory, and what a link carries.
#include "tests/contract/driver_contract.h"

namespace mare::contract {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

/// Why a backend has no log; "" if it has one.
std::string why_no_log(Driver& driver) {
  auto facts = driver.facts();
  EXPECT_TRUE(is_ok(facts));
  if (!facts || !facts->dirty_log.empty()) return "";
  EXPECT_FALSE(facts->dirty_log_why.empty());
  return "no dirty-page log: " + facts->dirty_log_why;
}

void expect_sane(const MemoryProfile& profile, const VmSpec& of) {
  EXPECT_FALSE(profile.source.empty());
  EXPECT_GT(profile.taken.count(), 0);
  EXPECT_GE(profile.total, of.memory);
  EXPECT_LE(profile.total, of.memory + mebibytes(64));
  EXPECT_LE(profile.zero, profile.total);
  EXPECT_GT(profile.compressed_fraction, 0);
  EXPECT_LE(profile.compressed_fraction, 1);
  EXPECT_GE(profile.cost_fraction, 0);
  WallTime before{0};
  for (const auto& cycle : profile.cycles) {
    EXPECT_GT(cycle.began, before);
    before = cycle.began;
    DirtyPoint last;
    for (const auto& point : cycle.points) {
      EXPECT_GT(point.wall, last.wall);
      EXPECT_GE(point.progress, last.progress);
      EXPECT_GE(point.unique, last.unique);
      EXPECT_LE(point.unique, profile.total);
      last = point;
    }
  }
  for (const double share : profile.heat) {
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
  }
}

TEST_P(DriverContract, AProfileTellsHowAVmWritesItsMemory) {
  if (const auto why = why_no_log(at(0)); !why.empty()) GTEST_SKIP() << why;
  const Bytes wws = mebibytes(16);
  const VmSpec made = started(0, {.dirty_bytes_per_s = 32 * kMib, .wws = wws});
  Bytes seen;
  // A cycle that began after its boot: all of the WWS is written within a second.
  EXPECT_TRUE(wait_until(
      [&] {
        auto profile = at(0).memory_profile(made.key());
        EXPECT_TRUE(is_ok(profile));
        if (!profile) return true;
        expect_sane(*profile, made);
        if (profile->cycles.empty() || profile->cycles.back().points.empty()) return false;
        const DirtyPoint& last = profile->cycles.back().points.back();
        seen = last.unique;
        return last.wall >= Milliseconds{4900} && last.unique >= wws &&
               last.unique <= wws + mebibytes(8) && profile->heat.size() == 64;
      },
      kBoot))
      << "last seen: " << seen.mib() << " MiB";
}

TEST_P(DriverContract, AProfileFollowsTheVm) {
  if (const auto why = why_no_log(at(0)); !why.empty()) GTEST_SKIP() << why;
  const VmSpec made = started(0, {.wws = mebibytes(8)});
  ASSERT_EQ(move(ticket(made), 0, 1).phase, OutgoingPhase::Completed);
  EXPECT_TRUE(wait_until([&] { return copy(0, made) == Copy::Absent; }, kSoon));
  EXPECT_TRUE(fails_with(at(0).memory_profile(made.key()), Code::NotFound));
  EXPECT_TRUE(wait_until(
      [&] {
        auto profile = at(1).memory_profile(made.key());
        EXPECT_TRUE(is_ok(profile));
        if (!profile) return true;
        expect_sane(*profile, made);
        return !profile->cycles.empty() && !profile->cycles.back().points.empty() &&
               profile->cycles.back().points.back().unique > Bytes{0};
      },
      kSoon))
      << "nobody watches it where it came to";
  expect_only_copy(1, made);
}

TEST_P(DriverContract, AVmThatIsNotHereHasNoProfile) {
  if (const auto why = why_no_log(at(0)); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(fails_with(at(0).memory_profile(vm().key()), Code::NotFound));
  const VmSpec made = started(0);
  EXPECT_TRUE(fails_with(at(1).memory_profile(made.key()), Code::NotFound));
  EXPECT_TRUE(fails_with(at(0).memory_profile(other_incarnation(made).key()), Code::NotFound));
  ASSERT_TRUE(is_ok(at(0).destroy(made.key())));
  EXPECT_TRUE(fails_with(at(0).memory_profile(made.key()), Code::NotFound));
}

TEST_P(DriverContract, ALinkIsMeasuredBothWays) {
  if (GetParam().name == "libvirt") {
    GTEST_SKIP() << "these drivers run beside the hosts' networks, and can't listen in them";
  }
  for (const int from : {0, 1}) {
    auto sink = at(1 - from).open_link_sink();
    ASSERT_TRUE(is_ok(sink));
    auto link = at(from).measure_link(*sink);
    ASSERT_TRUE(is_ok(link));
    EXPECT_GT(link->goodput.value, 0);
    EXPECT_LT(link->goodput.value, 1e12);
    EXPECT_GT(link->round_trip, Microseconds{0});
    EXPECT_GT(link->sent, Bytes{0});
    EXPECT_LE(link->sent, mebibytes(4));
    EXPECT_TRUE(fails_with(at(from).measure_link(*sink), Code::Unavailable))
        << "a sink is for one measurement";
  }
  EXPECT_TRUE(fails_with(at(0).measure_link({"nonsense"}), Code::InvalidArgument));
}

}  // namespace
}  // namespace mare::contract
