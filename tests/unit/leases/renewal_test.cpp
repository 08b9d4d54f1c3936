// What a word of mared's is worth, by when and by whom it was asked for.
#include <gtest/gtest.h>

#include "hypervisor/leases/host_lease.h"

namespace mare::leases {
namespace {

using std::chrono::seconds;

constexpr Milliseconds kTerm{2000};
constexpr MonotonicTime kNow = seconds{100};
const std::string kBoot = "b1";

Renewal at(MonotonicTime now, const LeaseTicket& ticket, const LeaseRecord& before = {},
           Milliseconds longest = Milliseconds{0}) {
  return renew(ticket, before, kBoot, now, longest);
}
std::string stamped(MonotonicTime when) {
  return at(when, {"", kTerm, true, "/n"}).answer.stamp;
}

TEST(LeaseRenewal, AnEmptyStampOnlyAsks) {
  const auto asked = at(kNow, {"", kTerm, true, "/n"});
  EXPECT_FALSE(asked.answer.granted);
  EXPECT_FALSE(asked.record);
  EXPECT_FALSE(asked.answer.stamp.empty());
}

TEST(LeaseRenewal, ItCountsFromTheStampAndNotFromItsArrival) {
  const auto renewal = at(kNow + seconds{1}, {stamped(kNow), kTerm, true, "/n"});
  ASSERT_TRUE(renewal.answer.granted);
  EXPECT_TRUE(renewal.answer.enforced);
  EXPECT_EQ(*renewal.record, (LeaseRecord{true, kTerm, kNow + kTerm, "/n"}));
}

TEST(LeaseRenewal, OneThatComesLateGrantsNothingAndTakesNothingBack) {
  const LeaseRecord before{true, kTerm, kNow + seconds{9}, "/n"};
  const auto late = at(kNow + kTerm, {stamped(kNow), kTerm, true, "/n"}, before);
  EXPECT_FALSE(late.answer.granted);
  EXPECT_TRUE(late.answer.enforced) << "the lease is still there";
  EXPECT_FALSE(late.record);
  EXPECT_FALSE(at(kNow + kTerm, {stamped(kNow), kTerm, false, ""}, before).record);
}

TEST(LeaseRenewal, OneThatWasOvertakenShortensNothing) {
  const LeaseRecord before{true, kTerm, kNow + seconds{5}, "/n"};
  const auto renewal = at(kNow + seconds{1}, {stamped(kNow), kTerm, true, "/n"}, before);
  EXPECT_EQ(renewal.record->said_until, before.said_until);
}

TEST(LeaseRenewal, StampsOfAnotherBootOrOfTheFutureAreNone) {
  EXPECT_FALSE(at(kNow, {"b0/" + std::to_string(kNow.count()), kTerm, true, "/n"}).answer.granted);
  EXPECT_FALSE(at(kNow, {stamped(kNow + seconds{1}), kTerm, true, "/n"}).answer.granted);
  EXPECT_FALSE(at(kNow, {kBoot + "/12x", kTerm, true, "/n"}).answer.granted);
}

TEST(LeaseRenewal, TheHostMayTakeAShorterOne) {
  const auto renewal = at(kNow, {stamped(kNow), kTerm, true, "/n"}, {}, Milliseconds{500});
  EXPECT_EQ(renewal.record->term, Milliseconds{500});
  EXPECT_EQ(renewal.record->said_until, kNow + Milliseconds{500});
  EXPECT_EQ(at(kNow, {stamped(kNow), kTerm, true, "/n"}, {}, Milliseconds{9000}).record->term,
            kTerm);
}

TEST(LeaseRenewal, IsWithdrawn) {
  const LeaseRecord before{true, kTerm, kNow + seconds{5}, "/n"};
  const auto renewal = at(kNow, {stamped(kNow), kTerm, false, ""}, before);
  EXPECT_TRUE(renewal.answer.granted);
  EXPECT_FALSE(renewal.answer.enforced);
  EXPECT_EQ(*renewal.record, LeaseRecord{});
}

}  // namespace
}  // namespace mare::leases
