#include "orchestrator/engine/fence_tries.h"

namespace mare::engine {
namespace {
constexpr auto kTryAgain = std::chrono::seconds{5};
// One for all hosts: a rack whose management is dark must not take the threads that heartbeats of
// the others need.
constexpr const char* kLane = "fence/command";
constexpr const char* kWordsBegin = "; fence command: ";
}  // namespace

std::string with_command_words(const std::string& reason, const std::string& words) {
  return reason.substr(0, reason.find(kWordsBegin)) + kWordsBegin + words;
}

void FenceTries::go_on(const Host& host) {
  FenceCommand* command = context_.ports.fence_command;
  if (command == nullptr) return;
  Tries& tries = tries_[host.id];
  if (tries.running) return;
  if (tries.number != host.fences) {
    tries.number = host.fences;
    tries.next = MonotonicTime{0};
  }
  if (context_.ports.clock.now() < tries.next) return;
  tries.running = true;
  tries.wanted = std::make_shared<std::atomic<bool>>(true);
  context_.ports.executor.run(
      kLane, [this, inbox = context_.inbox, command, host, wanted = tries.wanted] {
        Said said;
        if (wanted->load()) {
          said = command->turn_off(FenceOrder{host.id, host.address, host.fences});
        }
        inbox->post([this, host, said = std::move(said)] { ended(host, said); });
      });
}

void FenceTries::stop(const HostId& id) {
  const auto known = tries_.find(id);
  if (known == tries_.end()) return;
  if (!known->second.running) {
    tries_.erase(known);
  } else {
    known->second.wanted->store(false);
  }
}

bool FenceTries::under_way(const HostId& id) const {
  const auto known = tries_.find(id);
  return known != tries_.end() && known->second.running;
}

void FenceTries::ended(const Host& asked, const Said& said) {
  Tries& tries = tries_[asked.id];
  tries.running = false;
  tries.next = context_.ports.clock.now() + kTryAgain;
  if (!said) return;
  auto host =
      query<Host>(context_.ports.store, [&](const store::Reader& r) { return r.host(asked.id); });
  // One that was removed and added again counts its fences from 1 again.
  const bool same = host && host->fence == HostFence::Begun && host->fences == asked.fences &&
                    host->added == asked.added;
  if (same && *said) return is_off_(*host, said->value());
  if (same) return failed(*host, said->error());
  context_.ports.log.info("hosts", "the fence command of host '" + asked.id.value +
                                       "' ended after its fence: " +
                                       (*said ? "the host is off" : said->error().text()));
}

void FenceTries::failed(Host host, const Error& error) {
  context_.ports.log.warn("hosts",
                          "host '" + host.id.value + "' could not be turned off: " + error.text());
  const std::string reason = with_command_words(host.health_reason, error.text());
  if (reason == host.health_reason) return;
  host.health_reason = reason;
  // Only for whoever looks: what is lost here the next try says again.
  (void)context_.ports.store.write(
      [&](store::Transaction& tx) { return put_host(tx, context_.ports.clock, host); });
  context_.changed();
}

}  // namespace mare::engine
