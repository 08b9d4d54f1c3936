// The guests of a simulated cluster, through the engine's guest port.
//
// A guest answers once it has run for its boot time. A program is an mpirun over the addresses of
// "--host" (or the one guest alone) that needs 5 s of work of all its ranks at speed 1, or what
// "--sim-work=SECONDS" among its arguments says, writes a line for each half second of it and a
// checksum at the end, and exits with 0 or what "--sim-exit=CODE" says. With
// "--sim-collective-every=SECONDS" of work its ranks are in a collective for 10 ms, all at a time;
// it announces them if mpirun was told so.
#pragma once

#include "hypervisor/guest_port.h"
#include "hypervisor/sim/sim_cluster.h"

namespace mare::sim {

/// All that a program of that job writes when it does its work to the end.
std::string complete_output(const JobId& job, double work_s);

class SimGuests final : public GuestPort {
 public:
  /// The cluster must outlive this and its probes.
  explicit SimGuests(SimCluster& cluster) : cluster_(cluster) {}

  Result<GuestHello> hello(const GuestAddress& guest) override;
  Result<RunStatus> run(const GuestAddress& guest, const GuestRun& program) override;
  Result<RunStatus> run_status(const GuestAddress& guest, const GuestRun& program) override;
  Result<std::string> output(const GuestAddress& guest, const GuestRun& program,
                             std::uint64_t offset, std::size_t most) override;
  Status signal(const GuestAddress& guest, const GuestRun& program, int number) override;
  Result<SafePointStatus> safe_points(const GuestAddress& guest, const JobId& job) override;
  Status set_clock(const GuestAddress& guest, WallTime now) override;
  Status came_back(const GuestAddress& guest, WallTime now) override;
  /// Nobody waits here for a VM that is gone.
  void hang_up(const GuestAddress& /*guest*/) override {}
  /// A simulated guest has no page cache: nothing is given back.
  Result<Bytes> drop_cache(const GuestAddress& guest) override;
  Status power_off(const GuestAddress& guest) override;
  Result<std::unique_ptr<GuestProbe>> start_probe(const GuestAddress& guest,
                                                  Microseconds period) override;

 private:
  SimCluster& cluster_;
};

}  // namespace mare::sim
