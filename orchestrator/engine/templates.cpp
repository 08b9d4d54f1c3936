#include "orchestrator/engine/templates.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mare::engine {
namespace {

constexpr auto kLook = std::chrono::milliseconds{500};
constexpr auto kMakeAgain = std::chrono::seconds{10};
constexpr int kAttempts = 30;  // 5 min
constexpr std::size_t kWantedAtOnce = 8;

bool are_same(const TemplateSpec& a, const TemplateSpec& b) {
  return a.kernel == b.kernel && a.initrd == b.initrd && a.kernel_args == b.kernel_args &&
         a.memory == b.memory && a.vcpus == b.vcpus;
}

/// What a boot would meet as well, or what may have been done.
bool is_final(Code code) {
  return code == Code::Unavailable || code == Code::OutcomeUnknown ||
         code == Code::ResourceExhausted || code == Code::AlreadyExists;
}

}  // namespace

WarmStart start_warm(Driver& driver, const StartSpec& spec) {
  WarmStart out{driver.start_clone(spec.vm, spec.from)};
  if (out.done) {
    out.cloned = true;
    return out;
  }
  const Error why = out.done.error();
  if (is_final(why.code)) return out;
  out.no_template = why.code == Code::NotFound;
  out.why_booted = why.message;
  out.done = driver.start(spec.vm);
  return out;
}

WarmStart start_cold(Driver& driver, const StartSpec& spec, const std::string& why) {
  WarmStart out{driver.start(spec.vm)};
  out.why_booted = why;
  return out;
}

bool Templates::trusts(const HostId& host, const TemplateSpec& what) const {
  const auto known = distrusted_.find(host);
  return known == distrusted_.end() ||
         std::none_of(known->second.begin(), known->second.end(),
                      [&](const TemplateSpec& one) { return are_same(one, what); });
}

void Templates::distrust(const HostId& host, const TemplateSpec& what, const std::string& why) {
  if (!trusts(host, what)) return;
  auto& all = distrusted_[host];
  if (all.size() >= kWantedAtOnce) all.pop_front();
  all.push_back(what);
  tell(host, "distrusted", why);
}

void Templates::want(const HostId& host, const TemplateSpec& what) {
  auto& queue = wanted_[host];
  const bool known = std::any_of(queue.begin(), queue.end(),
                                 [&](const Wanted& one) { return are_same(one.what, what); });
  if (known || queue.size() >= kWantedAtOnce) return;
  queue.push_back({what});
  if (queue.size() == 1) ask(host);
}

void Templates::ask(const HostId& host) {
  auto driver = context_.driver_of(host);
  if (!driver) return answered(host, driver.error());
  context_.ports.executor.run("template/" + host.value,
                              [self = weak_from_this(), inbox = context_.inbox, driver = *driver,
                               host, what = wanted_.at(host).front().what] {
                                auto status = driver->make_template(what);
                                inbox->post([self, host, status] {
                                  if (const auto kept = self.lock()) kept->answered(host, status);
                                });
                              });
}

void Templates::answered(const HostId& host, const Result<TemplateStatus>& status) {
  if (status && status->phase == TemplatePhase::Making) {
    context_.after(kLook, [self = shared_from_this(), host] { self->ask(host); });
    return;
  }
  if (status) {
    tell(host, std::string(to_string(status->phase)), status->why);
    return next(host);
  }
  const Code code = status.error().code;
  const bool passes =
      code == Code::Unavailable || code == Code::OutcomeUnknown || code == Code::ResourceExhausted;
  // A host that was removed is not found.
  if (passes && ++wanted_.at(host).front().attempts < kAttempts) {
    context_.after(kMakeAgain, [self = shared_from_this(), host] { self->ask(host); });
    return;
  }
  if (code != Code::Unsupported) tell(host, "failed", status.error().text());
  next(host);
}

void Templates::next(const HostId& host) {
  auto& queue = wanted_.at(host);
  queue.pop_front();
  if (queue.empty()) {
    wanted_.erase(host);
  } else {
    ask(host);
  }
}

void Templates::tell(const HostId& host, const std::string& phase, const std::string& why) {
  const bool ready = phase == to_string(TemplatePhase::Ready);
  context_.ports.log.info("hosts", "template on host '" + host.value + "': " + phase +
                                       (ready ? std::string() : ": " + why));
  const nlohmann::json data{{"phase", phase}, {"why", why}};
  (void)context_.ports.store.write([&](store::Transaction& tx) {
    return emit(tx, context_.ports.clock, "host", host.value, "host.template",
                data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
  context_.changed();
}

}  // namespace mare::engine
