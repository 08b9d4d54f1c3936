#include "hypervisor/dirtylog/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/dirtylog/child.h"

namespace mare::dirtylog {
namespace {

// 192 MiB of RAM as QEMU's map shows it, beside its heap, TCG's code and a guard.
constexpr const char* kMaps =
    "55d0c8a00000-55d0c9e00000 rw-p 00000000 00:00 0                          [heap]\n"
    "7f10a0000000-7f10e0000000 rwxp 00000000 00:00 0 \n"
    "7f10f0000000-7f10f3f00000 rw-p 00000000 00:00 0 \n"
    "7f10f3f00000-7f10f8000000 ---p 00000000 00:00 0 \n"
    "7f1100000000-7f110c000000 rw-p 00000000 00:00 0 \n"
    "7f110c000000-7f110c001000 ---p 00000000 00:00 0 \n"
    "7f1120000000-7f1121000000 rw-s 00000000 00:01 1031  /memfd:pc.ram (deleted)\n"
    "7f1121000000-7f1130000000 rw-s 00001000 00:01 1031  /memfd:pc.ram (deleted)\n"
    "7f1140000000-7f1160000000 rw-s 00000000 fe:01 77    /var/tmp/a file\n"
    "nonsense\n";

TEST(Maps, AreReadAndNonsenseIsLeftOut) {
  const auto maps = parse_maps(kMaps);
  ASSERT_EQ(maps.size(), 9U);
  EXPECT_EQ(maps[0].path, "[heap]");
  EXPECT_EQ(maps[4].start, 0x7f1100000000U);
  EXPECT_EQ(maps[4].size(), mebibytes(192).count);
  EXPECT_EQ(maps[4].permissions, "rw-p");
  EXPECT_EQ(maps[4].path, "");
  EXPECT_EQ(maps[8].path, "/var/tmp/a file");
}

TEST(GuestRam, IsTheMappingOfItsSize) {
  const auto ram = find_guest_ram(parse_maps(kMaps), mebibytes(192));
  ASSERT_TRUE(ram.ok()) << ram.error().text();
  EXPECT_EQ(ram->start, 0x7f1100000000U);
}

TEST(GuestRam, MayBeLargerOrInPieces) {
  const auto larger = find_guest_ram(parse_maps(kMaps), mebibytes(190));
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ(larger->start, 0x7f1100000000U) << "not the executable one, nor the smaller";
  const auto pieces = find_guest_ram(parse_maps(kMaps), mebibytes(256));
  ASSERT_TRUE(pieces.ok());
  EXPECT_EQ(pieces->start, 0x7f1120000000U);
  EXPECT_EQ(pieces->size(), mebibytes(256).count);
}

TEST(GuestRam, OfACloneIsTheOneThatIsUsed) {
  constexpr const char* kClone =
      "7f1100000000-7f110c000000 rw-p 00000000 00:00 0 \n"
      "7f1120000000-7f112c000000 rw-p 00000000 fe:01 77    /state/templates/0a/ram\n"
      "7f1140000000-7f114c000000 rw-p 00000000 fe:01 78    /state/another\n";
  constexpr const char* kSmaps =
      "7f1100000000-7f110c000000 rw-p 00000000 00:00 0 \nSize: 196608 kB\nRss:       0 kB\n"
      "7f1120000000-7f112c000000 rw-p 00000000 fe:01 77    /state/templates/0a/ram\n"
      "Size: 196608 kB\nRss:               29604 kB\nPss: 7 kB\n";
  const auto maps = parse_maps(kClone);
  EXPECT_EQ(resident_in(kSmaps, maps[0]), 0U);
  EXPECT_EQ(resident_in(kSmaps, maps[1]), 29604U * 1024);
  EXPECT_EQ(resident_in(kSmaps, maps[2]), 0U) << "not in the text";
  const auto ram = find_guest_ram(maps, mebibytes(192),
                                  [&](const Mapping& one) { return resident_in(kSmaps, one); });
  ASSERT_TRUE(ram.ok());
  EXPECT_EQ(ram->path, "/state/templates/0a/ram");
  EXPECT_TRUE(ram->is_file());
  const auto before = find_guest_ram({maps[0], maps[1]}, mebibytes(192),
                                     [](const Mapping&) { return std::uint64_t{0}; });
  ASSERT_TRUE(before.ok());
  EXPECT_TRUE(before->is_file()) << "of a clone that has not run yet";
}

TEST(GuestRam, IsNeverAFileOrCode) {
  const auto none = find_guest_ram(parse_maps(kMaps), mebibytes(400));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::NotFound);
}

TEST(Process, KnowsAVcpuByItsNameAndItsTime) {
  test::Child child(mebibytes(1));
  auto process = Process::open(child.pid());
  ASSERT_TRUE(process.ok()) << process.error().text();
  const auto vcpus = process->vcpu_threads();
  ASSERT_EQ(vcpus.size(), 1U);
  const Microseconds before = process->cpu_time(vcpus);
  child.burn(Milliseconds{50});
  const Microseconds used = process->cpu_time(vcpus) - before;
  EXPECT_GE(used, Microseconds{45'000});
  EXPECT_LE(used, Microseconds{500'000});
  EXPECT_GE(process->waiting_time(vcpus), Microseconds{0});
  EXPECT_TRUE(process->lives());
  child.kill();
  EXPECT_FALSE(process->lives());
  EXPECT_EQ(process->maps().error().code, Code::NotFound);
  EXPECT_EQ(process->cpu_time(vcpus), Microseconds{0});
}

TEST(Process, ThatIsNotThereIsNotFound) {
  test::Child child(mebibytes(1));
  const pid_t gone = child.pid();
  child.kill();
  auto process = Process::open(gone);
  ASSERT_FALSE(process.ok());
  EXPECT_EQ(process.error().code, Code::NotFound);
  EXPECT_FALSE(Process::open(-1).ok());
}

}  // namespace
}  // namespace mare::dirtylog
