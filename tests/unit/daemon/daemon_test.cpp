#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "orchestrator/daemon/failpoints.h"
#include "orchestrator/daemon/image_catalog.h"
#include "orchestrator/daemon/options.h"
#include "orchestrator/daemon/state_directory.h"
#include "orchestrator/daemon/thread_pool.h"

namespace mare::daemon {
namespace {

class TempDirectory : public testing::Test {
 protected:
  TempDirectory() {
    std::string pattern = testing::TempDir() + "mare-daemon-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDirectory() override { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name) << text;
  }
  std::string path_;
};

using StateDirectoryTest = TempDirectory;
using CatalogTest = TempDirectory;
using FailpointTest = TempDirectory;

ParsedOptions parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "mared");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

TEST(DaemonOptions, ALeaseOutlastsTwoHeartbeats) {
  const auto usual = parsed({});
  EXPECT_FALSE(usual.exit_code);
  EXPECT_EQ(usual.options.settings.lease, Milliseconds{2000});
  EXPECT_LE(2 * usual.options.settings.heartbeat, usual.options.settings.lease);
  EXPECT_EQ(parsed({"--heartbeat-ms", "5000"}).options.settings.lease, Milliseconds{10'000});
  EXPECT_EQ(parsed({"--lease-ms", "6000"}).options.settings.lease, Milliseconds{6000});
  EXPECT_EQ(parsed({"--heartbeat-ms", "1000", "--lease-ms", "1900"}).exit_code, 2);
}

TEST_F(StateDirectoryTest, ASecondOneIsRefusedAndNamesTheFirst) {
  auto first = StateDirectory::open(path_);
  ASSERT_TRUE(first) << first.error().text();
  auto second = StateDirectory::open(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Conflict);
  EXPECT_NE(second.error().message.find(std::to_string(getpid())), std::string::npos)
      << second.error().message;
}

TEST_F(StateDirectoryTest, TheLockGoesWithItsOwner) {
  { auto first = StateDirectory::open(path_); }
  EXPECT_TRUE(StateDirectory::open(path_));
}

TEST_F(StateDirectoryTest, TheTokenStaysAndIsPrivate) {
  SystemRng rng;
  auto directory = StateDirectory::open(path_);
  ASSERT_TRUE(directory);
  const auto token = directory->token(rng);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->size(), 64U);
  EXPECT_EQ(*directory->token(rng), *token);
  struct stat facts {};
  ASSERT_EQ(stat((path_ + "/token").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
}

TEST_F(StateDirectoryTest, AFileInTheWayIsNamed) {
  write("file", "x");
  const auto opened = StateDirectory::open(path_ + "/file");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(path_ + "/file"), std::string::npos);
}

TEST_F(CatalogTest, FindsTheCurrentAndANamedVersion) {
  write("base/current", "v2\n");
  write("base/v1/manifest.json", R"({"name":"base","kernel_args":"old","min_memory_mib":96})");
  write("base/v2/manifest.json",
        R"({"name":"base","kernel_args":"new","min_memory_mib":128,"packages":["hpcc"],
            "size_bytes":5,"created":"2026-01-02T03:04:05Z"})");
  DirectoryCatalog catalog(path_, "/images");
  const auto current = catalog.find("base", "");
  ASSERT_TRUE(current) << current.error().text();
  EXPECT_EQ(current->version, "v2");
  EXPECT_EQ(current->kernel_args, "new");
  EXPECT_EQ(current->root, "/images/base/v2/root");
  EXPECT_EQ(current->kernel, path_ + "/base/v2/vmlinuz");
  EXPECT_EQ(current->min_memory, mebibytes(128));
  EXPECT_EQ(current->packages, std::vector<std::string>{"hpcc"});
  EXPECT_EQ(format_rfc3339(current->created), "2026-01-02T03:04:05.000000Z");
  EXPECT_EQ(catalog.find("base", "v1")->kernel_args, "old");
  EXPECT_EQ(catalog.list()->size(), 1U);
}

TEST_F(CatalogTest, WhatIsMissingOrBrokenIsNamed) {
  write("base/current", "v1");
  write("base/v1/manifest.json", "{");
  DirectoryCatalog catalog(path_, "/images");
  EXPECT_EQ(catalog.find("base", "").error().code, Code::FailedPrecondition);
  EXPECT_EQ(catalog.find("base", "v9").error().code, Code::NotFound);
  const auto other = catalog.find("other", "");
  EXPECT_EQ(other.error().code, Code::NotFound);
  EXPECT_EQ(other.error().field, "image");
  EXPECT_NE(other.error().remedy.find("mare image build --name other"), std::string::npos);
  EXPECT_EQ(catalog.find("../base", "").error().code, Code::NotFound);
  EXPECT_EQ(catalog.find("", "").error().code, Code::NotFound);
}

TEST_F(FailpointTest, BadTextIsRefused) {
  auto clock = std::make_shared<ManualClock>();
  for (const char* text :
       {"x", "vm.migrate:Planned=jump", "vm.migrate=kill", "a:b=hold:", "a:b=hold:1x"}) {
    EXPECT_FALSE(parse_failpoints(text, path_, clock)) << text;
  }
}

TEST_F(FailpointTest, HoldsOnceAtItsState) {
  auto clock = std::make_shared<ManualClock>();
  auto hook = parse_failpoints("vm.migrate:PreCopying=hold:3000", path_, clock);
  ASSERT_TRUE(hook);
  Operation operation;
  operation.kind = OperationKind::VmMigrate;
  operation.state = "Reserved";
  (*hook)(operation);
  EXPECT_EQ(clock->now().count(), 0);
  operation.state = "PreCopying";
  (*hook)(operation);
  (*hook)(operation);
  EXPECT_EQ(clock->now(), std::chrono::seconds{3});
  EXPECT_TRUE(std::filesystem::exists(path_ + "/failpoint.vm.migrate.PreCopying"));
}

class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(ThreadPoolTest, AHangingLaneLeavesThreadsToOthers) {
  Gate hang;
  Gate others_ran;
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::atomic<int> done{0};
  {
    ThreadPool pool(4, 2, 0);
    for (int i = 0; i < 10; ++i) {
      pool.run("slow", [&] {
        const int now = ++at_once;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        hang.wait();
        --at_once;
        if (++done == 10) others_ran.open();
      });
    }
    Gate fast;
    pool.run("fast", [&] { fast.open(); });
    fast.wait();  // would never return if "slow" had all threads
    hang.open();
    others_ran.wait();
  }
  EXPECT_EQ(done.load(), 10);
  EXPECT_LE(most.load(), 2);
}

TEST(ThreadPoolTest, AHeartbeatDoesNotWaitForGuestsThatBoot) {
  Gate hang;
  Gate beats;
  std::atomic<int> beaten{0};
  ThreadPool pool(2, 3, 1);
  for (int i = 0; i < 20; ++i) pool.run("guest/" + std::to_string(i), [&] { hang.wait(); });
  for (int i = 0; i < 5; ++i) {
    pool.run("beat/h" + std::to_string(i), [&] {
      if (++beaten == 5) beats.open();
    });
  }
  beats.wait();  // would never return if guests had all threads
  hang.open();
}

TEST(ThreadPoolTest, WhatIsNotUrgentLeavesTheThreadsOfWhatIs) {
  Gate hang;
  Gate ran;
  std::atomic<int> hanging{0};
  {
    ThreadPool pool(1, 3, 4);
    for (int i = 0; i < 3; ++i) {
      pool.run("guest/" + std::to_string(i), [&] {
        ++hanging;
        hang.wait();
      });
    }
    pool.run("fence/h1", [&] { ran.open(); });
    ran.wait();
    EXPECT_LE(hanging.load(), 1);
    hang.open();
  }
}

TEST(ThreadPoolTest, ACallWakesNoCrowd) {
  constexpr int kCalls = 200;
  ThreadPool pool(60, 3, 30);
  const auto switches = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
  };
  const auto call = [&pool](const std::string& lane) {
    Gate ran;
    pool.run(lane, [&ran] { ran.open(); });
    ran.wait();
  };
  for (const auto* lane : {"guest/1", "beat/h1"}) {
    for (int i = 0; i < 100; ++i) call(lane);  // all of them have begun, and wait
    const auto before = switches();
    for (int i = 0; i < kCalls; ++i) call(lane);
    EXPECT_LT(switches() - before, 12 * kCalls) << lane << ": 90 threads would be woken by each";
  }
}

}  // namespace
}  // namespace mare::daemon
