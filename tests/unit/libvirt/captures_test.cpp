// What is pure or only files of captures; the rest needs a QEMU.
#include "hypervisor/libvirt/captures.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hypervisor/libvirt/capabilities.h"
#include "hypervisor/libvirt/monitor.h"
#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(SendPhase, TheStateIsTakenWhenThePagesBeginToGo) {
  const auto reply = [](const std::string& rest) {
    return R"({"return":{"status":")" + rest + R"(,"id":"libvirt-9"})";
  };
  EXPECT_EQ(send_phase(R"({"return":{},"id":"libvirt-9"})"), SendPhase::Preparing);
  EXPECT_EQ(send_phase(reply(R"(setup"})")), SendPhase::Preparing);
  EXPECT_EQ(send_phase(reply(R"(active","ram":{"duplicate":0,"normal":0,"normal-bytes":0}})")),
            SendPhase::Preparing)
      << "memory may not be write-protected yet";
  EXPECT_EQ(send_phase(reply(R"(active","ram":{"duplicate":3,"normal":0,"normal-bytes":0}})")),
            SendPhase::Sending);
  EXPECT_EQ(send_phase(reply(R"(active","ram":{"duplicate":0,"normal":1,"normal-bytes":4096}})")),
            SendPhase::Sending);
  EXPECT_EQ(send_phase(reply(R"(completed","ram":{"duplicate":3,"normal":7}})")), SendPhase::Sent);
  EXPECT_EQ(send_phase(reply(R"(failed","error-desc":"No space"})")), SendPhase::Broken);
  EXPECT_EQ(send_phase(reply(R"(cancelled"})")), SendPhase::Broken);
}

TEST(Monitor, ValuesAreFoundByTheirKey) {
  const std::string reply = R"({"return":{"normal-bytes":4096,"normal":17,"error-desc":"x y"}})";
  EXPECT_EQ(natural_in(reply, "normal"), 17U);
  EXPECT_EQ(natural_in(reply, "bytes"), std::nullopt);
  EXPECT_EQ(text_in(reply, "error-desc"), "x y");
  EXPECT_EQ(text_in(reply, "normal"), "");
  EXPECT_EQ(text_in(R"({"status":)", "status"), "");
}

TEST(CopyOnWrite, NeedsAQemuThatLeavesThePausedPaused) {
  EXPECT_TRUE(captures_by_copy_on_write(10'000'002, true));
  EXPECT_TRUE(captures_by_copy_on_write(9'000'000, true));
  EXPECT_FALSE(captures_by_copy_on_write(8'002'001, true));
  EXPECT_FALSE(captures_by_copy_on_write(10'000'002, false));
}

TEST(CaptureFile, BeginsAsLibvirtWritesIt) {
  const std::string header = save_header("<domain/>", true);
  EXPECT_EQ(header.substr(0, 16), "LibvirtQemudSave");
  EXPECT_EQ(save_header("<domain/>", false).substr(0, 16), "LibvirtQemudPart");
  const auto word = [&](std::size_t index) {
    std::uint32_t value = 0;
    std::memcpy(&value, header.data() + 16 + 4 * index, sizeof value);
    return value;
  };
  EXPECT_EQ(word(0), 2U) << "version";
  EXPECT_EQ(word(1), 10U) << "the domain and its zero byte";
  EXPECT_EQ(word(2), 1U) << "was running";
  EXPECT_EQ(word(3), 0U) << "raw";
  EXPECT_EQ(word(4), 0U) << "no cookie";
  ASSERT_EQ(header.size(), 92U + 10U);
  EXPECT_EQ(header.substr(92), std::string("<domain/>\0", 10));
}

TEST(CaptureFile, IsWholeOnlyInTheEnd) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  auto made = CaptureFile::create(path, "<domain/>");
  ASSERT_TRUE(made) << made.error().text();
  CaptureFile& file = **made;
  ASSERT_TRUE(file.add("pages"));
  ASSERT_TRUE(file.add(" and devices"));
  EXPECT_EQ(read_file(path).substr(0, 16), "LibvirtQemudPart");
  EXPECT_EQ(CaptureFile::create(path, "<domain/>").error().code, Code::AlreadyExists);
  ASSERT_TRUE(file.finish());
  const std::string content = read_file(path);
  EXPECT_EQ(content, save_header("<domain/>", true) + "pages and devices");
  EXPECT_EQ(file.size().count, content.size());
  Checksum sum;
  sum.add(content);
  EXPECT_EQ(file.checksum(), sum.value());
  const Bytes size = file.size();
  made->reset();
  EXPECT_TRUE(check_file(path, size, sum.value())) << "it stays";
  EXPECT_EQ(check_file(path, size, sum.value() + 1).error().code, Code::FailedPrecondition);
  EXPECT_EQ(check_file(path, size + Bytes{1}, sum.value()).error().code, Code::FailedPrecondition);
  EXPECT_EQ(check_file(path + "x", size, sum.value()).error().code, Code::NotFound);
}

TEST(CaptureFile, OneThatIsNotFinishedIsRemovedWithItsDirectories) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  {
    auto made = CaptureFile::create(path, "<domain/>");
    ASSERT_TRUE(made);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/job-1"));
  EXPECT_TRUE(std::filesystem::exists(directory.path()));
  EXPECT_TRUE(remove_file(path)) << "twice is as good as once";
  auto other = CaptureFile::create(directory.path() + "/job-1/ck-1/demo-1", "<domain/>");
  ASSERT_TRUE(other && (*other)->finish());
  { auto made = CaptureFile::create(path, "<domain/>"); }
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/job-1/ck-1/demo-1"));
}

TEST(CaptureFile, AWholeOneThatNobodyWantsIsRemoved) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  {
    auto made = CaptureFile::create(path, "<domain/>");
    ASSERT_TRUE(made && (*made)->finish());
    (*made)->discard();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(CaptureFile, IsNeverWrittenOverWhatIsThere) {
  // A device that is there already can't be made.
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1";
  EXPECT_EQ(CaptureFile::create("/dev/full", "<domain/>").error().code, Code::AlreadyExists);
  std::ofstream(path) << "a file where a directory is to be";
  EXPECT_FALSE(CaptureFile::create(path + "/ck-1/demo-0", "<domain/>"));
}

}  // namespace
}  // namespace mare::libvirt
