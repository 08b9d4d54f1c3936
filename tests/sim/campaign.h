// One seed's life of a cluster: hosts, pools, jobs, migrations, drains, faults and killed mareds at
// random, then peace, then the question whether everything ended as it must.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mare::test {

struct CampaignReport {
  std::vector<std::string> broken;    // invariants, with the time; empty: all hold
  std::map<std::string, int> counts;  // what happened
  std::string log;                    // the last lines, when something is broken
};

CampaignReport run_campaign(std::uint64_t seed);

}  // namespace mare::test
