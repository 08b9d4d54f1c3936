// The library that QEMU loads, in a program of that name and in one of another.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "hypervisor/dirtylog/pagemap_scan.h"
#include "hypervisor/dirtylog/process.h"

namespace mare::dirtylog {
namespace {

namespace fs = std::filesystem;

/// A copy of cat(1) under a name of our choice; it waits for its input, and ends with it.
class Program {
 public:
  explicit Program(const std::string& name) {
    std::string path = (fs::temp_directory_path() / "mare-preload-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return;
    directory_ = path;
    const std::string program = (directory_ / name).string();
    fs::copy_file("/bin/cat", program);
    int input[2] = {-1, -1};
    int output[2] = {-1, -1};
    if (pipe(input) != 0 || pipe(output) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    posix_spawn_file_actions_addclose(&actions, input[1]);
    posix_spawn_file_actions_addclose(&actions, output[0]);
    std::string preload = "LD_PRELOAD=" MARE_PRELOAD;
    char* environment[] = {preload.data(), nullptr};
    std::string argument = program;
    char* arguments[] = {argument.data(), nullptr};
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environment) != 0) {
      pid_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    output_ = output[0];
  }
  ~Program() {
    close(input_);
    close(output_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  pid_t pid() const { return pid_; }
  /// It does its work: what it is given comes back, and nothing else was said.
  bool works() const {
    char said[8] = {};
    return ::write(input_, "hello", 5) == 5 && read(output_, said, sizeof said) == 5 &&
           std::string(said) == "hello";
  }

 private:
  fs::path directory_;
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

TEST(Preload, AQemuGetsOneFreshDescriptor) {
  if (const auto works = pagemap_scan_works(); !works) GTEST_SKIP() << works.error().text();
  const Program qemu("qemu-system-test");
  ASSERT_TRUE(qemu.works());
  auto process = Process::open(qemu.pid());
  ASSERT_TRUE(process.ok()) << process.error().text();
  const auto found = process->userfaultfds();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].features, 0U);
  EXPECT_TRUE(process->take(found[0].number).ok());
}

TEST(Preload, WhateverElseInheritsItIsLeftAlone) {
  const Program helper("qemu-bridge-helper");
  ASSERT_TRUE(helper.works());
  auto process = Process::open(helper.pid());
  ASSERT_TRUE(process.ok()) << process.error().text();
  EXPECT_TRUE(process->userfaultfds().empty());
}

}  // namespace
}  // namespace mare::dirtylog
