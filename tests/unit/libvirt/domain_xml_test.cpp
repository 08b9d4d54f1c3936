#include "hypervisor/libvirt/domain_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

VmSpec some_vm() {
  VmSpec vm;
  vm.id = VmId{"demo-0"};
  vm.uuid = "6f0d3c1e-2a5b-4c7d-8e9f-001122334455";
  vm.mac = *MacAddress::parse("52:54:00:4d:01:05");
  vm.memory = mebibytes(192);
  vm.vcpus = 2;
  vm.kernel = "/images/base/1/vmlinuz";
  vm.initrd = "/images/base/1/initrd.img";
  vm.kernel_args = "console=ttyS0 mare.token=\"a<b&c'd\"";
  return vm;
}

DomainOptions options(bool accelerated) {
  return {accelerated, "br0", "/state/console/demo-0.log"};
}

TEST(DomainXml, HoldsWhatTheVmIs) {
  const std::string xml = domain_xml(some_vm(), options(false));
  EXPECT_THAT(xml, HasSubstr("<domain type='qemu'>"));
  EXPECT_THAT(xml, HasSubstr("<name>demo-0</name>"));
  EXPECT_THAT(xml, HasSubstr("<uuid>6f0d3c1e-2a5b-4c7d-8e9f-001122334455</uuid>"));
  EXPECT_THAT(xml, HasSubstr("<memory unit='b'>201326592</memory>"));
  EXPECT_THAT(xml, HasSubstr("<vcpu>2</vcpu>"));
  EXPECT_THAT(xml, HasSubstr("<kernel>/images/base/1/vmlinuz</kernel>"));
  EXPECT_THAT(xml, HasSubstr("<mac address='52:54:00:4d:01:05'/><source bridge='br0'/>"));
  EXPECT_THAT(xml, HasSubstr("urn:mare:vm:1"));
  EXPECT_THAT(xml, Not(HasSubstr("<disk")));
  EXPECT_THAT(xml, Not(HasSubstr("<graphics")));
}

TEST(DomainXml, AnEmulatedGuestIsToldHowFastItsCounterRuns) {
  DomainOptions told = options(false);
  told.tsc_khz = 2596168;
  EXPECT_THAT(domain_xml(some_vm(), told), HasSubstr(" tsc_early_khz=2596168</cmdline>"));
  EXPECT_THAT(domain_xml(some_vm(), options(true)), Not(HasSubstr("tsc_early_khz")));
  told.ram = Ram::Clone;
  EXPECT_THAT(domain_xml(some_vm(), told), Not(HasSubstr("tsc_early_khz"))) << "it has booted";
}

TEST(DomainXml, AVmThatEndsIsNeverRestartedByLibvirt) {
  const std::string xml = domain_xml(some_vm(), options(false));
  EXPECT_THAT(xml, HasSubstr("<on_poweroff>destroy</on_poweroff>"));
  EXPECT_THAT(xml, HasSubstr("<on_reboot>destroy</on_reboot>"));
  EXPECT_THAT(xml, HasSubstr("<on_crash>destroy</on_crash>"));
}

TEST(DomainXml, NothingBreaksOutOfItsPlace) {
  VmSpec vm = some_vm();
  vm.kernel = "/a'/><evil x='\"]]>\x01";
  const std::string xml = domain_xml(vm, {false, "b'r<0", "/c'&\"/x"});
  EXPECT_THAT(xml, HasSubstr("mare.token=&quot;a&lt;b&amp;c&apos;d&quot;"));
  EXPECT_THAT(xml, HasSubstr("<kernel>/a&apos;/&gt;&lt;evil x=&apos;&quot;]]&gt;</kernel>"));
  EXPECT_THAT(xml, HasSubstr("<source bridge='b&apos;r&lt;0'/>"));
  EXPECT_THAT(xml, Not(HasSubstr("<evil")));
  EXPECT_THAT(xml, Not(HasSubstr("\x01")));
}

TEST(DomainXml, KvmTakesTheHostsCpuAndEmulationAPlainOne) {
  EXPECT_THAT(domain_xml(some_vm(), options(true)), HasSubstr("<domain type='kvm'>"));
  EXPECT_THAT(domain_xml(some_vm(), options(true)), HasSubstr("mode='host-model'"));
  EXPECT_THAT(domain_xml(some_vm(), options(false)), HasSubstr("qemu64"));
}

TEST(DomainXml, AnotherHostGetsItsBridgeAndItsConsole) {
  const std::string xml = domain_xml(some_vm(), options(false));
  const std::string there = retarget(xml, "br7", "/else'where/demo-0.log", {});
  EXPECT_EQ(there.find("/state/console"), std::string::npos);
  EXPECT_EQ(there.find("br0"), std::string::npos);
  EXPECT_THAT(there, HasSubstr("<source bridge='br7'/>"));
  EXPECT_THAT(there, HasSubstr("<serial type='file'><source path='/else&apos;where/demo-0.log'"));
  EXPECT_THAT(there, HasSubstr("<console type='file'><source path='/else&apos;where/demo-0.log'"));
  // Nothing else changed, and back again it is the same.
  EXPECT_EQ(retarget(there, "br0", "/state/console/demo-0.log", {}), xml);
}

TEST(DomainXml, WithoutAConsoleThereIsNothingToRetarget) {
  EXPECT_EQ(retarget("<domain/>", "br0", "/c", {"/lib.so"}), "");
  EXPECT_EQ(retarget("", "br0", "/c", {"/lib.so"}), "");
}

TEST(DomainXml, WhatQemuPreloadsIsTheHostsOwn) {
  DomainOptions with = options(false);
  with.preloads.dirty_log = "/here/lib'x.so";
  const std::string here = domain_xml(some_vm(), with);
  EXPECT_THAT(here, HasSubstr("<qemu:env name='LD_PRELOAD' value='/here/lib&apos;x.so'/>"));
  EXPECT_THAT(domain_xml(some_vm(), options(false)), Not(HasSubstr("LD_PRELOAD")));
  const std::string console = "/state/console/demo-0.log";
  const std::string there = retarget(here, "br0", console, {"/there/lib.so"});
  EXPECT_THAT(there, HasSubstr("value='/there/lib.so'/>"));
  EXPECT_THAT(there, Not(HasSubstr("/here/")));
  EXPECT_EQ(retarget(there, "br0", console, {"/here/lib'x.so"}), here);
  // Between a host that watches and one that does not, both ways.
  const std::string bare = domain_xml(some_vm(), options(false));
  EXPECT_EQ(retarget(here, "br0", console, {}), bare);
  EXPECT_EQ(retarget(bare, "br0", console, {"/here/lib'x.so"}), here);
}

TEST(DomainXml, LibvirtsOwnSpellingOfThePreloadIsReplaced) {
  const std::string theirs =
      "<domain type='qemu' id='3' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n"
      "  <console type='file'><source path='/c'/></console>\n  <qemu:commandline>\n"
      "    <qemu:env name='LD_PRELOAD' value='/here/lib.so'/>\n  </qemu:commandline>\n</domain>\n";
  const std::string there = retarget(theirs, "br0", "/c", {"/there/lib.so"});
  EXPECT_THAT(there, Not(HasSubstr("/here/lib.so")));
  EXPECT_THAT(there, HasSubstr("value='/there/lib.so'/></qemu:commandline><qemu:capabilities"));
  EXPECT_THAT(there, EndsWith("</qemu:capabilities></domain>\n"));
}

constexpr const char* kHurried = "<qemu:del capability='cpu-unavailable-features'/>";

TEST(DomainXml, AnEmulatedCpuIsNotAskedForEachOfItsFeatures) {
  EXPECT_THAT(domain_xml(some_vm(), options(false)), HasSubstr(kHurried));
  EXPECT_THAT(domain_xml(some_vm(), options(true)), Not(HasSubstr("qemu:capabilities")));
  for (const bool accelerated : {false, true}) {
    const std::string here = domain_xml(some_vm(), options(accelerated));
    EXPECT_EQ(retarget(here, "br0", "/state/console/demo-0.log", {}), here);
  }
}

TEST(DomainXml, AnOlderMaresVmIsHurriedWhereItArrives) {
  const std::string old =
      "<domain id='3' type='qemu'><console type='file'><source path='/c'/></console></domain>";
  EXPECT_THAT(retarget(old, "br0", "/c", {}), HasSubstr(kHurried));
}

TEST(DomainXml, TextOfFindsTheFirst) {
  EXPECT_EQ(text_of(domain_xml(some_vm(), options(false)), "uuid"), some_vm().uuid);
  EXPECT_EQ(text_of("<a><uuid>x", "uuid"), "");
  EXPECT_EQ(text_of("<a/>", "uuid"), "");
}

TEST(CheckKey, NamesBecomeFilesSoTheyAreChecked) {
  const std::string uuid = some_vm().uuid;
  EXPECT_TRUE(check_key({VmId{"demo-0"}, uuid}).ok());
  EXPECT_TRUE(check_key({VmId{"A.b_c-9"}, uuid}).ok());
  for (const char* bad : {"", ".", "..", "../x", "a/b", "-x", "a b", "a'b"}) {
    EXPECT_EQ(check_key({VmId{bad}, uuid}).error().code, Code::InvalidArgument) << bad;
  }
  EXPECT_FALSE(check_key({VmId{std::string(64, 'a')}, uuid}).ok());
  for (const char* bad :
       {"", "x", "../../../../../../../../../../etc/pass", "6F0D3C1E-2A5B-4C7D-8E9F-001122334455",
        "6f0d3c1e-2a5b-4c7d-8e9f-00112233445", "6f0d3c1e02a5b04c7d08e9f0001122334455"}) {
    EXPECT_EQ(check_key({VmId{"demo-0"}, bad}).error().code, Code::InvalidArgument) << bad;
  }
}

TEST(DomainXml, ATemplatesMemoryIsAFileAndItIsNoVm) {
  DomainOptions with = options(false);
  with.ram = Ram::Template;
  with.ram_file = "/state/a&b/ram";
  with.emulator = "/sbin/mare-qemu";
  const std::string xml = domain_xml(some_vm(), with);
  EXPECT_THAT(xml, HasSubstr("urn:mare:template:1"));
  EXPECT_THAT(xml, Not(HasSubstr("urn:mare:vm:1")));
  EXPECT_THAT(xml, HasSubstr("<kernel>"));
  EXPECT_THAT(xml, HasSubstr("<devices><emulator>/sbin/mare-qemu</emulator>"));
  EXPECT_THAT(xml, HasSubstr("<qemu:env name='MARE_RAM' value='shared:/state/a&amp;b/ram'/>"));
  EXPECT_THAT(xml, Not(HasSubstr("-incoming")));
}

TEST(DomainXml, ACloneMapsThatFileForItselfAndIsToldWhoItIs) {
  DomainOptions with = options(false);
  with.ram = Ram::Clone;
  with.ram_file = "/state/ram";
  with.preloads.dirty_log = "/lib.so";
  with.emulator = "/sbin/mare-qemu";
  const std::string xml = domain_xml(some_vm(), with);
  EXPECT_THAT(xml, HasSubstr("urn:mare:vm:1"));
  EXPECT_THAT(xml, Not(HasSubstr("<kernel>")));
  EXPECT_THAT(xml, HasSubstr("<entry name='opt/mare/line'>console=ttyS0 mare.token="));
  EXPECT_THAT(xml, HasSubstr(" mare.mac=52:54:00:4d:01:05 mare.machine=6f0d3c1e-2a5b-4c7d-8e9f-"
                             "001122334455</entry>"));
  EXPECT_THAT(xml, HasSubstr("<emulator>/sbin/mare-qemu</emulator>"));
  EXPECT_THAT(xml, HasSubstr("<qemu:env name='MARE_RAM' value='private:/state/ram'/>"));
  EXPECT_THAT(xml, HasSubstr("<qemu:arg value='-incoming'/><qemu:arg value='defer'/>"));
  EXPECT_THAT(xml, HasSubstr("LD_PRELOAD"));
}

TEST(DomainXml, ASwitchIsToldItsFile) {
  DomainOptions with = options(false);
  with.preloads = {"/lib/log.so", "/lib/deadman.so", "/run/it's"};
  const std::string here = domain_xml(some_vm(), with);
  EXPECT_THAT(here, HasSubstr("name='LD_PRELOAD' value='/lib/log.so:/lib/deadman.so'/>"));
  EXPECT_THAT(here, HasSubstr("<qemu:env name='MARE_DEADMAN' value='/run/it&apos;s'/>"));
  const std::string console = "/state/console/demo-0.log";
  const std::string there = retarget(here, "br0", console, {"", "/there/deadman.so", "/run/d"});
  EXPECT_THAT(there, HasSubstr("name='LD_PRELOAD' value='/there/deadman.so'/>"));
  EXPECT_THAT(there, Not(HasSubstr("/lib/")));
  EXPECT_THAT(there, Not(HasSubstr("/run/it")));
  EXPECT_THAT(retarget(here, "br0", console, {}), Not(HasSubstr("MARE_DEADMAN")));
}

TEST(DomainXml, ACloneThatMovedIsAVmAsAnyOther) {
  DomainOptions with = options(false);
  with.ram = Ram::Clone;
  with.ram_file = "/state/ram";
  with.emulator = "/sbin/mare-qemu";
  const std::string there =
      retarget(domain_xml(some_vm(), with), "br7", "/there/demo-0.log", {"/there/lib.so"});
  EXPECT_THAT(there, HasSubstr("/there/lib.so"));
  for (const char* gone : {"MARE_RAM", "/state/ram", "emulator", "-incoming"}) {
    EXPECT_THAT(there, Not(HasSubstr(gone)));
  }
  // And on, and back.
  EXPECT_EQ(retarget(there, "br7", "/there/demo-0.log", {"/there/lib.so"}), there);
}

TEST(DomainXml, AVmThatWasBootedGoesOnFromMemoryThatIsMapped) {
  const std::string booted = domain_xml(some_vm(), options(false));
  DomainOptions with = options(false);
  with.bridge = "br7";
  with.console_path = "/there/demo-0.log";
  with.preloads = {"/there/lib.so"};
  with.ram = Ram::Clone;
  with.ram_file = "/shm/uuid/pc.ram";
  with.emulator = "/sbin/mare-qemu";
  const std::string mapped = retarget(booted, with);
  for (const char* there :
       {"<devices><emulator>/sbin/mare-qemu</emulator>", "'private:/shm/uuid/pc.ram'",
        "<qemu:arg value='-incoming'/><qemu:arg value='defer'/>", "/there/lib.so", "bridge='br7'",
        "'/there/demo-0.log'", "<kernel>"}) {
    EXPECT_THAT(mapped, HasSubstr(there));
  }
  // Again, as one that was put back is captured and put back.
  EXPECT_EQ(retarget(mapped, with), mapped);
  // It moves as any other.
  EXPECT_EQ(retarget(mapped, "br0", "/state/console/demo-0.log", {}),
            retarget(booted, "br0", "/state/console/demo-0.log", {}));
}

}  // namespace
}  // namespace mare::libvirt
