#include "orchestrator/daemon/guests.h"

#include "hypervisor/sim/sim_guests.h"
#include "orchestrator/guestlink/guestlink.h"

namespace mare::daemon {
namespace {

class Guests final : public GuestPort {
 public:
  Guests(Clock& clock, Log& log, Drivers& drivers)
      : drivers_(drivers),
        sim_(drivers.simulated()),
        real_(guestlink::make_guest_port(clock, log, {})) {}

  Result<GuestHello> hello(const GuestAddress& guest) override { return port(guest).hello(guest); }
  Result<RunStatus> run(const GuestAddress& guest, const GuestRun& program) override {
    return port(guest).run(guest, program);
  }
  Result<RunStatus> run_status(const GuestAddress& guest, const GuestRun& program) override {
    return port(guest).run_status(guest, program);
  }
  Result<std::string> output(const GuestAddress& guest, const GuestRun& program,
                             std::uint64_t offset, std::size_t most) override {
    return port(guest).output(guest, program, offset, most);
  }
  Status signal(const GuestAddress& guest, const GuestRun& program, int number) override {
    return port(guest).signal(guest, program, number);
  }
  Result<SafePointStatus> safe_points(const GuestAddress& guest, const JobId& job) override {
    return port(guest).safe_points(guest, job);
  }
  Status set_clock(const GuestAddress& guest, WallTime now) override {
    return port(guest).set_clock(guest, now);
  }
  void hang_up(const GuestAddress& guest) override { port(guest).hang_up(guest); }
  Status came_back(const GuestAddress& guest, WallTime now) override {
    return port(guest).came_back(guest, now);
  }
  Result<Bytes> drop_cache(const GuestAddress& guest) override {
    return port(guest).drop_cache(guest);
  }
  Status power_off(const GuestAddress& guest) override { return port(guest).power_off(guest); }
  Result<std::unique_ptr<GuestProbe>> start_probe(const GuestAddress& guest,
                                                  Microseconds period) override {
    return port(guest).start_probe(guest, period);
  }

 private:
  GuestPort& port(const GuestAddress& guest) {
    if (drivers_.is_simulated(guest.vm)) return sim_;
    return *real_;
  }

  Drivers& drivers_;
  sim::SimGuests sim_;
  std::unique_ptr<GuestPort> real_;
};

}  // namespace

std::unique_ptr<GuestPort> make_guests(Clock& clock, Log& log, Drivers& drivers) {
  return std::make_unique<Guests>(clock, log, drivers);
}

}  // namespace mare::daemon
