// Names of states: SQL and JSON carry them, so each must be distinct and readable back.
#include "orchestrator/model/states.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>

#include "orchestrator/model/autoscaler.h"

namespace mare {
namespace {

/// `count` values, each with a name of its own that reads back; nothing else has a name.
template <typename T>
void check_names(int count, std::optional<T> (*from)(std::string_view)) {
  std::set<std::string_view> names;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<T>(i);
    names.insert(to_string(value));
    EXPECT_EQ(from(to_string(value)), value) << to_string(value);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
  EXPECT_FALSE(names.contains("?"));
  EXPECT_EQ(from("no such state"), std::nullopt);
  EXPECT_EQ(from(""), std::nullopt);
}

TEST(States, NamesReadBack) {
  check_names<HostAdmin>(3, host_admin_from);
  check_names<HostHealth>(3, host_health_from);
  check_names<VmState>(7, vm_state_from);
  check_names<JobState>(6, job_state_from);
  check_names<MetricSource>(2, metric_source_from);
  check_names<OperationKind>(12, operation_kind_from);
  check_names<Outcome>(5, outcome_from);
}

TEST(States, KindsAreNamedNounDotVerb) {
  // The store tells unfinished operations of one noun by what stands before the dot.
  for (int i = 0; i < 12; ++i) {
    const auto name = to_string(static_cast<OperationKind>(i));
    const auto dot = name.find('.');
    ASSERT_NE(dot, std::string_view::npos) << name;
    const auto noun = name.substr(0, dot);
    EXPECT_TRUE(noun == "host" || noun == "pool" || noun == "vm" || noun == "job" ||
                noun == "forecast" || noun == "plan")
        << name;
  }
}

TEST(States, JobsEndInThreeWays) {
  EXPECT_TRUE(is_final(JobState::Succeeded) && is_final(JobState::Failed) &&
              is_final(JobState::Cancelled));
  EXPECT_FALSE(is_final(JobState::Queued) || is_final(JobState::Starting) ||
               is_final(JobState::Running));
}

}  // namespace
}  // namespace mare
