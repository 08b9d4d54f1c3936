#include "orchestrator/engine/link_meter.h"

namespace mare::engine {
namespace {

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
        if (!sink) return self->measured(sink.error());
        self->send_burst(*sink);
      });
}

void LinkMeter::send_burst(const IncomingEndpoint& sink) {
  ask<Result<LinkMeasurement>>(
      context_, waiting_.front().pair.first,
      [sink](Driver& driver) { return driver.measure_link(sink); },
      [self = shared_from_this()](Result<LinkMeasurement> link) {
        self->measured(std::move(link));
      });
}

void LinkMeter::measured(Result<LinkMeasurement> link) {
  const Wanted wanted = std::move(waiting_.front());
  waiting_.pop_front();
  busy_ = false;
  if (link) known_[wanted.pair] = {*link, context_.ports.clock.now()};
  wanted.then(std::move(link));
  if (!busy_) next();
}

}  // namespace mare::engine
