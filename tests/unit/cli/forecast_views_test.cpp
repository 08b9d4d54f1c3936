#include "ui/cli/forecast_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Json estimate(double value) {
  return Json{{"value", value}, {"low", value * 0.9}, {"high", value * 1.2}};
}

Json strategy(const std::string& name, double time, bool offered, const std::string& why_not = "") {
  return Json{{"strategy", name},
              {"offered", offered},
              {"why_not", why_not.empty() ? Json(nullptr) : Json(why_not)},
              {"converges", name != "pre-copy"},
              {"total_time_s", estimate(time)},
              {"sent_bytes", estimate(time * 1048576)},
              {"downtime_s", estimate(0.1)},
              {"added_job_time_s", estimate(0.2)}};
}

Json forecast() {
  return Json{
      {"id", "op-3"},
      {"vm", "demo-1"},
      {"source", "h1"},
      {"destination", "h2"},
      {"made", "2026-11-21T04:00:00Z"},
      {"choice", "compressed"},
      {"reason", "Compressed for least-stall: because"},
      {"link", Json{{"goodput_bytes_per_s", 11.7e6}}},
      {"outcome", nullptr},
      {"strategies", Json::array({strategy("pre-copy", 20, true), strategy("compressed", 4, true),
                                  strategy("hybrid", 1, false, "host 'h2' does not offer it")})}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto end = text.find('\n', begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

TEST(ForecastViews, EveryStrategyHasItsIntervalsAndTheChoiceIsMarked) {
  const auto lines = lines_of(forecast_text(forecast(), false));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0], "demo-1 from h1 to h2, a link of 11.7 MB/s");
  EXPECT_THAT(lines[1], HasSubstr("ADDED JOB TIME"));
  EXPECT_THAT(lines[2], HasSubstr("20 s (18 s to 24 s)"));
  EXPECT_THAT(lines[2], HasSubstr("would not end by itself"));
  Json unsure = forecast();
  for (auto& one : unsure["strategies"]) one["end_unsure"] = true;
  const auto open = lines_of(forecast_text(unsure, false));
  EXPECT_THAT(open[2], HasSubstr("may end by itself, or not"));
  EXPECT_THAT(open[3], HasSubstr("may not end by itself"));
  EXPECT_EQ(lines[2].front(), ' ');
  EXPECT_EQ(lines[3].rfind("*  compressed", 0), 0U) << lines[3];
  EXPECT_THAT(lines[3], HasSubstr("4 MiB (3.60 MiB to 4.80 MiB)"));
  EXPECT_THAT(lines[3], HasSubstr("100 ms (90.0 ms to 120 ms)"));
  EXPECT_THAT(lines[4], HasSubstr("host 'h2' does not offer it"));
  EXPECT_THAT(lines[4], Not(HasSubstr("1 s"))) << "figures of what can't be had";
  EXPECT_EQ(lines[5], "Compressed for least-stall: because");
}

TEST(ForecastViews, DoNotMoveMarksNothing) {
  Json none = forecast();
  none["choice"] = nullptr;
  none["reason"] = "Do not move: so";
  const std::string text = forecast_text(none, false);
  EXPECT_THAT(text, Not(HasSubstr("*")));
  EXPECT_THAT(text, HasSubstr("Do not move: so"));
  const std::string list =
      list_text(forecast_columns(WallTime{0}), Json::array({none, forecast()}), false, false);
  EXPECT_THAT(list, HasSubstr("do not move"));
  EXPECT_THAT(list, HasSubstr("4 s (3.60 s to 4.80 s)"));
}

TEST(ForecastViews, TextOfAServerCantCommandTheTerminal) {
  Json evil = forecast();
  evil["reason"] = "\033[2Jgone";
  EXPECT_THAT(forecast_text(evil, false), Not(HasSubstr("\033")));
}

TEST(ForecastViews, AnExplanationHoldsThemSideBySide) {
  const Json told{
      {"migration", "op-7"},
      {"vm", "demo-1"},
      {"source", "h1"},
      {"destination", "h2"},
      {"strategy", "pre-copy"},
      {"sentence", "pre-copy took 2 s."},
      {"reason", "Pre-copy: because"},
      {"figures", Json::array({Json{{"name", "total_time_s"},
                                    {"forecast", 2.2},
                                    {"low", 2.0},
                                    {"high", 2.5},
                                    {"actual", 2.0},
                                    {"error", 0.1},
                                    {"held", true}},
                               Json{{"name", "added_job_time_s"},
                                    {"forecast", 0.1},
                                    {"low", 0.05},
                                    {"high", 0.2},
                                    {"actual", nullptr},
                                    {"error", nullptr},
                                    {"held", nullptr}}})},
      {"rounds",
       Json::array({Json{{"index", 0},
                         {"forecast", Json{{"duration_ms", 1500.0}, {"sent_bytes", 1e8}}},
                         {"actual", Json{{"duration_ms", 1400.0}, {"sent_bytes", 1.1e8}}}},
                    Json{{"index", 1},
                         {"forecast", nullptr},
                         {"actual", Json{{"duration_ms", 12.0}, {"sent_bytes", 5e5}}}}})}};
  const auto lines = lines_of(explanation_text(told, false));
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_EQ(lines[0], "op-7: demo-1 from h1 to h2 by pre-copy");
  EXPECT_THAT(lines[2], HasSubstr("total time"));
  EXPECT_THAT(lines[2], HasSubstr("10.0%"));
  EXPECT_THAT(lines[2], HasSubstr("yes"));
  EXPECT_THAT(lines[3], HasSubstr("-"));
  EXPECT_THAT(lines[6], HasSubstr("1.50 s"));
  EXPECT_THAT(lines[6], HasSubstr("1.40 s"));
  EXPECT_EQ(lines[9], "before: Pre-copy: because");
  EXPECT_EQ(lines[10], "after: pre-copy took 2 s.");
}

Json planned_move(const std::string& vm, int wave) {
  return Json{{"vm", vm},
              {"to", "h2"},
              {"strategy", "compressed"},
              {"wave", wave},
              {"total_time_s", estimate(2)},
              {"sent_bytes", estimate(1048576)},
              {"downtime_s", estimate(0.1)},
              {"added_job_time_s", estimate(0.2)}};
}

TEST(ForecastViews, ADrainHasALineForEachVmAndOneForAll) {
  Json total = planned_move("", 0);
  total.erase("strategy");
  total.erase("wave");
  total.erase("to");
  total["total_time_s"] = estimate(4);
  const Json plan{{"moves", Json::array({planned_move("demo-0", 1), planned_move("demo-1", 2)})},
                  {"stay", Json::array({Json{{"vm", "demo-2"}, {"reason", "Do not move: so"}}})},
                  {"total", total}};
  const auto lines = lines_of(drain_text(plan, false));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[0],
              testing::MatchesRegex("VM +WAVE +TO +CHOICE +TIME .*ADDED JOB TIME +REMARK"));
  EXPECT_THAT(lines[1], testing::MatchesRegex("demo-0 +1 +h2 +compressed +2 s \\(1.80 s to .*"));
  EXPECT_THAT(lines[2], testing::MatchesRegex("demo-1 +2 +h2 .*200 ms \\(180 ms to 240 ms\\) .*"));
  EXPECT_THAT(lines[3], testing::MatchesRegex("demo-2 +- +- +do not move +- .*Do not move: so"));
  EXPECT_THAT(lines[4], testing::MatchesRegex("in all +- +- +- +4 s \\(3.60 s to 4.80 s\\) .*"));
  EXPECT_EQ(drain_text(Json{{"moves", Json::array()}, {"stay", Json::array()}}, false), "");
}

TEST(ForecastViews, ADrainsExplanationHasALineForEachMigration) {
  const auto figure = [](const char* name, double said, Json actual) {
    return Json{{"name", name},
                {"forecast", said},
                {"low", said},
                {"high", said},
                {"actual", std::move(actual)}};
  };
  const Json moved{
      {"migration", "op-15"},
      {"vm", "demo-0"},
      {"wave", 1},
      {"destination", "h2"},
      {"strategy", "hybrid"},
      {"outcome", "succeeded"},
      {"figures", Json::array({figure("total_time_s", 2, 3.0), figure("downtime_s", 0.5, 0.25)})}};
  Json waits = moved;
  waits["migration"] = nullptr;
  waits["outcome"] = nullptr;
  waits["figures"] = Json::array({figure("total_time_s", 7, nullptr)});
  const Json told{{"operation", "op-12"},
                  {"host", "h1"},
                  {"outcome", "cancelled"},
                  {"reason", "2 VMs would move"},
                  {"sentence", "It did not empty its host."},
                  {"figures", Json::array({figure("total_time_s", 2, 3.0)})},
                  {"migrations", Json::array({moved, waits})}};
  const auto lines = lines_of(drain_explanation_text(told, false, false));
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines[0], "op-12: host h1, cancelled");
  EXPECT_THAT(lines[2], testing::MatchesRegex("total time +2 s .*3 s .*"));
  EXPECT_THAT(lines[5],
              testing::MatchesRegex("demo-0 +1 +op-15 +h2 +hybrid +2 s +3 s .*succeeded"));
  EXPECT_THAT(lines[6], testing::MatchesRegex("demo-0 +1 +- .*7 s +- .*not begun"));
  EXPECT_THAT(lines[4], Not(HasSubstr("DOWNTIME")));
  EXPECT_EQ(lines[8], "before: 2 VMs would move");
  EXPECT_EQ(lines[9], "after: It did not empty its host.");
  const std::string wide = drain_explanation_text(told, true, false);
  EXPECT_THAT(wide, HasSubstr("FORECAST DOWNTIME"));
  EXPECT_THAT(wide, HasSubstr("250 ms"));
}

TEST(ForecastViews, HeatIsALineOfBlocks) {
  EXPECT_EQ(heat_strip(Json::array({0, 0.001, 0.5, 1, 7, nullptr})), " ▁▄██ ");
  EXPECT_EQ(heat_strip(Json::array()), "");
}

TEST(ForecastViews, MemoryShowsWwsCurveAndHeat) {
  const Json memory{{"vm", "demo-0"},
                    {"wws_bytes", 16777216.0},
                    {"flattens", true},
                    {"dirty_bytes_per_s", 8e6},
                    {"curve", Json::array({Json{{"progress_s", 0.5}, {"unique_bytes", 4194304}}})},
                    {"profile", Json{{"source", "pagemap-scan"},
                                     {"total_bytes", 201326592},
                                     {"zero_bytes", 1048576},
                                     {"compressed_fraction", 0.4},
                                     {"hot_compressed_fraction", 0.7},
                                     {"compress_rate_bytes_per_s", 3.5e8},
                                     {"unpack_rate_bytes_per_s", 4.1e8},
                                     {"cost_fraction", 0.001},
                                     {"host_cpus", 8.0},
                                     {"busy_cpus", 2.5},
                                     {"emulator_start_us", 93200},
                                     {"heat", Json::array({1, 0})}}}};
  const std::string text = memory_text(memory, false);
  for (const char* part :
       {"16 MiB", "8 MB/s", "192 MiB", "40.0%", "70.0%", "350 MB/s", "410 MB/s", "pagemap-scan",
        "0.1%", "500 ms", "4 MiB", "2.5 of 8 busy", "93.2 ms", "[█ ]"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  Json growing = memory;
  growing["flattens"] = false;
  EXPECT_THAT(memory_text(growing, false), HasSubstr("it still grows"));
}

TEST(ForecastViews, AccuracyHidesWhatWasNeverMeasured) {
  const Json none{{"moves", 0}, {"median_error", 0.0}};
  const Json some{{"moves", 12},       {"median_error", 0.021}, {"p95_error", 0.06},
                  {"median_off", 0.1}, {"p95_off", 0.4},        {"bias", -0.01},
                  {"coverage", 0.95}};
  const auto lines =
      lines_of(accuracy_text(Json{{"total_time_s", some}, {"downtime_s", none}}, false));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[1], HasSubstr("2.1%"));
  EXPECT_THAT(lines[1], HasSubstr("95.0%"));
  EXPECT_THAT(lines[2], Not(HasSubstr("%")));
}

TEST(ForecastViews, AccuracyHasATableForEachGroupAndItsVerdicts) {
  const Json time{{"moves", 3}, {"median_error", 0.021}, {"bias", -0.01}};
  const auto group = [&](int wrong) {
    return Json{{"total_time_s", time},
                {"verdicts", Json{{"right", 5}, {"wrong", wrong}, {"open", 1}}}};
  };
  Json accuracy = group(2);
  accuracy["by"] = "strategy";
  accuracy["groups"] = Json::array({group(0)});
  accuracy["groups"][0]["strategy"] = "compressed";
  auto lines = lines_of(accuracy_text(accuracy, false));
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[2], "whether it would end by itself: 5 right, 2 wrong, 1 left open");
  EXPECT_EQ(lines[4], "by compressed:");
  EXPECT_EQ(lines[7], "whether it would end by itself: 5 right, 0 wrong, 1 left open");
  accuracy["by"] = "pair";
  accuracy["groups"][0].update(Json{{"source", "h1"}, {"destination", "h3"}});
  EXPECT_EQ(lines_of(accuracy_text(accuracy, false))[4], "from h1 to h3:");
  accuracy["by"] = "program";
  EXPECT_EQ(lines_of(accuracy_text(accuracy, false))[4], "of VMs without a job:");
  accuracy["groups"][0]["program"] = "heat";
  EXPECT_EQ(lines_of(accuracy_text(accuracy, false))[4], "of heat:");
}

TEST(ForecastViews, AReportIsShownBesideItsForecast) {
  Json told = forecast();
  told["outcome"] = Json{{"strategy", "compressed"}, {"added_job_time_s", 0.4}};
  EXPECT_EQ(report_text(told),
            "op-3: 400 ms of added job time, 200 ms (180 ms to 240 ms) was forecast\n");
  told["outcome"]["strategy"] = "post-copy";
  EXPECT_EQ(report_text(told), "op-3: 400 ms of added job time\n");
}

TEST(ForecastViews, VerdictsAreToldInAnExplanation) {
  Json told{{"forecast", forecast()}, {"sentence", "it took 2 s."}};
  EXPECT_THAT(explanation_text(told, false), Not(HasSubstr("by itself")));
  told["forecast"]["verdicts"] = Json::array({Json{{"strategy", "compressed"}, {"score", "wrong"}},
                                              Json{{"strategy", "pre-copy"}, {"score", "right"}},
                                              Json{{"strategy", "throttled"}, {"score", "open"}}});
  EXPECT_THAT(explanation_text(told, false),
              HasSubstr("told: compressed wrongly, pre-copy rightly, throttled neither way\n"));
}

TEST(ForecastViews, MemoryShowsItsHistoryItsSweepAndItsQuota) {
  Json memory{{"vm", "demo-0"}, {"profile", Json::object()}, {"history", Json::array()}};
  EXPECT_THAT(memory_text(memory, false), Not(HasSubstr("wws   [")));
  EXPECT_THAT(memory_text(memory, false), Not(HasSubstr("sweeps")));
  for (int i = 0; i < 10; ++i) {
    memory["history"].push_back(Json{{"began", "2026-11-21T04:00:0" + std::to_string(i) + "Z"},
                                     {"seen_for_s", 20.0},
                                     {"wws_bytes", i < 9 ? 4194304.0 : 8388608.0},
                                     {"flattens", i < 9},
                                     {"dirty_bytes_per_s", 3e6}});
  }
  memory["profile"] = Json{{"cpu_quota", 0.5},
                           {"cpu_quota_period_us", 100000},
                           {"sweep", Json{{"descending", true}, {"period_ms", 2100.0}}}};
  const std::string text = memory_text(memory, false);
  EXPECT_THAT(text, HasSubstr("wws   [▄▄▄▄▄▄▄▄▄█] up to 8 MiB\n"));
  EXPECT_THAT(text, HasSubstr("0.5 CPUs, by periods of 100 ms"));
  EXPECT_THAT(text, HasSubstr("downwards, 2.10 s for one time through"));
  EXPECT_THAT(text, HasSubstr("8 MiB or more"));
  EXPECT_THAT(text, HasSubstr("04:00:02"));
  EXPECT_THAT(text, Not(HasSubstr("04:00:01"))) << "only the newest are in the table";
}

}  // namespace
}  // namespace mare::cli
