// After the switch: the row, the announcement, the guest's health, the figures.
#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/vm_migrate.h"

namespace mare::engine {
namespace {
constexpr auto kVerifyWithin = std::chrono::seconds{20};
// An emulator that has just begun has the guest's code to translate anew, and what a guest is asked
// meanwhile it answers at its program's expense: beside stops of 0.07 s idle jobs lost 0.30 s so,
// and 0.23 s when it was asked a second later (medians of 3 and 4). Until then echoes tell that it
// is there.
constexpr auto kSettle = std::chrono::seconds{1};
}  // namespace

void VmMigrate::commit_destination(Event event, const std::string& detail) {
  Vm row = vm_;
  row.state = VmState::Running;
  row.host = migration_.destination;
  migration_.reconsiders.clear();  // its end came before that
  const auto also = [&](store::Transaction& tx) -> Status {
    if (auto done = tx.put(migration_); !done) return done;
    // The row's host accounts for its memory from here on.
    if (auto done = tx.release(operation().id); !done) return done;
    return put_vm(tx, clock(), row);
  };
  if (!step(event, detail, also)) return;
  vm_ = row;
  // It stood still for as long as it did; what its guest answers now its program waits for.
  if (probe_) probe_->watch_closely(false);
  if (is_emulated()) context_.spare(vm_.id, kSettle);
  // Nothing crosses the link any more: while its guest is waited for, the next one may go.
  context_.slots->leave(operation().id);
  complete();
}

void VmMigrate::complete() {
  // Its copy at the source is paused at best: the destination's runs, so that one must go.
  // Harmless if gone.
  call_host<Status>(
      migration_.source, [key = key()](Driver& driver) { return driver.destroy(key); },
      [this](Status ended) {
        // A silent source is cleaned by the host monitor when it is back.
        if (!ended) log().warn("engine", operation().id.value + ": " + ended.error().text());
        if (by_file()) return resume_there();
        announce();
      });
}

void VmMigrate::announce() {
  auto spec = find_spec(store(), context_.ports.images, settings(), vm_);
  if (!spec) return verify("not announced: " + spec.error().text());
  // The destination's agent announced by itself when the copy began to run; if it was restarted
  // in that very moment, nobody did. Only then it is asked to.
  call_host<Result<ArrivalReport>>(
      migration_.destination,
      [spec = *spec](Driver& driver) -> Result<ArrivalReport> {
        auto report = driver.arrival(spec.key());
        if (!report || report->announced_at.count() != 0) return report;
        if (auto sent = driver.announce(spec); !sent) return sent.error();
        return driver.arrival(spec.key());
      },
      [this](Result<ArrivalReport> report) {
        if (report) return arrived(*report);
        verify("not announced: " + report.error().text());
      });
}

void VmMigrate::arrived(const ArrivalReport& report) {
  migration_.downtime_hypervisor = report.downtime;
  // Of a post-copy no hypervisor tells how long nobody ran. By two hosts' clocks, so only where
  // there is nothing better, and if it can be true.
  const bool told = report.downtime && report.downtime->count() > 0;
  if (!told && attempt_.paused_at.count() != 0 && report.resumed_at > attempt_.paused_at) {
    migration_.downtime_hypervisor = report.resumed_at - attempt_.paused_at;
  }
  migration_.total_time = report.total_time;
  // Of a post-copy no hypervisor tells at the destination how long it took.
  if (!report.total_time && attempt_.sent_for.count() > 0)
    migration_.total_time = attempt_.sent_for;
  if (report.transferred.count > 0) migration_.transferred = report.transferred;
  migration_.remaining = Bytes{0};
  migration_.announcements = report.announcements;
  migration_.switched = report.resumed_at;
  if (report.announced_at.count() != 0 && report.resumed_at.count() != 0) {
    migration_.announce_delay = report.announced_at - report.resumed_at;
  }
  console_ = report.seen.console_first_fault;
  if (!is_emulated()) return verify("");
  after(kSettle, [this] { verify(""); });
}

/// A migration is good when the guest is, not when a call returned.
void VmMigrate::verify(const std::string& trouble) {
  auto guest = find_guest(store(), vm_);
  if (!guest) return done(guest.error().text());
  call<Result<GuestHello>>(
      "guest/" + vm_.id.value,
      [&guests = context_.ports.guests, &clock = clock(), guest = *guest]() -> Result<GuestHello> {
        auto hello = guests.hello(guest);
        if (hello) (void)guests.set_clock(guest, clock.wall_now());
        return hello;
      },
      [this, trouble](Result<GuestHello> hello) {
        if (!hello) {
          if (in_state() < kVerifyWithin) {
            after(std::chrono::milliseconds{100}, [this, trouble] { verify(trouble); });
            return;
          }
          return done("the guest does not answer: " + hello.error().text());
        }
        if (hello->kernel_faults > 0) {
          return done("the guest's kernel complains: " + hello->kernel_first_fault);
        }
        if (hello->taint != 0) {
          return done("the guest's kernel is tainted (" + std::to_string(hello->taint) + ")");
        }
        if (!console_.empty()) return done("the guest's console complains: " + console_);
        done(trouble);
      });
}

void VmMigrate::done(const std::string& trouble) {
  stop_probe();
  const auto outcome = trouble.empty() ? Outcome::Succeeded : Outcome::Failed;
  const std::string where = "the VM runs on '" + migration_.destination.value + "'" + file_left_;
  finish(to_string(Event::Announced), to_string(State::Done), outcome,
         trouble.empty() ? where : where + ", but " + trouble,
         trouble.empty() ? "" : std::string(to_string(Code::Internal)),
         [&](store::Transaction& tx) -> Status {
           if (auto done = tx.put(migration_); !done) return done;
           return score_forecast(tx);
         });
}

void VmMigrate::start_probe() {
  if (probe_) return;
  auto guest = find_guest(store(), vm_);
  if (!guest) return;
  probe_ = MigrationProbe::start(context_, *guest);
}

void VmMigrate::stop_probe() {
  if (!probe_) return;
  const auto report = probe_->stop();
  probe_.reset();
  if (!report || report->answered < 2) return;
  migration_.downtime_peers = report->longest_silence;
  migration_.downtime_guest = report->clock_lost;
}

}  // namespace mare::engine
