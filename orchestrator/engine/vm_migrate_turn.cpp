// Before anything is touched: a migration waits in Planned, with its reason on the operation, for
// the moment that was asked for, and then until hosts and links have a place for it.
#include <array>
#include <cstdio>

#include "orchestrator/engine/move_policy.h"
#include "orchestrator/engine/move_slots.h"
#include "orchestrator/engine/plan.h"
#include "orchestrator/engine/spec.h"
#include "orchestrator/engine/vm_migrate.h"
#include "orchestrator/policy/dirty_curve.h"

namespace mare::engine {
namespace {

// A VM that ends meanwhile shall not stay locked by a move that can't be any more.
constexpr auto kLookEvery = std::chrono::seconds{2};
constexpr std::string_view kForSlot = "waits for a slot: ";

std::string trough_words(const policy::Trough& trough, WallTime at) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "waits for a trough of its writing at %s: then it writes %.0f MB in %.0f s, else "
                "%.0f MB; it repeats after %.0f s",
                format_rfc3339(at).c_str(), trough.bytes / 1e6, policy::kTroughWindow,
                trough.usual / 1e6, trough.period.count());
  return text.data();
}

// The guest's own limit, and time for the answer.
constexpr auto kCacheWithin = std::chrono::seconds{6};

}  // namespace

/// The moment is chosen once and kept with the migration.
void VmMigrate::choose_moment() {
  const Timing timing = timing_from(operation().request);
  if (timing.moment != Moment::Trough || migration_.planned.count() != 0) return await_moment();
  if (!may_wait()) return;
  // Whichever comes first: the commit makes the other one too late.
  const auto patience =
      std::chrono::duration_cast<std::chrono::nanoseconds>(settings().forecast_timeout);
  after(patience, [this] {
    plan_moment(make_error(Code::Unavailable, "its host did not tell in time how it writes"));
  });
  call_host<Result<MemoryProfile>>(
      migration_.source, [key = key()](Driver& driver) { return driver.memory_profile(key); },
      [this](const Result<MemoryProfile>& profile) { plan_moment(profile); });
}

void VmMigrate::plan_moment(const Result<MemoryProfile>& profile) {
  const WallTime now = clock().wall_now();
  const Timing timing = timing_from(operation().request);
  const WallTime deadline =
      operation().created + std::chrono::duration_cast<WallTime>(timing.within);
  std::optional<policy::Trough> trough;
  // By the clock of the host that stamped the cycles.
  if (profile && deadline > now) {
    const WallTime there = profile->taken;
    trough = policy::next_trough(profile->cycles, there, there + (deadline - now));
  }
  Migration row = migration_;
  row.planned = trough ? now + (trough->at - profile->taken) : now;
  const std::string why =
      !profile ? profile.error().text()
               : "no trough of its writing is known before " + format_rfc3339(deadline);
  const std::string reason = trough ? trough_words(*trough, row.planned) : "";
  const std::string detail = trough ? reason : "begins at once: " + why;
  const auto also = [&](store::Transaction& tx) { return tx.put(row); };
  if (!wait_because("Moment", reason, detail, also)) return;
  migration_ = row;
  await_moment();
}

void VmMigrate::await_moment() {
  const std::chrono::nanoseconds left = migration_.planned - clock().wall_now();
  if (migration_.planned.count() == 0 || left.count() <= 0) return take_turn();
  if (!may_wait()) return;
  after(std::min<std::chrono::nanoseconds>(left, kLookEvery), [this] {
    if (!load()) return load_again();
    await_moment();
  });
}

/// When all else is ready, since one is over soon. What asks for none gets none.
void VmMigrate::at_safe_point(std::function<void(const std::string&)> then) {
  // While the hosts were asked there was no search yet that it could have ended.
  if (operation().cancel_requested) return abort(make_error(Code::Cancelled, "cancelled"));
  const Timing timing = timing_from(operation().request);
  if (timing.moment != Moment::SafePoint) return then("");
  auto jobs =
      query<std::vector<Job>>(store(), [&](const store::Reader& r) { return jobs_on(r, vm_); });
  if (!jobs) return abort(jobs.error());
  auto guest = find_guest(store(), vm_);
  if (!guest) return abort(guest.error());
  if (jobs->empty()) return then("; at once: no job is on it");
  using Found = SafePointSearch::Found;
  search_ = std::make_shared<SafePointSearch>(
      context_, jobs->front().id, std::vector<GuestAddress>{*guest}, timing.within,
      guarded<const Found&>([then](const Found& found) { then("; " + found.words); }));
  search_->begin();
}

bool VmMigrate::may_wait() {
  const bool gone = vm_.state == VmState::Stopped || vm_.state == VmState::Failed;
  if (operation().cancel_requested) {
    refuse(make_error(Code::Cancelled, "cancelled"));
  } else if (gone) {
    refuse(wrong_state(vm_, "running"));
  } else {
    return true;
  }
  return false;
}

void VmMigrate::take_turn() {
  if (!may_wait()) return;
  const std::string full =
      context_.slots->ask(operation().id, migration_.source, migration_.destination);
  if (full.empty()) {
    if (!operation().reason.empty()) {
      set_deadline(clock().wall_now() + (operation().deadline - operation().created));
      if (!wait_because("Turn", "", "")) return;
    }
    return empty_cache();
  }
  const std::string reason = std::string(kForSlot) + full;
  const bool said = operation().reason.starts_with(kForSlot);
  if (!said && !wait_because("Wait", reason, reason)) return;
  const auto look_again = [this] {
    if (!load()) return load_again();
    take_turn();
  };
  context_.slots->on_turn(operation().id, later(look_again));
  after(kLookEvery, look_again);
}

/// Before the forecast, so that it counts what is left. A guest that does not is moved all the
/// same.
void VmMigrate::empty_cache() {
  const bool asked = policy_.drop_page_cache && migration_.earlier.empty();
  if (!asked || vm_.state != VmState::Running) return forecast_first();
  const auto go_on = [this, over = std::make_shared<bool>(false)](const Result<Bytes>& freed) {
    if (std::exchange(*over, true)) return;
    const std::string words =
        freed ? "the guest gave back " + std::to_string(freed->count >> 20U) + " MiB of page cache"
              : "the guest's page cache stays: " + freed.error().text();
    if (wait_because("DropCache", "", words)) forecast_first();
  };
  auto guest = find_guest(store(), vm_);
  if (!guest) return go_on(guest.error());
  after(kCacheWithin,
        [go_on] { go_on(make_error(Code::Unavailable, "the guest did not answer in time")); });
  call<Result<Bytes>>(
      "guest/" + vm_.id.value,
      [&guests = context_.ports.guests, guest = *guest] { return guests.drop_cache(guest); },
      go_on);
}

}  // namespace mare::engine
