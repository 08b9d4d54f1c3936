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

Status begin(virDomainPtr domain, const char* command, const std::string& uri, Clock& clock) {
  const nlohmann::json whole{{"execute", command}, {"arguments", {{"uri", uri}}}};
  auto begun = ask_monitor(domain, whole.dump());
  return begun ? await_end(domain, clock) : Status(begun.error());
}

Status without_ram(virDomainPtr domain, const char* command, const std::string& path,
                   Clock& clock) {
  if (auto set = ignore_shared(domain, true); !set) return set;
  const Status ended = begin(domain, command, "file:" + path, clock);
  // Left on, it would spoil every migration to come.
  const Status unset = ignore_shared(domain, false);
  return ended ? unset : ended;
}

}  // namespace

Status save_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return without_ram(domain, "migrate", path, clock);
}

Status load_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return without_ram(domain, "migrate-incoming", path, clock);
}

Status load_stream(virDomainPtr domain, const std::string& path, std::uint64_t from, Clock& clock) {
  return begin(domain, "migrate-incoming", "file:" + path + ",offset=" + std::to_string(from),
               clock);
}

}  // namespace mare::libvirt
