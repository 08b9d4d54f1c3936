#include "netarp/schedule.h"

#include <gtest/gtest.h>

#include "netarp/sender.h"

namespace mare::netarp {
namespace {

std::vector<std::int64_t> numbers(const Schedule& schedule) {
  std::vector<std::int64_t> out;
  for (const auto gap : schedule.gaps) out.push_back(gap.count());
  return out;
}

TEST(Schedule, DefaultStartsAtOnceAndGrows) {
  const Schedule schedule;
  ASSERT_FALSE(schedule.gaps.empty());
  EXPECT_EQ(schedule.gaps.front(), Milliseconds{0});
  for (std::size_t i = 1; i < schedule.gaps.size(); ++i) {
    EXPECT_GT(schedule.gaps[i], schedule.gaps[i - 1]);
  }
}

TEST(Schedule, Parses) {
  auto schedule = parse_schedule("0,5,600000");
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(numbers(*schedule), (std::vector<std::int64_t>{0, 5, 600000}));
  EXPECT_EQ(numbers(*parse_schedule("7")), (std::vector<std::int64_t>{7}));
}

TEST(Schedule, RefusesWhatIsNoSchedule) {
  for (const char* text :
       {"", ",", "1,", ",1", "1,,2", "-1", "1.5", "a", "1 ,2", "600001", "99999999999999999999"}) {
    auto schedule = parse_schedule(text);
    ASSERT_FALSE(schedule.ok()) << text;
    EXPECT_EQ(schedule.error().code, Code::InvalidArgument);
    EXPECT_EQ(schedule.error().field, "gaps");
    EXPECT_FALSE(schedule.error().remedy.empty());
  }
  std::string many = "0";
  for (std::size_t i = 0; i < kMaxRounds; ++i) many += ",0";
  EXPECT_FALSE(parse_schedule(many).ok());
}

TEST(Schedule, CountCutsOrGoesOn) {
  EXPECT_EQ(numbers(*with_count({{Milliseconds{0}, Milliseconds{5}}}, 1)),
            (std::vector<std::int64_t>{0}));
  EXPECT_EQ(numbers(*with_count({{Milliseconds{0}, Milliseconds{5}}}, 4)),
            (std::vector<std::int64_t>{0, 5, 5, 5}));
  EXPECT_FALSE(with_count({}, 0).ok());
  EXPECT_TRUE(with_count({}, kMaxRounds).ok());
  EXPECT_FALSE(with_count({}, kMaxRounds + 1).ok());
}

TEST(Sender, NamesTheInterfaceThatIsNotThere) {
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  for (const char* name : {"no-such-br", "", "a-name-longer-than-any-interface"}) {
    auto sender = Sender::open(name, {}, clock, log);
    ASSERT_FALSE(sender.ok());
    EXPECT_EQ(sender.error().code, Code::NotFound);
    EXPECT_NE(sender.error().message.find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace mare::netarp
