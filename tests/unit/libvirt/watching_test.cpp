#include "hypervisor/libvirt/watching.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

TEST(PidDirectory, IsBesideTheSocket) {
  EXPECT_EQ(pid_directory("qemu:///system"), "/run/libvirt/qemu");
  EXPECT_EQ(pid_directory("qemu+unix:///system?socket=/a/run/libvirt/libvirt-sock"),
            "/a/run/libvirt/qemu");
  EXPECT_EQ(pid_directory("qemu+unix:///system?mode=legacy&socket=/b/libvirt-sock&x=1"), "/b/qemu");
}

TEST(FindQemu, BelievesAPidFileOnlyIfTheProcessIsTheVms) {
  const TestDirectory directory;
  const VmId vm{"demo-0"};
  const auto write = [&](const std::string& text) {
    std::ofstream(directory.path() + "/demo-0.pid") << text;
  };
  const VmKey foreign{vm, "6f0d3c1e-2a5b-4c7d-8e9f-001122334455"};
  EXPECT_EQ(find_qemu(directory.path(), foreign).error().code, Code::NotFound) << "no file";
  write(std::to_string(getpid()));
  EXPECT_EQ(find_qemu(directory.path(), foreign).error().code, Code::NotFound) << "another process";
  for (const char* nonsense : {"", "x", "-1", "0", "99999999999999"}) {
    write(nonsense);
    EXPECT_FALSE(find_qemu(directory.path(), foreign).ok()) << nonsense;
  }
  // This test's own arguments have its program's name, as a QEMU's have the uuid.
  write(std::to_string(getpid()) + "\n");
  const auto found = find_qemu(directory.path(), {vm, "unit_libvirt"});
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(*found, getpid());
}

TEST(Watching, WithoutItsLibraryItSamplesAndSaysWhy) {
  const TestDirectory directory;
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  const auto none = [](const std::string&) -> Result<VmProcess> {
    return make_error(Code::NotFound, "no VM is here");
  };
  const std::string spaced = directory.path() + "/a b.so";
  std::ofstream(spaced) << "x";
  for (const auto& [library, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "--dirty-log-library"}, {"/none.so", "/none.so"}, {spaced, "a space"}}) {
    const Watching watching(dirtylog::LogChoice::Auto, library, none, clock, log);
    EXPECT_NE(watching.why_not_exact().find(reason), std::string::npos) << watching.why_not_exact();
    EXPECT_EQ(watching.source(), "page-sampling");
    EXPECT_EQ(watching.preload(), "");
  }
}

TEST(Watching, NothingIsWatchedWhereItIsToldSo) {
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  const auto never = [](const std::string&) -> Result<VmProcess> {
    ADD_FAILURE() << "nothing is to be watched";
    return make_error(Code::NotFound, "never");
  };
  Watching watching(dirtylog::LogChoice::None, "/any.so", never, clock, log);
  watching.start();
  watching.watch("uuid");
  EXPECT_EQ(watching.source(), "");
  EXPECT_EQ(watching.preload(), "");
  const auto profile = watching.profile({VmId{"a"}, "uuid"}, {getpid(), mebibytes(1)});
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().code, Code::Unsupported);
  watching.stop();
}

}  // namespace
}  // namespace mare::libvirt
