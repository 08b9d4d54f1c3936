#include "orchestrator/daemon/fence_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "orchestrator/core/fd.h"

namespace mare::daemon {
namespace {

// One line of a log and of a host's reason.
constexpr std::size_t kMostWords = 300;
// Read at once; and in all after the end, where a child that was left behind may write for ever.
constexpr std::size_t kChunk = 4096;
constexpr int kChunksAfterEnd = 16;
// For a killed process to be gone. One that waits for a device is left to itself.
constexpr int kPatienceAfterKill_ms = 2000;
constexpr int kFirstOther = 3;  // after stdin, stdout and stderr

Error not_run(const std::string& program, int number) {
  return make_error(Code::Unavailable,
                    "fence command '" + program + "' can't be run: " + std::strerror(number),
                    "see mared --fence-command");
}

/// What was written last, as one line of printable ASCII.
class LastWords {
 public:
  /// False at the end of what can be read now, and for good when `fd` was closed by all writers.
  bool read_some(const Fd& fd) {
    std::array<char, kChunk> chunk{};
    const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
    if (got <= 0) {
      at_end_ = got == 0;
      return false;
    }
    for (ssize_t i = 0; i < got; ++i) add(chunk[static_cast<std::size_t>(i)]);
    if (text_.size() > 2 * kMostWords) text_.erase(0, text_.size() - kMostWords - 1);
    return true;
  }
  bool at_end() const { return at_end_; }
  std::string text() const {
    std::string out = text_;
    if (!out.empty() && out.back() == ' ') out.pop_back();
    if (out.size() > kMostWords) out.erase(0, out.size() - kMostWords);
    return out;
  }

 private:
  void add(char c) {
    const auto code = static_cast<unsigned char>(c);
    if (code <= ' ' || code == 0x7f) {
      if (!text_.empty() && text_.back() != ' ') text_ += ' ';
    } else {
      text_ += code < 0x7f ? c : '?';
    }
  }
  std::string text_;
  bool at_end_ = false;
};

/// What posix_spawn is told besides program and arguments.
class SpawnOrders {
 public:
  explicit SpawnOrders(const Fd& output) {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    // mared blocks the signals that end it and ignores SIGPIPE; the program must do neither.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&actions_, output.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output.get(), STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // It may outlive mared, and must not hold the lock on the state directory then.
    posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstOther);
  }
  ~SpawnOrders() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnOrders(const SpawnOrders&) = delete;
  SpawnOrders& operator=(const SpawnOrders&) = delete;
  const posix_spawnattr_t* attributes() const { return &attributes_; }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

std::vector<std::string> environment_for(const engine::FenceOrder& order) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name != "MARE_HOST" && name != "MARE_HOST_ADDRESS" && name != "MARE_FENCE_NUMBER") {
      out.push_back(text);
    }
  }
  out.push_back("MARE_HOST=" + order.host.value);
  out.push_back("MARE_HOST_ADDRESS=" + order.address);
  out.push_back("MARE_FENCE_NUMBER=" + std::to_string(order.number));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// Its pid; the errno of whatever failed.
Result<pid_t> spawn(const std::string& program, const engine::FenceOrder& order, const Fd& output) {
  std::vector<std::string> words{program, order.host.value};
  auto environment = environment_for(order);
  auto argv = pointers_to(words);
  auto envp = pointers_to(environment);
  const SpawnOrders orders(output);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), orders.actions(), orders.attributes(),
                                   argv.data(), envp.data());
  if (failed != 0) return not_run(program, failed);
  return pid;
}

void drain(const Fd& output, LastWords& words) {
  for (int i = 0; i < kChunksAfterEnd && words.read_some(output); ++i) {
  }
}

/// Reads along until it has ended; false when `deadline` came first.
bool wait_for_end(const Fd& process, const Fd& output, const Clock& clock, MonotonicTime deadline,
                  LastWords& words) {
  while (true) {
    const MonotonicTime now = clock.now();
    if (now >= deadline) return false;
    const auto left = std::chrono::ceil<Milliseconds>(deadline - now).count();
    std::array<pollfd, 2> seen{pollfd{process.get(), POLLIN, 0},
                               pollfd{words.at_end() ? -1 : output.get(), POLLIN, 0}};
    if (::poll(seen.data(), seen.size(), static_cast<int>(left)) < 0 && errno != EINTR) {
      return false;
    }
    if (seen[1].revents != 0) (void)words.read_some(output);
    if ((seen[0].revents & POLLIN) == 0) continue;
    drain(output, words);
    return true;
  }
}

/// The whole group: a script waits for the program that it called.
void kill_group(pid_t leader, const Fd& process) {
  // Not waited for yet, so that the number is still its.
  (void)::kill(-leader, SIGKILL);
  pollfd gone{process.get(), POLLIN, 0};
  while (::poll(&gone, 1, kPatienceAfterKill_ms) < 0 && errno == EINTR) {
  }
  (void)::waitpid(leader, nullptr, WNOHANG);
}

std::string with_words(const std::string& what, const LastWords& words) {
  const std::string text = words.text();
  return what + (text.empty() ? ", without a word" : ": " + text);
}

}  // namespace

std::string check_fence_command(const std::string& program) {
  std::error_code failed;
  const auto status = std::filesystem::status(program, failed);
  if (!std::filesystem::exists(status)) {
    return "'" + program + "' does not exist; give the path of a program that turns a host off";
  }
  if (!std::filesystem::is_regular_file(status)) {
    return "'" + program + "' is no file; give the path of a program that turns a host off";
  }
  if (::access(program.c_str(), X_OK) != 0) {
    return "'" + program + "' can't be executed by this user; 'chmod +x' it";
  }
  return "";
}

Result<std::string> ProgramFenceCommand::turn_off(const engine::FenceOrder& order) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return not_run(program_, errno);
  const Fd output{ends[0]};
  Fd input{ends[1]};
  (void)::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  const MonotonicTime deadline = clock_.now() + timeout_;
  auto pid = spawn(program_, order, input);
  input = Fd{};
  if (!pid) return pid.error();
  const Fd process{static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0))};
  if (!process) {
    const int number = errno;
    kill_group(*pid, process);
    return not_run(program_, number);
  }
  LastWords words;
  if (!wait_for_end(process, output, clock_, deadline, words)) {
    kill_group(*pid, process);
    drain(output, words);
    return make_error(Code::Unavailable,
                      with_words("the fence command has not ended after " +
                                     std::to_string(timeout_.count()) + " ms and was killed",
                                 words));
  }
  int status = 0;
  if (::waitpid(*pid, &status, 0) != *pid) return not_run(program_, errno);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return words.text();
  const std::string how = WIFEXITED(status)
                              ? "ended with status " + std::to_string(WEXITSTATUS(status))
                              : "was ended by signal " + std::to_string(WTERMSIG(status));
  return make_error(Code::Unavailable, with_words("the fence command " + how, words));
}

}  // namespace mare::daemon
