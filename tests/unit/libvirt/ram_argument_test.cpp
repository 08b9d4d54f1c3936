#include "hypervisor/libvirt/emulator/ram_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRam = R"({"qom-type":"memory-backend-ram","id":"pc.ram","size":201326592,)"
                             R"("x-use-canonical-path-for-ramblock-id":false})";

std::vector<std::string> line(const std::string& object) {
  return {"qemu", "-machine", "q35,memory-backend=pc.ram", "-object", object, "-m", "192"};
}

TEST(RamArgument, SaysWhatItReads) {
  for (const RamFile& file : {RamFile{true, "/a b/ram"}, RamFile{false, "/x:y"}}) {
    auto read = ram_file_from(to_text(file));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->shared, file.shared);
    EXPECT_EQ(read->path, file.path);
  }
  for (const char* bad : {"", "shared:", "private:ram", "both:/ram", "/ram"}) {
    EXPECT_EQ(ram_file_from(bad).error().code, Code::InvalidArgument) << bad;
  }
}

TEST(RamArgument, ACloneMapsTheFileWithoutTheRightToWriteIt) {
  auto changed = with_ram_file(line(kRam), {false, "/state/\"r\""});
  ASSERT_TRUE(changed.ok());
  ASSERT_EQ(changed->size(), 7U);
  EXPECT_EQ((*changed)[2], "q35,memory-backend=pc.ram");
  const std::string& object = (*changed)[4];
  for (const char* part :
       {R"("qom-type":"memory-backend-file")", R"("id":"pc.ram")", R"("size":201326592)",
        R"("mem-path":"/state/\"r\"")", R"("share":false)", R"("readonly":true)", R"("rom":"off")",
        R"("x-use-canonical-path-for-ramblock-id":false)"}) {
    EXPECT_THAT(object, HasSubstr(part));
  }
}

TEST(RamArgument, ATemplateWritesTheFile) {
  auto changed = with_ram_file(line(kRam), {true, "/ram"});
  ASSERT_TRUE(changed.ok());
  EXPECT_THAT((*changed)[4], HasSubstr(R"("share":true)"));
  EXPECT_EQ((*changed)[4].find("readonly"), std::string::npos);
}

TEST(RamArgument, ACommandLineOfAnotherKindIsRefused) {
  const std::string other = R"({"qom-type":"memory-backend-file","id":"pc.ram"})";
  for (const char* object : {"memory-backend-ram,id=pc.ram,size=1", other.c_str(), "[]", "",
                             R"({"qom-type":"rng-random","id":"objrng0"})"}) {
    EXPECT_EQ(with_ram_file(line(object), {false, "/ram"}).error().code, Code::FailedPrecondition)
        << object;
  }
  auto twice = line(kRam);
  twice.insert(twice.end(), {"-object", kRam});
  EXPECT_FALSE(with_ram_file(twice, {false, "/ram"}).ok());
}

}  // namespace
}  // namespace mare::libvirt
