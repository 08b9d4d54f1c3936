// The campaign over many seeds. A failure prints its seed; "--seed N" or MARE_SIM_SEED=N plays it
// again, MARE_SIM_SEEDS=N plays the first N instead of 500.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "tests/sim/campaign.h"

namespace mare::test {
namespace {

constexpr std::uint64_t kSeeds = 500;
constexpr std::uint64_t kShards = 5;  // so that CTest can run them side by side

std::optional<std::uint64_t> only_seed;

std::optional<std::uint64_t> number(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end) {
    std::fprintf(stderr, "'%s' is not a seed or a number of seeds\n", text);
    std::exit(2);
  }
  return value;
}

class Campaigns : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Campaigns, InvariantsHold) {
  const std::uint64_t seeds = number(std::getenv("MARE_SIM_SEEDS")).value_or(kSeeds);
  std::map<std::string, int> counts;
  int played = 0;
  for (std::uint64_t seed = 1 + GetParam(); seed <= seeds; seed += kShards) {
    if (only_seed) {
      if (GetParam() != 0 || played > 0) break;
      seed = *only_seed;
    }
    ++played;
    const auto report = run_campaign(seed);
    for (const auto& [what, count] : report.counts) counts[what] += count;
    for (const auto& what : report.broken) ADD_FAILURE() << "seed " << seed << ", " << what;
    if (!report.broken.empty()) {
      std::printf("replay: sim_campaign --seed %llu\n%s", static_cast<unsigned long long>(seed),
                  report.log.c_str());
    }
  }
  std::printf("%d seeds:", played);
  for (const auto& [what, count] : counts) std::printf(" %s %d;", what.c_str(), count);
  std::printf("\n");
  if (only_seed || played < 20) return;
  // A campaign in which nothing happens proves nothing.
  for (const char* what : {"vm.migrate succeeded",
                           "vm.migrate failed",
                           "vm.migrate cancelled",
                           "vm.migrate reached Restarting",
                           "job.run succeeded",
                           "job.run failed",
                           "pool.create succeeded",
                           "pool.scale succeeded",
                           "pool.scale failed",
                           "rules given",
                           "host.drain succeeded",
                           "host.evacuate succeeded",
                           "host.evacuate failed",
                           "plan.evacuate succeeded",
                           "layout.change succeeded",
                           "layout.change failed",
                           "cluster.rebalance succeeded",
                           "rebalancing set",
                           "checkpoint.take succeeded",
                           "checkpoint.take failed",
                           "checkpoint.restore succeeded",
                           "recovery.run succeeded",
                           "mared killed",
                           "host freezes",
                           "host dies",
                           "agent restarts"}) {
    EXPECT_GT(counts[what], 0) << what;
  }
  EXPECT_EQ(counts["refused without a word"], 0);
}

INSTANTIATE_TEST_SUITE_P(Shard, Campaigns, ::testing::Range<std::uint64_t>(0, kShards));

}  // namespace
}  // namespace mare::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mare::test::only_seed = mare::test::number(std::getenv("MARE_SIM_SEED"));
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--seed" && i + 1 < argc) {
      mare::test::only_seed = mare::test::number(argv[++i]);
    } else {
      std::fprintf(stderr, "unknown argument '%s'; known: --seed N\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
