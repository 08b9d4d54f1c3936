#include "hypervisor/libvirt/device_state.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "hypervisor/libvirt/monitor.h"

namespace mare::libvirt {
namespace {

// Some 0.4 MB: 20 ms. A busy machine and a slow disk have their time.
constexpr auto kWithin = std::chrono::seconds{20};
constexpr auto kLook = std::chrono::milliseconds{2};

Status ignore_shared(virDomainPtr domain, bool on) {
  auto done =
      ask_monitor(domain, std::string(R"({"execute":"migrate-set-capabilities","arguments":)") +
                              R"({"capabilities":[{"capability":"x-ignore-shared","state":)" +
                              (on ? "true" : "false") + "}]}}");
  return done ? ok_status() : Status(done.error());
}

Status await_end(virDomainPtr domain, Clock& clock) {
  const MonotonicTime deadline = clock.now() + kWithin;
  while (true) {
    auto answer = ask_monitor(domain, R"({"execute":"query-migrate"})");
    if (!answer) return answer.error();
    const std::string status = text_in(*answer, "status");
    if (status == "completed") return ok_status();
    if (status == "failed" || status == "cancelled") {
      return make_error(Code::Internal, "QEMU: " + *answer);
    }
    if (clock.now() > deadline) {
      return make_error(Code::Internal, "QEMU does not come to an end: " + *answer);
    }
    clock.sleep_for(kLook);
  }
}

Status transfer(virDomainPtr domain, const char* command, const std::string& path, Clock& clock) {
  if (auto set = ignore_shared(domain, true); !set) return set;
  const nlohmann::json command_with_path{{"execute", command},
                                         {"arguments", {{"uri", "file:" + path}}}};
  auto begun = ask_monitor(domain, command_with_path.dump());
  const Status ended = begun ? await_end(domain, clock) : Status(begun.error());
  // Left on, it would spoil every migration to come.
  const Status unset = ignore_shared(domain, false);
  return ended ? unset : ended;
}

}  // namespace

Status save_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return transfer(domain, "migrate", path, clock);
}

Status load_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return transfer(domain, "migrate-incoming", path, clock);
}

}  // namespace mare::libvirt
