#include "orchestrator/policy/partners.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace mare::policy {
namespace {

Room room(const std::string& host, std::uint64_t free_mib) {
  return {HostId{host}, mebibytes(free_mib), mebibytes(100), 0};
}

PartnerSought on(const std::string& host, const std::string& partner = "") {
  return {HostId{host}, HostId{partner}, mebibytes(200)};
}

std::vector<std::string> names(const std::vector<HostId>& hosts) {
  std::vector<std::string> out;
  for (const auto& host : hosts) out.push_back(host.value);
  return out;
}
using Names = std::vector<std::string>;

TEST(Partners, AreOtherHostsAndAllOfThem) {
  const std::vector<Room> rooms{room("h1", 2000), room("h2", 2000), room("h3", 2000)};
  EXPECT_EQ(names(choose_partners(rooms, {on("h1"), on("h2"), on("h3")})),
            (Names{"h2", "h3", "h1"}));
  // Whatever hosts fail, VMs that are put back there are spread as they were.
  EXPECT_EQ(names(choose_partners(rooms, {on("h3"), on("h3"), on("h1")})),
            (Names{"h1", "h2", "h3"}));
  Room busy = room("h2", 2000);
  busy.vms = 1;
  EXPECT_EQ(names(choose_partners({room("h1", 2000), busy, room("h3", 2000)}, {on("h1")})),
            Names{"h3"});
}

TEST(Partners, StayAsLongAsTheyMay) {
  const std::vector<Room> rooms{room("h1", 2000), room("h2", 2000), room("h3", 2000)};
  EXPECT_EQ(names(choose_partners(rooms, {on("h1", "h3")})), Names{"h3"});
  // The VM has moved there; the host is no longer one that may.
  EXPECT_EQ(names(choose_partners(rooms, {on("h2", "h2")})), Names{"h3"});
  EXPECT_EQ(names(choose_partners(rooms, {on("h1", "gone")})), Names{"h2"});
}

TEST(Partners, HaveRoomForTheVmOrAreNone) {
  EXPECT_EQ(names(choose_partners({room("h1", 2000), room("h2", 299)}, {on("h1")})), Names{""});
  EXPECT_EQ(names(choose_partners({room("h1", 2000), room("h2", 300)}, {on("h1"), on("h1")})),
            (Names{"h2", ""}));
  EXPECT_EQ(names(choose_partners({}, {on("h1", "h2")})), Names{""});
}

TEST(Partners, OfAVmThatIsNowhereStay) {
  EXPECT_EQ(names(choose_partners({room("h1", 2000), room("h2", 2000)},
                                  {{std::nullopt, HostId{"h2"}, mebibytes(200)}})),
            Names{"h2"});
}

RC_GTEST_PROP(Partners, NeverTheVmsOwnHostAndNeverTooMany, ()) {
  std::vector<Room> rooms;
  const auto hosts = *rc::gen::inRange(0, 6);
  for (int i = 0; i < hosts; ++i) {
    rooms.push_back(room("h" + std::to_string(i), *rc::gen::inRange(0, 1500)));
  }
  std::vector<PartnerSought> parts;
  const auto count = *rc::gen::inRange(0, 10);
  for (int i = 0; i < count; ++i) {
    parts.push_back(on("h" + std::to_string(*rc::gen::inRange(0, 6)),
                       "h" + std::to_string(*rc::gen::inRange(0, 8))));
  }
  const auto chosen = choose_partners(rooms, parts);
  RC_ASSERT(chosen.size() == parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RC_ASSERT(chosen[i].value.empty() || chosen[i] != parts[i].host);
  }
  for (const auto& one : rooms) {
    Bytes kept;
    for (const auto& host : chosen) {
      if (host == one.host) kept = kept + mebibytes(200);
    }
    RC_ASSERT(kept <= one.free);
  }
  // What was chosen is not changed when it is asked for again.
  auto again = parts;
  for (std::size_t i = 0; i < parts.size(); ++i) again[i].partner = chosen[i];
  RC_ASSERT(choose_partners(rooms, again) == chosen);
}

TEST(PlacePreferred, TakesTheHostsThatHaveIt) {
  const std::vector<Room> rooms{room("h1", 2000), room("h2", 2000), room("h3", 2000)};
  const std::vector<Bytes> three(3, mebibytes(200));
  const auto placed = place_preferred(rooms, three, {HostId{"h3"}, HostId{}, HostId{"h3"}});
  ASSERT_TRUE(placed);
  EXPECT_EQ(names(*placed), (Names{"h3", "h1", "h3"}));
  EXPECT_EQ(*place_preferred(rooms, three, {}), *place_all(rooms, three));
  const auto gone = place_preferred(rooms, three, {HostId{"h9"}, HostId{"h9"}, HostId{"h9"}});
  EXPECT_EQ(*gone, *place_all(rooms, three));
}

TEST(PlacePreferred, FitsWhereverItFitsWithoutWishes) {
  // The wish would leave the large one no host.
  const std::vector<Room> rooms{room("h1", 1000), room("h2", 400)};
  const std::vector<Bytes> sizes{mebibytes(300), mebibytes(900)};
  const auto placed = place_preferred(rooms, sizes, {HostId{"h1"}, HostId{}});
  EXPECT_EQ(placed.ok(), place_all(rooms, sizes).ok());
  const auto refused = place_preferred({room("h1", 300)}, {mebibytes(200), mebibytes(200)},
                                       {HostId{"h1"}, HostId{}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::ResourceExhausted);
}

}  // namespace
}  // namespace mare::policy
