#include "orchestrator/engine/link_meter.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mare::engine {
namespace {

constexpr std::size_t kMostBursts = 3;
// Of 47 bursts over a link of 100 Mbit/s with a job's messages on it, 42 were within 0.1% of each
// other, one was 10% lower, the move after it 2%.
constexpr double kAlike = 0.01;

// So long it is believed to be as fast as it was seen to be.
constexpr std::chrono::minutes kMostHolds{30};

bool agree(const LinkMeasurement& one, const LinkMeasurement& other) {
  const double more = std::max(one.goodput.value, other.goodput.value);
  return std::abs(one.goodput.value - other.goodput.value) <= kAlike * more;
}

LinkMeasurement middle(std::vector<LinkMeasurement> bursts) {
  const auto at = bursts.begin() + static_cast<std::ptrdiff_t>(bursts.size() / 2);
  std::nth_element(bursts.begin(), at, bursts.end(), [](const auto& one, const auto& other) {
    return one.goodput.value < other.goodput.value;
  });
  return *at;
}

/// Runs a call of a host's driver on the executor and answers on the engine's thread.
template <typename R>
void ask(Context& context, const HostId& host, std::function<R(Driver&)> work,
         std::function<void(R)> then) {
  auto driver = context.driver_of(host);
  if (!driver) {
    context.inbox->post([then, error = driver.error()] { then(R(error)); });
    return;
  }
  context.ports.executor.run(
      "host/" + host.value,
      [inbox = context.inbox, driver = *driver, work = std::move(work), then = std::move(then)] {
        inbox->post([then, answer = work(*driver)] { then(answer); });
      });
}

}  // namespace

void LinkMeter::measure(const HostId& from, const HostId& to, std::chrono::nanoseconds oldest,
                        Then then) {
  waiting_.push_back({{from, to}, oldest, context_.ports.clock.now(), std::move(then)});
  if (!busy_) next();
}

std::optional<LinkMeasurement> LinkMeter::known(const Wanted& wanted) const {
  const auto found = known_.find(wanted.pair);
  if (found == known_.end() || found->second.at < wanted.asked - wanted.oldest) {
    return std::nullopt;
  }
  return found->second.link;
}

void LinkMeter::next() {
  while (!waiting_.empty()) {
    // Measured meanwhile, for somebody who asked before: fresh enough for everybody.
    const auto link = known(waiting_.front());
    if (!link) {
      busy_ = true;
      return open_sink();
    }
    const Then then = std::move(waiting_.front().then);
    waiting_.pop_front();
    then(*link);
  }
}

void LinkMeter::open_sink() {
  const Wanted& wanted = waiting_.front();
  ask<Result<IncomingEndpoint>>(
      context_, wanted.pair.second, [](Driver& driver) { return driver.open_link_sink(); },
      [self = shared_from_this()](Result<IncomingEndpoint> sink) {
        if (!sink) return self->burst_over(sink.error());
        self->send_burst(*sink);
      });
}

void LinkMeter::send_burst(const IncomingEndpoint& sink) {
  ask<Result<LinkMeasurement>>(
      context_, waiting_.front().pair.first,
      [sink](Driver& driver) { return driver.measure_link(sink); },
      [self = shared_from_this()](const Result<LinkMeasurement>& link) { self->burst_over(link); });
}

void LinkMeter::burst_over(const Result<LinkMeasurement>& link) {
  if (link) bursts_.push_back(*link);
  if (bursts_.empty()) return measured(link);
  const bool sure = confirmed();
  if (link && !sure && bursts_.size() < kMostBursts) return open_sink();
  const BytesPerSecond most = most_of_bursts();
  auto bursts = std::exchange(bursts_, {});
  measured(sure ? bursts.back() : middle(std::move(bursts)), most);
}

BytesPerSecond LinkMeter::most_of_bursts() const {
  BytesPerSecond out{};
  for (const auto& burst : bursts_) out.value = std::max(out.value, burst.goodput.value);
  return out;
}

/// Nothing is known of the link yet, or the last burst agrees with what is, or with one before it.
bool LinkMeter::confirmed() const {
  const LinkMeasurement& last = bursts_.back();
  const auto before = known_.find(waiting_.front().pair);
  if (before == known_.end() || agree(last, before->second.link)) return true;
  return std::any_of(bursts_.begin(), std::prev(bursts_.end()),
                     [&](const auto& one) { return agree(one, last); });
}

void LinkMeter::keep(const Pair& pair, LinkMeasurement& link, BytesPerSecond most) {
  const MonotonicTime now = context_.ports.clock.now();
  Known& known = known_[pair];
  const bool holds = now - known.most_at < kMostHolds && known.most.value > most.value &&
                     may_be_one_link(known.most, link.goodput);
  if (!holds) {
    known.most = most;
    known.most_at = now;
  }
  link.unshared = known.most;
  known.link = link;
  known.at = now;
}

void LinkMeter::measured(Result<LinkMeasurement> link, BytesPerSecond most) {
  const Wanted wanted = std::move(waiting_.front());
  waiting_.pop_front();
  busy_ = false;
  if (link) keep(wanted.pair, *link, most);
  wanted.then(std::move(link));
  if (!busy_) next();
}

}  // namespace mare::engine
