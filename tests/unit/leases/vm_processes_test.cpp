#include "hypervisor/leases/vm_processes.h"

#include <gtest/gtest.h>

#include "tests/unit/leases/scratch.h"
#include "tests/unit/leases/stand_in.h"

namespace mare::leases {
namespace {

const std::string kOther = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(VmProcesses, AreReadFromLibvirtsStatus) {
  EXPECT_EQ(process_in(status_text(4711, kUuid)), (VmProcess{4711, kUuid}));
  EXPECT_EQ(process_in(status_text(4711, kUuid, "urn:other:1")), std::nullopt) << "not ours";
  EXPECT_EQ(process_in(status_text(0, kUuid)), std::nullopt);
  EXPECT_EQ(process_in(status_text(1, kUuid)), std::nullopt);
  EXPECT_EQ(process_in(status_text(4711, "")), std::nullopt);
  EXPECT_EQ(process_in(""), std::nullopt);
  const std::string whole = status_text(4711, kUuid);
  for (std::size_t i = 0; i < whole.find("</metadata>") - 30; ++i) {
    EXPECT_EQ(process_in(whole.substr(0, i)), std::nullopt) << "half written, to " << i;
  }
}

TEST(VmProcesses, AllOfOursEndAndNoOthers) {
  const Scratch scratch;
  StandIn ours(kUuid);
  StandIn foreign(kOther);
  StandIn reused(kOther);
  write_text(scratch.path("p-0.xml"), status_text(ours.pid(), kUuid));
  write_text(scratch.path("x.xml"), status_text(foreign.pid(), kOther, "urn:other:1"));
  // Its pid has become another program's.
  write_text(scratch.path("p-1.xml"), status_text(reused.pid(), kUuid));
  EXPECT_TRUE(can_end_vms(scratch.directory()));
  EXPECT_EQ(end_all_vms(scratch.directory()), 1);
  EXPECT_EQ(ours.await_signal(), SIGKILL);
  EXPECT_TRUE(foreign.lives());
  EXPECT_TRUE(reused.lives());
  EXPECT_EQ(end_all_vms(scratch.directory()), 0) << "there is none any more";
}

TEST(VmProcesses, AStandingOneEndsToo) {
  const Scratch scratch;
  StandIn frozen(kUuid);
  write_text(scratch.path("p-0.xml"), status_text(frozen.pid(), kUuid));
  ASSERT_EQ(kill(frozen.pid(), SIGSTOP), 0);
  EXPECT_EQ(end_all_vms(scratch.directory()), 1);
  EXPECT_EQ(frozen.await_signal(), SIGKILL);
}

TEST(VmProcesses, NoStatusFilesAreAnError) {
  EXPECT_EQ(can_end_vms("/nowhere").error().code, Code::Unavailable);
  EXPECT_EQ(end_all_vms("/nowhere"), 0);
}

}  // namespace
}  // namespace mare::leases
