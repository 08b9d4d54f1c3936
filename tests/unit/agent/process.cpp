#include "tests/unit/agent/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace mare::agent::test {

Process::Process(const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  out_ = ends[0];
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> words;
  for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  EXPECT_EQ(::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
}

Process::~Process() {
  if (pid_ > 0 && !exit_) {
    signal(SIGKILL);
    wait_exit();
  }
  ::close(out_);
}

void Process::signal(int number) const {
  if (pid_ > 0 && !exit_) ::kill(pid_, number);
}

void Process::stop() const {
  signal(SIGSTOP);
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

std::optional<std::string> Process::next_line(int limit_ms) {
  while (true) {
    const auto end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{out_, POLLIN, 0};
    if (::poll(&waiting, 1, limit_ms) != 1) return std::nullopt;
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(out_, buffer.data(), buffer.size());
    if (got <= 0) return std::nullopt;
    pending_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::string Process::wait_for_line(const std::string& text, int limit_ms) {
  while (auto line = next_line(limit_ms)) {
    if (line->find(text) != std::string::npos) return *line;
  }
  return "";
}

std::string Process::read_all() {
  std::string all;
  while (auto line = next_line(20'000)) all += *line + "\n";
  return all;
}

int Process::wait_exit() {
  if (exit_) return *exit_;
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *exit_;
}

}  // namespace mare::agent::test
