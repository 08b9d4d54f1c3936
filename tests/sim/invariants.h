// What must hold in every simulated moment, and what must be true when all is quiet.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/sim/sim_world.h"

namespace mare::test {

class Invariants {
 public:
  explicit Invariants(SimWorld& world) : world_(world) {}

  /// After every step: at most one running copy of a VM; no VM ended that nobody wanted to end.
  void check_moment();
  /// After commits: reservations have their operations, ranks their own live VMs, hosts are not
  /// promised twice, states agree with the operations that made them.
  void check_rows();
  /// When nothing is left to do: everything ended, with a reason where it did not end well, and the
  /// rows say what the cluster shows.
  void check_quiet();

  bool hold() const { return broken_.empty(); }
  const std::vector<std::string>& broken() const { return broken_; }

 private:
  void fail(const std::string& what);
  void check_ending(const sim::Ending& ending);
  void check_vm_row(const Vm& vm, const std::vector<Operation>& unfinished);
  /// The store holds the files of the checkpoints that there are, and no others.
  void check_checkpoints();
  /// Every checkpoint that is there has its files, and those that they are built on.
  void check_chains();
  void check_sizes();
  void check_job_end(const Job& job, const std::vector<Operation>& operations);
  void check_vm_against_cluster(const Vm& vm, const std::vector<sim::TrueCopy>& copies);

  SimWorld& world_;
  std::vector<std::string> broken_;
  std::set<std::string> said_;
  std::size_t endings_seen_ = 0;
  std::vector<sim::Ending> endings_;
};

}  // namespace mare::test
