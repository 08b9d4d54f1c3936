// What is pure or only files of captures; the rest needs a QEMU.
#include "hypervisor/libvirt/captures.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hypervisor/libvirt/capabilities.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/monitor.h"
#include "orchestrator/core/checksum.h"
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
  const std::string header = save_header("<domain/>");
  EXPECT_EQ(header.substr(0, 16), "LibvirtQemudSave");
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

/// libvirt's test driver has a domain, and no QEMU that could be asked for a capture of it.
TEST(Captures, APreparationThatFailsLeavesNothing) {
  const TestDirectory directory;
  SystemClock clock;
  Log log(clock, LogLevel::Error);
  DomainEvents events;
  events.connected = [](virConnectPtr) {};
  Connection connection("test:///default", events, log);
  auto opened = connection.get();
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  const DomainHandle domain{virDomainLookupByName(opened->get(), "test")};
  ASSERT_NE(domain, nullptr);
  std::array<char, VIR_UUID_STRING_BUFLEN> uuid{};
  ASSERT_EQ(virDomainGetUUIDString(domain.get(), uuid.data()), 0);
  Captures captures(
      connection, [](const std::string&) {}, clock, log);
  const CaptureTicket ticket{
      CheckpointId{"ck-1"}, {VmId{"test"}, uuid.data()}, directory.path() + "/ck-1/test"};
  auto refused = captures.prepare(
      ticket, true, [] { return make_error(Code::Unavailable, "its RAM stays registered"); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "its RAM stays registered");
  EXPECT_FALSE(captures.active(uuid.data()));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_FALSE(captures.known(ticket).has_value());
    bool taken = false;
    auto ready = captures.prepare(ticket, true, [&] {
      taken = captures.active(uuid.data());
      return ok_status();
    });
    EXPECT_TRUE(taken) << "nobody may take the memory anew that somebody has let go of";
    ASSERT_FALSE(ready.ok());
    EXPECT_NE(ready.error().code, Code::AlreadyExists) << "of the first attempt nothing is left";
    EXPECT_NE(ready.error().message.find("monitor"), std::string::npos)
        << "it came further than the file: " << ready.error().text();
    EXPECT_FALSE(std::filesystem::exists(ticket.path));
    EXPECT_FALSE(captures.active(uuid.data()));
    auto begun = captures.begin(ticket);
    ASSERT_FALSE(begun.ok());
    EXPECT_EQ(begun.error().code, Code::FailedPrecondition);
    int state = 0;
    ASSERT_EQ(virDomainGetState(domain.get(), &state, nullptr, 0), 0);
    EXPECT_EQ(state, VIR_DOMAIN_RUNNING);
  }
  ASSERT_TRUE(captures.drop(ticket.vm, ticket.checkpoint, ticket.path).ok());
  auto late = captures.known(ticket);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->error().code, Code::FailedPrecondition);
}

CheckpointPart kept_of(const CaptureFile& file, const std::string& path) {
  CheckpointPart part;
  part.vm = VmId{"demo-0"};
  part.path = path;
  part.size = file.identity().size;
  part.checksum = file.identity().checksum;
  return part;
}

TEST(CaptureFile, GivesTheStateThatLibvirtRestores) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  auto made = CaptureFile::create(path, "<domain/>", {});
  ASSERT_TRUE(made) << made.error().text();
  CaptureFile& file = **made;
  ASSERT_TRUE(file.add("pages"));
  ASSERT_TRUE(file.add(" and devices"));
  EXPECT_EQ(CaptureFile::create(path, "<domain/>", {}).error().code, Code::AlreadyExists);
  const std::string unpacked = directory.path() + "/state/unpacked";
  EXPECT_FALSE(UnpackedPart::make(unpacked, kept_of(file, path))) << "it is not whole";
  ASSERT_TRUE(file.finish());
  const CheckpointPart part = kept_of(file, path);
  const std::string state = save_header("<domain/>") + "pages and devices";
  EXPECT_EQ(part.size.count, state.size());
  EXPECT_EQ(file.written().count, std::filesystem::file_size(path));
  EXPECT_FALSE(file.incremental());
  made->reset();
  std::string left;
  {
    auto again = UnpackedPart::make(unpacked, part);
    ASSERT_TRUE(again) << again.error().text();
    left = (*again)->path();
    EXPECT_EQ(read_file(left), state);
  }
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(path)) << "it stays";
  CheckpointPart other = part;
  ++other.checksum;
  EXPECT_EQ(UnpackedPart::make(unpacked, other).error().code, Code::FailedPrecondition);
  other = part;
  other.size = other.size + Bytes{1};
  EXPECT_EQ(UnpackedPart::make(unpacked, other).error().code, Code::FailedPrecondition);
  other = part;
  other.path += "x";
  EXPECT_EQ(UnpackedPart::make(unpacked, other).error().code, Code::NotFound);
  EXPECT_TRUE(std::filesystem::is_empty(unpacked)) << "nothing is left of those that failed";
  clear_unpacked(unpacked);
  EXPECT_FALSE(std::filesystem::exists(unpacked));
}

TEST(CaptureFile, IsBuiltOnTheLastOne) {
  const TestDirectory directory;
  const std::string base = directory.path() + "/job-1/ck-1/demo-0";
  const std::string path = directory.path() + "/job-1/ck-2/demo-0";
  auto first = CaptureFile::create(base, "<domain/>", {});
  ASSERT_TRUE(first && (*first)->add("pages") && (*first)->finish());
  auto below = (*first)->for_next();
  EXPECT_EQ(below.base.path, base);
  EXPECT_TRUE(checkpointfile::still_there(below));
  auto second = CaptureFile::create(path, "<domain/>", {true, std::move(below)});
  ASSERT_TRUE(second && (*second)->add("other pages") && (*second)->finish());
  EXPECT_TRUE((*second)->incremental());
  const CheckpointPart part = kept_of(**second, path);
  auto unpacked = UnpackedPart::make(directory.path() + "/state", part);
  ASSERT_TRUE(unpacked) << unpacked.error().text();
  EXPECT_EQ(read_file((*unpacked)->path()), save_header("<domain/>") + "other pages");
  below = (*second)->for_next();
  EXPECT_EQ(below.files, (std::vector<std::string>{path, base}));
  ASSERT_TRUE(checkpointfile::remove_part(base));
  EXPECT_FALSE(checkpointfile::still_there(below));
  EXPECT_EQ(UnpackedPart::make(directory.path() + "/state", part).error().code,
            Code::FailedPrecondition);
}

TEST(CaptureFile, TheStateAsOlderVersionsWroteItIsRestoredFromWhereItIs) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/demo-0";
  const std::string state = save_header("<domain/>") + "pages";
  std::ofstream(path, std::ios::binary) << state;
  Checksum sum;
  sum.add(state);
  CheckpointPart part;
  part.path = path;
  part.size = Bytes{state.size()};
  part.checksum = sum.value();
  {
    auto found = UnpackedPart::make(directory.path() + "/state", part);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ((*found)->path(), path);
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  ++part.checksum;
  EXPECT_EQ(UnpackedPart::make(directory.path() + "/state", part).error().code,
            Code::FailedPrecondition);
}

TEST(CaptureFile, OneThatIsNotFinishedIsRemovedWithItsDirectories) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  {
    auto made = CaptureFile::create(path, "<domain/>", {});
    ASSERT_TRUE(made);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/job-1"));
  EXPECT_TRUE(std::filesystem::exists(directory.path()));
  auto other = CaptureFile::create(directory.path() + "/job-1/ck-1/demo-1", "<domain/>", {});
  ASSERT_TRUE(other && (*other)->finish());
  { auto made = CaptureFile::create(path, "<domain/>", {}); }
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/job-1/ck-1/demo-1"));
}

TEST(CaptureFile, AWholeOneThatNobodyWantsIsRemoved) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1/ck-1/demo-0";
  {
    auto made = CaptureFile::create(path, "<domain/>", {});
    ASSERT_TRUE(made && (*made)->finish());
    (*made)->discard();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(CaptureFile, IsNeverWrittenOverWhatIsThere) {
  // A device that is there already can't be made.
  const TestDirectory directory;
  const std::string path = directory.path() + "/job-1";
  EXPECT_EQ(CaptureFile::create("/dev/full", "<domain/>", {}).error().code, Code::AlreadyExists);
  std::ofstream(path) << "a file where a directory is to be";
  EXPECT_FALSE(CaptureFile::create(path + "/ck-1/demo-0", "<domain/>", {}));
}

}  // namespace
}  // namespace mare::libvirt
