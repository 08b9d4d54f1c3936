// Live migration, modelled in rounds as in Clark et al., NSDI'05: round 0 sends all memory, every
// later one what was dirtied meanwhile; then the VM stops for the last round. Links are shared.
#include <algorithm>
#include <array>
#include <utility>

#include "hypervisor/sim/fair_share.h"
#include "hypervisor/sim/world.h"

namespace mare::sim {
namespace {

/// What is left of a round is nothing below this; floating point never comes out even.
constexpr double kNothing = 1.0;
/// One that holds its switch sends what was written since so often.
constexpr auto kHoldingLooks = std::chrono::milliseconds{50};

double cap_of(const Move& move) {
  constexpr double kUnlimited = 1e15;
  double cap = kUnlimited;
  if (move.ticket.bandwidth_limit) cap = std::max(1.0, move.ticket.bandwidth_limit->value);
  // For the last round its limit is lifted, as QEMU does it.
  if (move.rates && move.stage == MoveStage::Rounds) cap = std::min(cap, move.rates->rate().value);
  return cap;
}

bool carries(const Move& move) {
  return move.stage == MoveStage::Rounds || move.stage == MoveStage::LastRound ||
         (World::in_post_copy(move) && !move.broken);
}

Microseconds micro(Time span) {
  return std::chrono::duration_cast<Microseconds>(span);
}

Bytes bytes(double count) {
  return Bytes{static_cast<std::uint64_t>(std::max(0.0, count))};
}

}  // namespace

Move* World::find_move(const HostId& source, const VmId& vm) {
  for (auto& [serial, move] : moves) {
    if (move.source == source && move.ticket.vm.id == vm) return &move;
  }
  return nullptr;
}

Status World::begin_move(const MigrationTicket& ticket, const HostId& source, const HostId& to) {
  Move move;
  move.serial = ++last_serial_;
  move.ticket = ticket;
  move.source = source;
  move.destination = to;
  move.guest = find_copy(source, ticket.vm.key())->guest;
  move.ticket.vm = move.guest->spec;
  move.released = !ticket.holds_switch || !holds_its_switch(ticket.sending.strategy);
  move.began = move.round_began = move.since = now;
  move.left = move.round_size =
      static_cast<double>(move.guest->spec.memory.count) * wire_share(move);
  if (ticket.sending.strategy == Strategy::RateControlled) {
    move.rates.emplace(ticket.sending, ticket.downtime_limit.value_or(migration.downtime_limit));
  }
  draw_faults(move);
  hosts.at(source).ended.erase(ticket.vm.id);
  const auto serial = move.serial;
  const auto guest = move.guest;
  moves.emplace(serial, std::move(move));

  // A refusal by the other host shows up in outgoing(), as with a real hypervisor.
  SimHost& there = hosts.at(to);
  const auto arrival = there.arrivals.find(ticket.vm.id);
  std::string refusal;
  if (!on_network(there) || !on_network(hosts.at(source))) {
    refusal = "no route from " + source.value + " to " + to.value;
  } else if (arrival == there.arrivals.end() || arrival->second.operation != ticket.operation) {
    refusal = "host " + to.value + " does not expect " + ticket.vm.id.value + " by operation " +
              ticket.operation.value;
  } else if (find_copy(to, ticket.vm.id) != nullptr) {
    refusal = "host " + to.value + " has a copy of " + ticket.vm.id.value + " already";
  } else if (free_memory(there) < guest->spec.memory + there.model.vm_overhead) {
    refusal = "host " + to.value + " has no memory for " + ticket.vm.id.value;
  }
  if (!refusal.empty()) {
    end_move(serial, OutgoingPhase::Failed, refusal);
    return ok_status();
  }
  put_copy(to, guest, Copy::Incoming);
  start_strategy(moves.at(serial));
  share_links();
  return ok_status();
}

void World::start_strategy(Move& move) {
  const double memory = static_cast<double>(move.guest->spec.memory.count);
  if (move.ticket.sending.strategy == Strategy::StopAndCopy) begin_switch(move, memory);
  if (move.ticket.sending.strategy == Strategy::PostCopy) begin_post_copy(move, memory);
}

double World::wire_share(const Move& move) {
  if (move.ticket.sending.strategy != Strategy::Compressed) return 1;
  return std::clamp(move.guest->model.compressed_fraction, 0.01, 1.0);
}

/// What the guest wrote since the round began. V = min(D * T, W); it dirties as fast as it runs.
double World::dirtied_in(const Move& move) const {
  const VmModel& model = move.guest->model;
  const double memory = static_cast<double>(move.guest->spec.memory.count);
  const double wws = std::min(static_cast<double>(model.wws.count), memory);
  const double rate = model.dirty_bytes_per_s * move.guest->work.rate;
  return std::min(rate * seconds(now - move.round_began), wws);
}

/// The round that began last is over; `left` bytes of memory are for later ones.
void World::add_round(Move& move, double left) {
  const double sent = move.stage == MoveStage::Rounds && move.left > kNothing
                          ? move.round_size - move.left
                          : move.round_size;
  move.rounds.push_back({static_cast<int>(move.rounds.size()), micro(move.round_began - move.began),
                         micro(now - move.round_began), bytes(sent), bytes(left), move.dirty_rate});
}

void World::draw_faults(Move& move) {
  if (faults.precopy_breaks > 0 && rng.chance(faults.precopy_breaks)) {
    const double whole_s = move.left / std::max(1.0, hosts.at(move.source).model.uplink.value);
    move.breaks_at = now + nanoseconds_up(2 * whole_s * rng.unit());
  }
  if (faults.switch_breaks > 0 && rng.chance(faults.switch_breaks)) {
    move.switch_breaks = static_cast<BrokenSwitch>(rng.below(kBrokenSwitches));
  }
}

// --- the course of one migration

std::optional<Time> World::due(const Move& move) const {
  std::optional<Time> when;
  if (move.stage == MoveStage::Closing || move.stage == MoveStage::HandingOver ||
      move.stage == MoveStage::Holding) {
    when = move.hold_until;
  } else if (move.left < kNothing) {
    when = move.since;
  } else if (move.rate > 0) {
    when = move.since + nanoseconds_up(move.left / move.rate);
  }
  if (move.broken) return std::nullopt;
  const bool may_break = in_rounds(move) || in_post_copy(move);
  if (may_break && move.breaks_at && (!when || *move.breaks_at < *when)) {
    when = move.breaks_at;
  }
  return when;
}

void World::settle(Move& move) const {
  if (carries(move)) {
    const double sent = std::min(move.left, move.rate * seconds(now - move.since));
    move.left -= sent;
    move.transferred += sent;
    if (move.left < kNothing) move.left = 0;
  }
  move.since = now;
}

void World::step(Move& move) {
  settle(move);
  if (in_rounds(move) && move.breaks_at && *move.breaks_at <= now) {
    break_before_switch(move, "the migration's connection was reset");
    return;
  }
  if (in_post_copy(move) && move.breaks_at && *move.breaks_at <= now) {
    starve(move, "the migration's connection was reset");
    return;
  }
  switch (move.stage) {
    case MoveStage::Rounds:
      end_round(move);
      break;
    case MoveStage::Holding:
      go_on_holding(move);
      break;
    case MoveStage::LastRound:
      if (move.round_size > 0) add_round(move, 0);
      move.stage = MoveStage::Closing;
      move.hold_until = now + migration.switch_overhead;
      share_links();
      break;
    case MoveStage::Closing:
      if (move.switch_breaks) {
        break_in_switch(move, *move.switch_breaks, "the connection was lost in the switch");
      } else {
        hand_over(move);
        if (move.post_copy) {
          begin_fetching(move);
          break;
        }
        move.stage = MoveStage::HandingOver;
        move.hold_until = now + migration.handover;
      }
      break;
    case MoveStage::Fetching:
      begin_following(move);
      break;
    case MoveStage::Following:
      end_post_copy(move);
      break;
    case MoveStage::HandingOver: {
      const auto source = move.source;
      const auto vm = move.ticket.vm.id;
      end_move(move.serial, OutgoingPhase::Completed, "");
      remove_copy(source, vm, EndCause::Destroyed);
      break;
    }
  }
}

void World::end_round(Move& move) {
  const Time length = now - move.round_began;
  move.dirty_rate = move.guest->model.dirty_bytes_per_s * move.guest->work.rate;
  const double dirtied = dirtied_in(move);
  add_round(move, dirtied);
  const Sending& sending = move.ticket.sending;
  Milliseconds limit = move.ticket.downtime_limit.value_or(migration.downtime_limit);
  const double on_wire = dirtied * wire_share(move);
  if (const auto& later = sending.later_downtime_limit) {
    limit = risen_limit(limit, *later, static_cast<int>(move.rounds.size()));
    const double room = move.rate * std::chrono::duration<double>(*later).count();
    if (sending.limit_rises_early && move.hovering.limit_rises(on_wire, room)) limit = *later;
  }
  const bool fits = on_wire <= move.rate * std::chrono::duration<double>(limit).count();
  const int rounds = static_cast<int>(move.rounds.size());
  const bool ends = fits || rounds >= migration.max_rounds;
  if (ends && !move.released) {
    move.stage = MoveStage::Holding;
    if (!move.holds_since) move.holds_since = now;
    move.round_began = now;
    move.round_size = 0;
    move.hold_until = now + kHoldingLooks;
    share_links();
  } else if (ends) {
    begin_switch(move, dirtied);
  } else if (sending.strategy == Strategy::Hybrid && rounds >= sending.pre_copy_rounds &&
             move.operation_known) {
    // It is the agent that asks for it: one that was restarted does not know that it should.
    begin_post_copy(move, dirtied);
  } else {
    next_round(move, dirtied, length);
  }
}

/// Sends what was written since the last look, as a round.
void World::go_on_holding(Move& move) {
  // An agent that was restarted since has forgotten it.
  const bool told = move.operation_known;
  if (told && now - *move.holds_since >= kHoldsAtMost) move.released = true;
  const double dirtied = dirtied_in(move);
  move.stage = MoveStage::Rounds;
  next_round(move, dirtied, now - move.round_began);
  share_links();
}

void World::release_move(const HostId& source, const VmId& vm) {
  Move* move = find_move(source, vm);
  if (move == nullptr) return;
  move->released = true;
  if (move->stage == MoveStage::Holding) go_on_holding(*move);
}

void World::next_round(Move& move, double dirtied, Time length) {
  move.round_began = now;
  move.left = move.round_size = dirtied * wire_share(move);
  if (move.rates) {
    move.rates->next_round(bytes(dirtied), micro(length));
    share_links();
  }
  // As QEMU does: not before the second round has shown that it does not converge.
  const Sending& sending = move.ticket.sending;
  if (sending.strategy != Strategy::Throttled || move.rounds.size() < 2) return;
  move.throttle = move.throttle == 0 ? sending.throttle_initial_percent
                                     : move.throttle + sending.throttle_step_percent;
  move.throttle = std::clamp(move.throttle, 1, 99);
  set_pace(*move.guest, 1 - move.throttle / 100.0);
}

void World::begin_switch(Move& move, double size) {
  move.stage = MoveStage::LastRound;
  move.round_began = now;
  move.left = move.round_size = size * wire_share(move);
  move.paused = now;
  move.breaks_at.reset();
  move.guest->pace = 1;
  const auto planned = next_switch.find(move.ticket.vm.id);
  if (planned != next_switch.end()) {
    move.switch_breaks = planned->second;
    next_switch.erase(planned);
  }
  change_copy(move.source, move.ticket.vm.id, Copy::Paused);
  if (move.rates) share_links();  // its limit is lifted
}

/// The destination's copy runs; the source's is still there, paused.
void World::hand_over(Move& move) {
  Arrival& arrival = hosts.at(move.destination).arrivals[move.ticket.vm.id];
  arrival.operation = move.ticket.operation;
  arrival.uuid = move.ticket.vm.uuid;
  arrival.resumed = now;
  if (arrival.announces) arrival.announced = now;
  arrival.downtime = now - move.paused.value_or(now);
  // In post-copy the figures come with the last page.
  arrival.total = move.post_copy ? Time{0} : now - move.began;
  arrival.transferred = move.transferred;
  change_copy(move.destination, move.ticket.vm.id, Copy::Running);
}

void World::end_move(std::uint64_t serial, OutgoingPhase phase, const std::string& error) {
  const auto found = moves.find(serial);
  MARE_ASSERT(found != moves.end());
  Move& move = found->second;
  settle(move);
  set_pace(*move.guest, 1);
  SimHost& source = hosts.at(move.source);
  if (source.up) {
    EndedMove ended{move.ticket.vm.uuid, move_status(move), now};
    ended.status.phase = phase;
    ended.status.error = error;
    if (phase == OutgoingPhase::Completed) ended.status.remaining = Bytes{};
    source.ended[move.ticket.vm.id] = std::move(ended);
  }
  // The log is closed while it is sent.
  if (phase != OutgoingPhase::Completed) move.guest->log_began = now;
  moves.erase(found);
  share_links();
}

OutgoingStatus World::move_status(const Move& move) const {
  Move present = move;
  settle(present);
  OutgoingStatus status;
  status.phase = move.paused ? OutgoingPhase::Switching : OutgoingPhase::PreCopying;
  if (in_post_copy(move)) status.phase = OutgoingPhase::PostCopying;
  status.error = move.trouble;
  if (move.operation_known) status.operation = move.ticket.operation;
  status.rounds = move.rounds;
  status.memory_total = move.guest->spec.memory;
  status.transferred = bytes(present.transferred);
  status.remaining = bytes(present.left + present.pages);
  status.dirty_bytes_per_s = move.dirty_rate;
  status.elapsed = micro(now - move.began);
  if (move.paused) status.paused_at = wall(*move.paused);
  status.holds = move.operation_known && move.holds_since && !move.released && in_rounds(move);
  return status;
}

// --- its early ends

void World::cancel_move(const HostId& source, const VmId& vm) {
  Move* move = find_move(source, vm);
  if (move == nullptr || move->stage == MoveStage::HandingOver || in_post_copy(*move)) return;
  const bool switching = !in_rounds(*move);
  if (switching && !rng.chance(migration.cancel_wins_in_switch)) return;
  const HostId destination = move->destination;
  end_move(move->serial, OutgoingPhase::Cancelled, "cancelled");
  remove_copy(destination, vm, EndCause::Destroyed);
  if (switching) change_copy(source, vm, Copy::Running);
}

void World::break_before_switch(Move& move, const std::string& why) {
  const HostId destination = move.destination;
  const VmId vm = move.ticket.vm.id;
  end_move(move.serial, OutgoingPhase::Failed, why);
  remove_copy(destination, vm, EndCause::Destroyed);
}

void World::break_in_switch(Move& move, BrokenSwitch outcome, const std::string& why) {
  const HostId source = move.source;
  const HostId destination = move.destination;
  const VmId vm = move.ticket.vm.id;
  // Before post-copy the destination has nothing that could run.
  const bool early = move.post_copy && outcome != BrokenSwitch::SourceResumed &&
                     outcome != BrokenSwitch::SourcePaused;
  if (early) outcome = BrokenSwitch::BothWait;
  if (outcome == BrokenSwitch::HandedOver || outcome == BrokenSwitch::CompletedUnsaid) {
    hand_over(move);
  }
  end_move(move.serial, OutgoingPhase::Failed, why);
  switch (outcome) {
    case BrokenSwitch::SourceResumed:
      remove_copy(destination, vm, EndCause::Destroyed);
      change_copy(source, vm, Copy::Running);
      break;
    case BrokenSwitch::SourcePaused:
      remove_copy(destination, vm, EndCause::Destroyed);
      break;
    case BrokenSwitch::BothPaused:
      change_copy(destination, vm, Copy::Paused);
      break;
    case BrokenSwitch::CompletedUnsaid:
      remove_copy(source, vm, EndCause::Destroyed);
      break;
    case BrokenSwitch::BothWait:
    case BrokenSwitch::HandedOver:
      break;
  }
}

void World::break_moves_of(const HostId& host, const std::string& why) {
  std::vector<std::uint64_t> hit;
  for (const auto& [serial, move] : moves) {
    if (move.source == host || move.destination == host) hit.push_back(serial);
  }
  for (const auto serial : hit) {
    const auto found = moves.find(serial);
    if (found == moves.end()) continue;
    Move& move = found->second;
    if (in_rounds(move)) {
      break_before_switch(move, why);
    } else if (in_post_copy(move)) {
      starve(move, why);
    } else if (move.stage != MoveStage::HandingOver) {
      break_in_switch(move, static_cast<BrokenSwitch>(rng.below(kBrokenSwitches)), why);
    } else {
      // The destination runs, but its word of it is lost: the source's copy stays, paused.
      end_move(serial, OutgoingPhase::Failed, why);
    }
  }
}

void World::copy_goes(const HostId& host, const VmId& vm) {
  std::vector<std::uint64_t> hit;
  for (const auto& [serial, move] : moves) {
    if (move.ticket.vm.id == vm && (move.source == host || move.destination == host)) {
      hit.push_back(serial);
    }
  }
  for (const auto serial : hit) {
    Move& move = moves.at(serial);
    if (in_post_copy(move)) {
      lose_pages(move, host);
      continue;
    }
    const MoveStage stage = move.stage;
    const HostId source = move.source;
    const HostId destination = move.destination;
    const bool handed_over = stage == MoveStage::HandingOver;
    if (source == host) {
      end_move(serial, handed_over ? OutgoingPhase::Completed : OutgoingPhase::Failed,
               handed_over ? "" : "the VM ended while it was sent");
      if (!handed_over) remove_copy(destination, vm, EndCause::Destroyed);
      continue;
    }
    end_move(serial, OutgoingPhase::Failed, "the destination's copy went");
    // A hypervisor that learns of it lets the VM go on; one that hears nothing more leaves it
    // paused.
    const bool heard = hosts.at(host).up || rng.chance(0.5);
    const bool stopped = stage == MoveStage::LastRound || stage == MoveStage::Closing;
    if (stopped && heard) change_copy(source, vm, Copy::Running);
  }
}

// --- links

void World::share_links() {
  std::vector<double> capacities;
  std::map<std::pair<HostId, HostId>, std::size_t> index;  // ("h1",""): out of h1; ("","h1"): into
  const auto link = [&](const std::pair<HostId, HostId>& name, double capacity) {
    const auto [entry, added] = index.try_emplace(name, capacities.size());
    if (added) capacities.push_back(capacity);
    return entry->second;
  };
  std::vector<Flow> flows;
  std::vector<Move*> users;
  for (auto& [serial, move] : moves) {
    settle(move);
    move.rate = 0;
    if (!carries(move)) continue;
    Flow flow;
    flow.cap = cap_of(move);
    flow.links.push_back(link({move.source, HostId{}}, hosts.at(move.source).model.uplink.value));
    flow.links.push_back(
        link({HostId{}, move.destination}, hosts.at(move.destination).model.uplink.value));
    const auto pair = std::minmax(move.source, move.destination);
    if (const auto limit = links.find(pair); limit != links.end()) {
      flow.links.push_back(link(pair, limit->second));
    }
    flows.push_back(std::move(flow));
    users.push_back(&move);
  }
  const auto rates = fair_share(capacities, flows);
  for (std::size_t i = 0; i < users.size(); ++i) users[i]->rate = rates[i];
}

}  // namespace mare::sim
