// The driver against libvirt's own test driver and against nothing at all; real domains are the
// contract's.
#include "hypervisor/libvirt/libvirt_driver.h"

#include <gtest/gtest.h>

#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

class NoAnnouncer final : public Announcer {
 public:
  Result<WallTime> announce(const MacAddress&, Ipv4Address) override { return WallTime{1}; }
  Status announce_once(const MacAddress&, Ipv4Address) override { return ok_status(); }
  int frames_sent(const MacAddress&) const override { return 0; }
};

class LibvirtDriverTest : public testing::Test {
 protected:
  LibvirtDriverTest() : log_(clock_, LogLevel::Error) {
    options_.host_name = "h1";
    options_.uri = "test:///default";
    options_.migration_address = "192.0.2.1";
    options_.memory = mebibytes(4096);
    options_.state_dir = directory_.path();
  }
  Result<std::unique_ptr<Driver>> make() { return make_driver(options_, announcer_, clock_, log_); }

  TestDirectory directory_;
  SystemClock clock_;
  Log log_;
  NoAnnouncer announcer_;
  LibvirtOptions options_;
};

TEST_F(LibvirtDriverTest, NoLibvirtdIsUnavailableAndSaysWhere) {
  options_.uri = "qemu+unix:///system?socket=" + directory_.path() + "/none";
  auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::Unavailable);
  EXPECT_NE(made.error().message.find(options_.uri), std::string::npos);
  EXPECT_FALSE(made.error().remedy.empty());
}

TEST_F(LibvirtDriverTest, AStateDirectoryThatCannotBeIsNamed) {
  options_.state_dir = "/proc/none";
  auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("/proc/none"), std::string::npos);
}

TEST_F(LibvirtDriverTest, TheTestDriversOwnDomainIsForeign) {
  auto made = make();
  ASSERT_TRUE(made.ok()) << made.error().text();
  auto all = (*made)->list();
  ASSERT_TRUE(all.ok()) << all.error().text();
  EXPECT_TRUE(all->empty());
  // It is called "test", and its name is taken.
  VmSpec vm;
  vm.id = VmId{"test"};
  vm.uuid = "00000000-2a5b-4c7d-8e9f-001122334455";
  vm.memory = mebibytes(64);
  auto started = (*made)->start(vm);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, Code::AlreadyExists) << started.error().text();
}

TEST_F(LibvirtDriverTest, NamesThatCannotBeAreRefusedBeforeAnythingIsDone) {
  auto made = make();
  ASSERT_TRUE(made.ok()) << made.error().text();
  VmSpec vm;
  vm.id = VmId{"../evil"};
  vm.uuid = "00000000-2a5b-4c7d-8e9f-001122334455";
  EXPECT_EQ((*made)->start(vm).error().code, Code::InvalidArgument);
  vm.id = VmId{"good"};
  vm.uuid = "../../evil";
  EXPECT_EQ((*made)->start(vm).error().code, Code::InvalidArgument);
  EXPECT_EQ((*made)->prepare_incoming({OperationId{"op-1"}, vm, {}, {}, {}}).error().code,
            Code::InvalidArgument);
  auto seen = (*made)->observe(vm.key());
  ASSERT_TRUE(seen.ok()) << seen.error().text();
  EXPECT_EQ(seen->copy, Copy::Absent);
}

}  // namespace
}  // namespace mare::libvirt
