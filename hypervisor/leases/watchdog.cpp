#include "hypervisor/leases/watchdog.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "hypervisor/leases/deadman.h"
#include "hypervisor/leases/enforcer.h"
#include "hypervisor/leases/storage_thread.h"
#include "hypervisor/leases/vm_processes.h"
#include "orchestrator/core/boot_clock.h"
#include "orchestrator/core/fd.h"

namespace mare::leases {
namespace {

/// The record follows the start; and one that was withdrawn may be granted again at once.
constexpr std::chrono::seconds kStaysUnneeded{3};
/// A start that takes longer than this has failed.
constexpr int kLooksForStart = 100;
constexpr std::chrono::milliseconds kLookForStart{20};
constexpr int kTriesForLock = 10;

/// Nothing if another has it.
std::optional<Fd> take_lock(const LeasePlaces& places) {
  Fd file{::open(places.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return file;
}

/// As well as this process may: it must get a CPU when the host has none left, must not wait for a
/// disk that does not answer, and must not be what the kernel ends when memory runs out.
void come_before_others() {
  sched_param first{};
  first.sched_priority = 1;
  (void)::sched_setscheduler(0, SCHED_FIFO, &first);
  (void)::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  std::ofstream("/proc/self/oom_score_adj") << "-1000\n";
}

}  // namespace

bool watchdog_lives(const LeasePlaces& places) {
  return !take_lock(places).has_value();
}

Status start_watchdog(const std::string& program, const LeasePlaces& places) {
  if (watchdog_lives(places)) return ok_status();
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::string directory = places.directory;
  std::string status = places.vm_status_directory;
  std::string deadman = places.deadman;
  std::string name = program;
  const std::array<char*, 5> argv{name.data(), directory.data(), status.data(),
                                  deadman.empty() ? nullptr : deadman.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), nullptr, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  if (failed != 0) {
    return make_error(Code::Unavailable,
                      "can't start the watchdog " + program + ": " + std::strerror(failed),
                      "install mare-watchdog beside mare-agent");
  }
  (void)::waitpid(pid, nullptr, 0);  // at once: what stays is its child
  SystemClock clock;
  for (int i = 0; i < kLooksForStart; ++i) {
    if (watchdog_lives(places)) return ok_status();
    clock.sleep_for(kLookForStart);
  }
  return make_error(Code::Unavailable, "the watchdog " + program + " did not start");
}

int run_watchdog(const LeasePlaces& places, Log& log) {
  BootClock clock;
  auto lock = take_lock(places);
  // Who looks whether one lives has it for a moment.
  for (int i = 1; !lock && i < kTriesForLock; ++i) {
    clock.sleep_for(kLookForStart);
    lock = take_lock(places);
  }
  if (!lock) return 0;  // another does it
  come_before_others();
  const RecordFile file(places.record(), boot_id());
  StorageThread storage;
  const auto deadman = deadman_at(places.deadman, DeadmanVoice::Watchdog, log);
  Enforcer enforcer(
      clock, log,
      {[&] { return file.read(); }, [&] { return end_all_vms(places.vm_status_directory); },
       [&](std::optional<MonotonicTime> until) {
         if (deadman) deadman->say(until);
       }},
      storage);
  MonotonicTime needed = clock.now();
  while (clock.now() - needed < kStaysUnneeded) {
    enforcer.step();
    if (enforcer.enforced()) needed = clock.now();
    clock.sleep_for(kLookEvery);
  }
  if (deadman) deadman->say({});
  return 0;
}

}  // namespace mare::leases
