#include "hypervisor/libvirt/emulator_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "orchestrator/core/fd.h"

namespace mare::libvirt {
namespace {

// The first one brings its files into memory. A host where agents begin is seldom quiet: three of
// them on two CPUs had 198 ms for the quickest of five, where eight alone took 110 to 170. So
// others follow, of which some will meet a quiet moment.
constexpr int kAtOnce = 5;
constexpr int kSoon = 15;
constexpr std::string_view kQuit = "quit\n";

Error failed(const std::string& emulator, const std::string& how) {
  return make_error(Code::Unavailable, "can't time a start of " + emulator + ": " + how);
}

/// Its monitor reads `input`; what it says goes nowhere. Or why it could not be started.
Result<pid_t> spawn(const std::string& emulator, bool accelerated, int input) {
  std::array<std::string, 13> words{emulator,
                                    "-name",
                                    "mare-start",
                                    "-machine",
                                    accelerated ? "q35,accel=kvm" : "q35,accel=tcg",
                                    "-nodefaults",
                                    "-display",
                                    "none",
                                    "-S",
                                    "-m",
                                    "64",
                                    "-monitor",
                                    "stdio"};
  std::array<char*, words.size() + 1> argv{};
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, emulator.c_str(), &files, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return failed(emulator, std::strerror(error));
  return pid;
}

/// Its exit status; none: it was killed after `patience`, or by somebody else.
std::optional<int> status_of(pid_t pid, Milliseconds patience) {
  const Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  pollfd ends{handle.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&ends, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) (void)::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
}

}  // namespace

Result<Microseconds> time_start(const std::string& emulator, bool accelerated, const Clock& clock,
                                Milliseconds patience) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(emulator, std::strerror(errno));
  const Fd input{ends[0]};
  Fd order{ends[1]};
  // It is there before anybody reads; a pipe holds more than that.
  if (::write(order.get(), kQuit.data(), kQuit.size()) < 0) {
    return failed(emulator, std::strerror(errno));
  }
  const auto began = clock.now();
  const auto pid = spawn(emulator, accelerated, input.get());
  if (!pid) return pid.error();
  const auto status = status_of(*pid, patience);
  const auto took = clock.now() - began;
  if (!status)
    return failed(emulator, "it did not end in " + std::to_string(patience.count()) + " ms");
  if (*status != 0) return failed(emulator, "exit status " + std::to_string(*status));
  return std::chrono::duration_cast<Microseconds>(took);
}

EmulatorStart::~EmulatorStart() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// False if it is to end.
bool EmulatorStart::waits(Milliseconds span) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, span, [this] { return stopping_; });
}

/// False if it can't.
bool EmulatorStart::times(const std::string& emulator, bool accelerated, const Clock& clock,
                          Log& log) {
  const auto took = time_start(emulator, accelerated, clock);
  if (!took) {
    log.warn("libvirt", took.error().text() + "; forecasts go by what is known, or usual");
    return false;
  }
  const auto known = quickest_us_.load();
  if (known == 0 || took->count() < known) quickest_us_ = took->count();
  return true;
}

void EmulatorStart::begin(const std::string& emulator, bool accelerated, const Clock& clock,
                          Log& log, std::function<bool()> moves_nothing) {
  if (emulator.empty()) return;  // libvirt knows none
  thread_ = std::thread([this, emulator, accelerated, &clock, &log, moves_nothing] {
    bool goes_on = true;
    for (int i = 1; goes_on; ++i) {
      // It would take a CPU from a move.
      if (i == 1 || moves_nothing()) goes_on = times(emulator, accelerated, clock, log);
      const Milliseconds pause = i < kAtOnce           ? Milliseconds{0}
                                 : i < kAtOnce + kSoon ? pace_.soon
                                                       : pace_.later;
      goes_on = goes_on && waits(pause);
    }
  });
}

}  // namespace mare::libvirt
