#include "orchestrator/policy/mpirun.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mare::policy {
namespace {

TEST(Mpirun, OneRankAVmInOrder) {
  const auto command = mpirun_command({Ipv4Address{0x0a4d0102}, Ipv4Address{0x0a4d0101}},
                                      {"migtest", "--size-mib", "16"}, {"A=1"});
  EXPECT_EQ(command.front(), "mpirun");
  const auto ranks = std::find(command.begin(), command.end(), "-np");
  ASSERT_NE(ranks, command.end());
  EXPECT_EQ(*(ranks + 1), "2");
  const auto hosts = std::find(command.begin(), command.end(), "--host");
  ASSERT_NE(hosts, command.end());
  EXPECT_EQ(*(hosts + 1), "10.77.1.2:1,10.77.1.1:1");
  const auto exported = std::find(command.begin(), command.end(), "-x");
  ASSERT_NE(exported, command.end());
  EXPECT_EQ(*(exported + 1), "A=1");
}

TEST(Mpirun, TheProgramIsLastAndAsItWasGiven) {
  const std::vector<std::string> program{"prog", "-x", "--host", "a b"};
  const auto command = mpirun_command({Ipv4Address{1}}, program, {});
  ASSERT_GE(command.size(), program.size());
  EXPECT_TRUE(std::equal(program.begin(), program.end(), command.end() - 4));
}

TEST(Mpirun, RanksThatAnnounceSafePointsGetTheLibraryAndTheirJob) {
  const auto exported = [](const std::vector<std::string>& environment, const JobId& job) {
    const auto command = mpirun_command({Ipv4Address{1}}, {"prog"}, environment, job);
    std::vector<std::string> out;
    for (std::size_t i = 0; i + 1 < command.size(); ++i) {
      if (command[i] == "-x") out.push_back(command[i + 1]);
    }
    return out;
  };
  using Words = std::vector<std::string>;
  const std::string library = "LD_PRELOAD=/usr/local/lib/libmare-safepoint.so";
  EXPECT_EQ(exported({"A=1"}, {}), Words{"A=1"}) << "off by default";
  EXPECT_EQ(exported({"A=1"}, JobId{"job-7"}), (Words{"A=1", library, "MARE_SAFE_POINTS=job-7"}));
  EXPECT_EQ(exported({"LD_PRELOAD=/x/own.so", "MARE_SAFE_POINTS=other"}, JobId{"job-7"}),
            (Words{library + ":/x/own.so", "MARE_SAFE_POINTS=job-7"}))
      << "what the program needs is kept, and each name is there once";
}

}  // namespace
}  // namespace mare::policy
