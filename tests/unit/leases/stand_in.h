// A process that stands for a VM's: its arguments name a uuid, libvirtd's status file names it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <string>

namespace mare::leases {

inline const std::string kUuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

inline std::string status_text(pid_t pid, const std::string& uuid,
                               const std::string& mark = "urn:mare:vm:1") {
  return "<!-- do not edit -->\n<domstatus state='running' reason='booted' pid='" +
         std::to_string(pid) +
         "'>\n  <monitor path='/m' type='unix'/>\n  <domain type='qemu' id='1'>\n"
         "    <name>p-0</name>\n    <uuid>" +
         uuid + "</uuid>\n    <metadata><mare:vm xmlns:mare=\"" + mark +
         "\" id='p-0'/></metadata>\n  </domain>\n</domstatus>\n";
}

class StandIn {
 public:
  explicit StandIn(const std::string& uuid) {
    if (pipe(pipe_.data()) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_[0], 0);
      close(pipe_[1]);
      execl("/bin/sh", "sh", "-c", "read line", uuid.c_str(), nullptr);
      _exit(127);
    }
    close(pipe_[0]);
    await_arguments(uuid);
  }
  ~StandIn() {
    if (pid_ > 0 && !buried_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(pipe_[1]);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  pid_t pid() const { return pid_; }
  bool lives() {
    if (!buried_) buried_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return !buried_;
  }
  /// The signal that it ends by, however long that takes.
  int await_signal() {
    if (!buried_) buried_ = waitpid(pid_, &status_, 0) == pid_;
    return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  }

 private:
  /// Until exec is through its own name is there, not the new one's.
  void await_arguments(const std::string& uuid) const {
    for (int i = 0; i < 1'000'000; ++i) {
      std::ifstream in("/proc/" + std::to_string(pid_) + "/cmdline");
      std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      if (text.find(uuid) != std::string::npos) return;
    }
    ADD_FAILURE() << "the stand-in did not start";
  }

  std::array<int, 2> pipe_{-1, -1};
  pid_t pid_ = -1;
  int status_ = 0;
  bool buried_ = false;
};

}  // namespace mare::leases
