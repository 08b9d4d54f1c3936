#include "ui/cli/table.h"

#include <gtest/gtest.h>

#include "ui/cli/terminal.h"
#include "ui/cli/views.h"

namespace mare::cli {
namespace {

const Columns kColumns{{"ID", [](const Json& o) { return text(o, "id"); }},
                       {"N", [](const Json& o) { return text(o, "n"); }, Shown::Always, true},
                       {"MORE", [](const Json& o) { return text(o, "more"); }, Shown::Wide}};

TEST(Table, AlignsAndMarksWhatIsMissing) {
  const Json items = Json::parse(R"([{"id":"a","n":5},{"id":"longer","n":null},{"n":123}])");
  EXPECT_EQ(list_text(kColumns, items, false, false),
            "ID        N\n"
            "a         5\n"
            "longer    -\n"
            "-       123\n");
}

TEST(Table, WideShowsMore) {
  const Json items = Json::parse(R"([{"id":"a","n":5,"more":"x"}])");
  EXPECT_EQ(list_text(kColumns, items, true, false), "ID  N  MORE\na   5  x\n");
}

TEST(Table, CountsLettersNotBytes) {
  const Json items = Json::parse(R"([{"id":"Maré","n":1},{"id":"abcd","n":2}])");
  EXPECT_EQ(list_text(kColumns, items, false, false), "ID    N\nMaré  1\nabcd  2\n");
}

TEST(Table, ServersTextCannotSteerTheTerminal) {
  const Json items = Json::parse(R"([{"id":"\u001b[2Ja\nb","n":1}])");
  const std::string out = list_text(kColumns, items, false, false);
  EXPECT_EQ(out.find('\033'), std::string::npos);
  EXPECT_NE(out.find("?[2Ja b"), std::string::npos);
}

TEST(Table, AnObjectLeavesOutWhatItHasNot) {
  const Json object = Json::parse(R"({"id":"a","more":"x"})");
  EXPECT_EQ(object_text(kColumns, object, false), "id    a\nmore  x\n");
}

TEST(Fields, OddKindsReadAsEmptyOrText) {
  const Json object = Json::parse(R"({"a":1,"b":null,"c":["x",2],"d":{"e":1}})");
  EXPECT_EQ(text(object, "a"), "1");
  EXPECT_EQ(text(object, "b"), "");
  EXPECT_EQ(text(object, "none"), "");
  EXPECT_EQ(joined(object, "c"), "x,2");
  EXPECT_FALSE(number(object, "c"));
  EXPECT_EQ(text(Json::array(), "a"), "");
}

TEST(Terminal, BarKeepsItsWidth) {
  EXPECT_EQ(bar(0.5, 4), "[##--]");
  EXPECT_EQ(bar(-1, 4), "[----]");
  EXPECT_EQ(bar(7, 4), "[####]");
  EXPECT_EQ(bar(0.0 / 1.0, 4), "[----]");
}

TEST(Views, MigrationSummaryTellsWhatIsKnown) {
  Json migration = Json::parse(R"({"vm":"demo-1","source":"h1","destination":"h3","rounds":[{},{}],
      "transferred_bytes":220200960,"total_time_ms":2100.5,
      "downtime_ms":{"hypervisor":85,"guest":null,"peers":95.5},"announce_delay_ms":3})");
  EXPECT_EQ(migration_summary(migration),
            "demo-1 moved from h1 to h3 in 2.10 s: 2 rounds, 210 MiB sent, downtime 85 ms "
            "(guest unknown, peers 95.5 ms), announced 3 ms after its resume");
  migration["held_ms"] = 1250;
  migration["switched_with"] = 5;
  EXPECT_NE(migration_summary(migration).find(", held 1.25 s to switch with 5 more of its job, "),
            std::string::npos)
      << migration_summary(migration);
  migration["switched_with"] = 0;  // the last of them waited for nobody
  EXPECT_EQ(migration_summary(migration).find("held"), std::string::npos);
  migration["earlier"] = Json::parse(R"([{"strategy":"compressed","said_s":{"value":4.2},
      "lasted_ms":10800,"sent_bytes":1180000000,"rounds":4}])");
  EXPECT_NE(migration_summary(migration).find(
                ", begun anew after compressed, which was to take 4.20 s and was given up "
                "after 10.8 s, 1.10 GiB, "),
            std::string::npos)
      << migration_summary(migration);
  migration["check_ms"] = 2100;
  migration["trans_ms"] = 400;
  EXPECT_EQ(migration_summary(migration).find("check"), std::string::npos) << "one is missing";
  migration["restart_ms"] = 95.5;
  EXPECT_NE(migration_summary(migration).find(", check 2.10 s, trans 400 ms, restart 95.5 ms, "),
            std::string::npos)
      << migration_summary(migration);
}

}  // namespace
}  // namespace mare::cli
