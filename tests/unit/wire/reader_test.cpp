#include "rest/wire/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::wire {
namespace {

using testing::HasSubstr;

Faults parse_faults(const std::string& body) {
  Faults faults;
  EXPECT_FALSE(parse_json(body, faults)) << body;
  return faults;
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* body : {"", "{", "{\"a\":}", "{'a':1}", "{\"a\":1}{", "nul", "{\"a\":01}",
                           "{\"a\":\"\xff\"}", "[1,]", "\xef\xbb\xbfx", "NaN"}) {
    const auto faults = parse_faults(body);
    ASSERT_EQ(faults.size(), 1U) << body;
    EXPECT_THAT(faults[0].detail, HasSubstr("is not JSON"));
  }
}

TEST(ParseJson, RefusesDuplicatesAtAnyDepth) {
  EXPECT_THAT(parse_faults(R"({"a":1,"a":2})")[0].detail, HasSubstr("'a' is given twice"));
  EXPECT_THAT(parse_faults(R"({"x":[{"b":1,"b":1}]})")[0].detail, HasSubstr("'b' is given twice"));
  Faults faults;
  EXPECT_TRUE(parse_json(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})", faults));
  EXPECT_TRUE(faults.empty());
}

TEST(ParseJson, RefusesDeepNestingAtAnyLength) {
  EXPECT_THAT(parse_faults(std::string(200'000, '['))[0].detail, HasSubstr("nested"));
  const std::string closed = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(parse_faults(closed)[0].detail, HasSubstr("nested"));
  Faults faults;
  EXPECT_TRUE(parse_json(std::string(30, '[') + std::string(30, ']'), faults));
}

TEST(ObjectReader, NotesEveryFaultAtOnce) {
  const Json body = Json::parse(
      R"({"name":7,"count":2.5,"flag":"yes","far":11,"list":["a",3],"at":"noon","zzz":1})");
  Faults faults;
  ObjectReader from(body, "", Strictness::Strict, faults);
  EXPECT_FALSE(from.text("name", true));
  EXPECT_FALSE(from.whole("count", true));
  EXPECT_FALSE(from.flag("flag", true));
  EXPECT_FALSE(from.number("far", true, {0, 10}));
  EXPECT_FALSE(from.texts("list", true, 5));
  EXPECT_FALSE(from.time("at"));
  EXPECT_FALSE(from.text("gone", true));
  EXPECT_FALSE(from.text("optional", false));
  from.finish();
  std::vector<std::string> where;
  for (const auto& fault : faults) where.push_back(fault.pointer);
  EXPECT_THAT(where, testing::ElementsAre("/name", "/count", "/flag", "/far", "/list/1", "/at",
                                          "/gone", "/zzz"));
  EXPECT_THAT(faults.back().detail, HasSubstr("known are:"));
}

TEST(ObjectReader, LenientOnlyAboutUnknownMembers) {
  Faults faults;
  const Json body = Json::parse(R"({"a":1,"later":true})");
  ObjectReader from(body, "", Strictness::Lenient, faults);
  EXPECT_FALSE(from.text("a", true));
  from.finish();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].pointer, "/a");
}

TEST(ObjectReader, NumbersAtTheirLimits) {
  const Json body = Json::parse(
      R"({"low":-1,"big":1e300,"huge":18446744073709551615,"ok":9000000000000000,"zero":0})");
  Faults faults;
  ObjectReader from(body, "", Strictness::Strict, faults);
  EXPECT_FALSE(from.whole("low", true));
  EXPECT_FALSE(from.whole("big", true));
  EXPECT_FALSE(from.whole("huge", true));
  EXPECT_EQ(from.whole("ok", true), 9'000'000'000'000'000);
  EXPECT_EQ(from.whole("zero", true), 0);
  EXPECT_EQ(faults.size(), 3U);
}

TEST(ObjectReader, TextWithNulOrTooLong) {
  const Json body{{"nul", std::string("a\0b", 3)}, {"long", std::string(5000, 'x')}, {"none", ""}};
  Faults faults;
  ObjectReader from(body, "", Strictness::Strict, faults);
  EXPECT_FALSE(from.text("nul", true));
  EXPECT_FALSE(from.text("long", true));
  EXPECT_FALSE(from.text("none", true));
  EXPECT_EQ(faults.size(), 3U);
}

TEST(ObjectReader, EscapesPointers) {
  Faults faults;
  const Json body{{"a/b~c", 1}};
  ObjectReader(body, "/outer", Strictness::Strict, faults).finish();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].pointer, "/outer/a~1b~0c");
}

TEST(ObjectReader, WhatIsNoObjectIsOneFault) {
  Faults faults;
  const Json body = Json::array();
  ObjectReader from(body, "", Strictness::Strict, faults);
  EXPECT_FALSE(from.text("a", true));
  EXPECT_FALSE(from.whole("b", true));
  from.finish();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_THAT(faults[0].detail, HasSubstr("write an object"));
}

}  // namespace
}  // namespace mare::wire
