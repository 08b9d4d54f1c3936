#include "hypervisor/leases/enforcer.h"

#include <algorithm>

namespace mare::leases {

void Enforcer::step() {
  // One that can't be read says nothing new: what it said last still runs out.
  const auto record = around_.record();
  const MonotonicTime now = clock_.now();
  {
    const std::lock_guard lock(mutex_);
    if (record) {
      if (record->note != record_.note) storage_until_ = MonotonicTime{0};
      record_ = *record;
    }
    if (!record_.enforced) {
      storage_until_ = MonotonicTime{0};
      late_since_.reset();
      tell();
      return;
    }
    hear_storage(now);
    tell();
    if (!is_over(now)) return;
  }
  const int ended = around_.end_all();
  if (ended == 0) return;
  log_.warn("lease", "neither mared nor the storage has confirmed this host's lease within " +
                         std::to_string(record_.term.count()) + " ms: " + std::to_string(ended) +
                         " VMs ended");
}

void Enforcer::tell() const {
  if (!around_.runs_until) return;
  std::optional<MonotonicTime> until;
  if (record_.enforced) until = std::max(record_.said_until, storage_until_);
  around_.runs_until(until);
}

/// What it said counts from when it was asked: a note may have been written just afterwards.
void Enforcer::hear_storage(MonotonicTime now) {
  if (const auto answer = storage_.take(); answer && answer->note == record_.note) {
    if (answer->seen == NoteSeen::Absent) {
      storage_until_ = std::max(storage_until_, answer->asked + record_.term);
    } else if (late_since_ && answer->asked >= *late_since_) {
      denied_since_late_ = true;
    }
  }
  storage_.ask(record_.note, now);
}

bool Enforcer::is_over(MonotonicTime now) {
  if (now < std::max(record_.said_until, storage_until_)) {
    late_since_.reset();
    return false;
  }
  if (!late_since_) {
    late_since_ = now;
    denied_since_late_ = false;
  }
  return denied_since_late_ || now - *late_since_ >= kLastAnswer;
}

bool Enforcer::may_run() const {
  const std::lock_guard lock(mutex_);
  return !record_.enforced || clock_.now() < std::max(record_.said_until, storage_until_);
}

bool Enforcer::enforced() const {
  const std::lock_guard lock(mutex_);
  return record_.enforced;
}

}  // namespace mare::leases
