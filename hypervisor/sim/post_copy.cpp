// Post-copy, and a migration that is forced to its end. The guest runs at the destination while its
// pages come: first those of its WWS, for which it waits one by one, then the rest in the
// background. Until the last one its memory is in two halves, and the loss of either is its end.
#include <algorithm>
#include <utility>

#include "hypervisor/sim/world.h"

namespace mare::sim {

/// The VM stops for the moment in which its devices go over; `pages` follow then.
void World::begin_post_copy(Move& move, double pages) {
  move.post_copy = true;
  move.pages = pages;
  begin_switch(move, 0);
}

/// The destination's copy runs: the pages of its WWS are what it waits for.
void World::begin_fetching(Move& move) {
  const double wws = static_cast<double>(move.guest->model.wws.count);
  move.stage = MoveStage::Fetching;
  move.round_began = now;
  move.left = std::min(wws, move.pages);
  move.round_size = move.pages;
  move.pages -= move.left;
  if (faults.post_copy_breaks > 0 && rng.chance(faults.post_copy_breaks)) {
    const double whole_s =
        move.round_size / std::max(1.0, hosts.at(move.source).model.uplink.value);
    move.breaks_at = now + nanoseconds_up(whole_s * rng.unit());
  }
  set_pace(*move.guest, migration.post_copy_pace);
  share_links();
}

/// The WWS has come; nobody waits for the rest.
void World::begin_following(Move& move) {
  move.stage = MoveStage::Following;
  move.left = std::exchange(move.pages, 0);
  set_pace(*move.guest, 1);
  share_links();
}

void World::end_post_copy(Move& move) {
  add_round(move, 0);
  const HostId source = move.source;
  const VmId vm = move.ticket.vm.id;
  Arrival& arrival = hosts.at(move.destination).arrivals[vm];
  arrival.total = now - move.began;
  arrival.transferred = move.transferred;
  end_move(move.serial, OutgoingPhase::Completed, "");
  remove_copy(source, vm, EndCause::Destroyed);
}

/// No page comes any more: the VM stands still where it is, until begin_outgoing() is called again.
void World::starve(Move& move, const std::string& why) {
  settle(move);
  move.breaks_at.reset();
  if (move.broken) return;
  move.broken = true;
  move.trouble = why;
  change_copy(move.destination, move.ticket.vm.id, Copy::Paused);
  share_links();
}

void World::mend(Move& move) {
  if (!move.broken) return;
  if (!on_network(hosts.at(move.source)) || !on_network(hosts.at(move.destination))) return;
  settle(move);
  move.broken = false;
  move.trouble.clear();
  change_copy(move.destination, move.ticket.vm.id, Copy::Running);
  share_links();
}

/// One half of its memory is gone; the copy with the other half can never run again.
void World::lose_pages(Move& move, const HostId& gone) {
  const HostId left = gone == move.source ? move.destination : move.source;
  const VmId vm = move.ticket.vm.id;
  const auto guest = move.guest;
  guest->doomed = true;
  if (gone == move.source && !move.broken) change_copy(left, vm, Copy::Paused);
  end_move(move.serial, OutgoingPhase::Failed,
           "host " + gone.value + " lost its half of the VM's memory");
}

Status World::force_move(const HostId& source, const VmId& vm, LimitAction how) {
  Move* move = find_move(source, vm);
  if (move == nullptr) {
    return make_error(Code::NotFound, "no migration of VM " + vm.value + " runs here");
  }
  if (how == LimitAction::Cancel) {
    cancel_move(source, vm);
    return ok_status();
  }
  const Sending& sending = move->ticket.sending;
  const bool allowed = sending.allow_post_copy || sending.strategy == Strategy::PostCopy ||
                       sending.strategy == Strategy::Hybrid;
  if (how == LimitAction::PostCopy && !allowed) {
    return make_error(Code::FailedPrecondition,
                      "the migration of VM " + vm.value + " was begun without post-copy");
  }
  if (!in_rounds(*move)) return ok_status();
  settle(*move);
  // What this round has left, and what was dirtied since it began.
  const double dirtied = dirtied_in(*move);
  const double memory = static_cast<double>(move->guest->spec.memory.count);
  const double rest = std::min(memory, move->left / wire_share(*move) + dirtied);
  add_round(*move, rest);
  if (how == LimitAction::PostCopy) {
    begin_post_copy(*move, rest);
  } else {
    begin_switch(*move, rest);
  }
  share_links();
  return ok_status();
}

bool World::is_halved(const HostId& host, const VmId& vm) const {
  return std::any_of(moves.begin(), moves.end(), [&](const auto& entry) {
    const Move& move = entry.second;
    return move.destination == host && move.ticket.vm.id == vm && in_post_copy(move);
  });
}

void World::set_pace(Guest& guest, double pace) {
  guest.pace = pace;
  if (const auto where = runs_on(guest)) refresh_speed(*where);
}

}  // namespace mare::sim
