#include "hypervisor/libvirt/qmp.h"

#include <libvirt/libvirt-qemu.h>

#include <array>
#include <cstdio>

#include "hypervisor/libvirt/handles.h"

namespace mare::libvirt {
namespace {

// Some 0.4 MB: 20 ms. A busy machine and a slow disk have their time.
constexpr auto kWithin = std::chrono::seconds{20};
constexpr auto kLook = std::chrono::milliseconds{2};

Result<std::string> ask_qemu(virDomainPtr domain, const std::string& command) {
  char* raw = nullptr;
  if (virDomainQemuMonitorCommand(domain, command.c_str(), &raw,
                                  VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT) != 0) {
    return last_error("QEMU can't be asked");
  }
  std::string answer = take_text(raw);
  if (answer.find("\"error\"") == std::string::npos) return answer;
  return make_error(Code::Internal, "QEMU refuses " + command + ": " + answer);
}

Status ignore_shared(virDomainPtr domain, bool on) {
  auto done =
      ask_qemu(domain, std::string(R"({"execute":"migrate-set-capabilities","arguments":)") +
                           R"({"capabilities":[{"capability":"x-ignore-shared","state":)" +
                           (on ? "true" : "false") + "}]}}");
  return done ? ok_status() : Status(done.error());
}

Status await_end(virDomainPtr domain, Clock& clock) {
  const MonotonicTime deadline = clock.now() + kWithin;
  while (true) {
    auto answer = ask_qemu(domain, R"({"execute":"query-migrate"})");
    if (!answer) return answer.error();
    const std::string status = migration_status(*answer);
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
  auto begun = ask_qemu(domain, std::string(R"({"execute":")") + command +
                                    R"(","arguments":{"uri":)" + json_text("file:" + path) + "}}");
  const Status ended = begun ? await_end(domain, clock) : Status(begun.error());
  // Left on, it would spoil every migration to come.
  const Status unset = ignore_shared(domain, false);
  return ended ? unset : ended;
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string migration_status(const std::string& answer) {
  constexpr std::string_view kKey = "\"status\":\"";
  const auto at = answer.find(kKey);
  if (at == std::string::npos) return "";
  const auto begin = at + kKey.size();
  return answer.substr(begin, answer.find('"', begin) - begin);
}

Status save_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return transfer(domain, "migrate", path, clock);
}

Status load_devices(virDomainPtr domain, const std::string& path, Clock& clock) {
  return transfer(domain, "migrate-incoming", path, clock);
}

}  // namespace mare::libvirt
