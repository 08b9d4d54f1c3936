// The files and the room of what is kept in memory; that VMs run from it is the contract's.
#include "hypervisor/libvirt/standbys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "hypervisor/checkpointfile/standby_image.h"
#include "hypervisor/libvirt/capture_file.h"
#include "tests/unit/checkpointfile/made_stream.h"
#include "tests/unit/libvirt/directory.h"

namespace mare::libvirt {
namespace {

using checkpointfile::Maker;
using checkpointfile::Memory;

class StandbysTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(standbys_.open({getuid(), getgid()})); }

  /// A VM's part, on the VM's last one if there is one.
  CheckpointPart part(const std::string& uuid) {
    CheckpointPart out;
    out.vm = VmId{"vm-" + uuid};
    out.uuid = uuid;
    out.path = files_.path() + "/" + uuid + "-" + std::to_string(++count_);
    Memory& memory = memories_.try_emplace(uuid, maker_.memory()).first->second;
    const auto written = checkpointfile::write_part(
        out.path, save_header("<domain/>") + maker_.stream(memory), bases_[uuid], maker_);
    maker_.run(memory);
    bases_[uuid] = written.base;
    out.size = written.base.identity.size;
    out.checksum = written.base.identity.checksum;
    return out;
  }
  std::vector<StandbyAnswer> keep(const std::vector<CheckpointPart>& parts) {
    return standbys_.keep(
        parts, [this] { return Result<Standbys::Room>(room_); },
        [this](const std::string& uuid) { return here_.contains(uuid); });
  }
  bool is_kept(const CheckpointPart& part) { return keep_count({part}) == 1; }
  int keep_count(const std::vector<CheckpointPart>& parts) {
    int kept = 0;
    for (const auto& one : keep(parts)) kept += one.kept ? 1 : 0;
    return kept;
  }
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(memory_.path())) {
      out.insert(entry.path().filename().string());
    }
    return out;
  }
  using Names = std::set<std::string>;

  const TestDirectory files_;
  const TestDirectory memory_;
  SystemClock clock_;
  Log log_{clock_, LogLevel::Error};
  Standbys standbys_{memory_.path(), log_};
  Standbys::Room room_{mebibytes(1000), mebibytes(100)};
  std::set<std::string> here_;
  Maker maker_{5};
  std::map<std::string, Memory> memories_;
  std::map<std::string, std::optional<checkpointfile::Base>> bases_;
  int count_ = 0;
};

TEST_F(StandbysTest, AreExactlyThoseThatAreAskedFor) {
  const CheckpointPart first = part("a");
  const CheckpointPart other = part("b");
  for (int i = 0; i < 2; ++i) {
    const auto answers = keep({first, other});
    ASSERT_EQ(answers.size(), 2U);
    for (const auto& one : answers) EXPECT_TRUE(one.kept) << one.why_not;
    EXPECT_EQ(answers[1].vm, other.vm);
    EXPECT_GT(answers[1].memory.count, 0U);
  }
  EXPECT_EQ(names(), (Names{"a", "b"}));
  EXPECT_TRUE(standbys_.take(first, mebibytes(64), room_));
  EXPECT_TRUE(is_kept(other));
  EXPECT_EQ(names(), Names{"b"});
  EXPECT_TRUE(keep({}).empty());
  EXPECT_TRUE(names().empty());
}

TEST_F(StandbysTest, AreOfThatPartAndNoOther) {
  const CheckpointPart first = part("a");
  ASSERT_TRUE(is_kept(first));
  const CheckpointPart second = part("a");
  EXPECT_FALSE(standbys_.take(second, mebibytes(64), room_));
  EXPECT_TRUE(is_kept(second));
  EXPECT_FALSE(standbys_.take(first, mebibytes(64), room_));
  const auto files = standbys_.take(second, mebibytes(64), room_);
  ASSERT_TRUE(files);
  EXPECT_EQ(std::filesystem::file_size(files->memory), mebibytes(64).count);
  auto saved = read_save_header(files->state);
  ASSERT_TRUE(saved) << saved.error().text();
  EXPECT_EQ(saved->xml, "<domain/>");
  EXPECT_EQ(saved->stream_at, save_header("<domain/>").size());
  EXPECT_FALSE(standbys_.take(second, Bytes{4096}, room_)) << "the guest's memory is larger";
}

TEST_F(StandbysTest, WhatAVmMapsIsKeptApartUntilItIsGone) {
  const CheckpointPart first = part("a");
  ASSERT_TRUE(is_kept(first));
  here_ = {"a"};
  ASSERT_TRUE(standbys_.take(first, mebibytes(64), room_));
  const auto is_here = [this](const std::string& uuid) { return here_.contains(uuid); };
  EXPECT_GT(standbys_.mapped(is_here).count, 0U);
  const CheckpointPart second = part("a");
  EXPECT_TRUE(is_kept(second));
  EXPECT_EQ(names(), (Names{"a", "a.mapped-1"}));
  EXPECT_GT(standbys_.mapped(is_here).count, 0U);
  standbys_.give_way({Bytes{}, mebibytes(1)}, "");
  EXPECT_EQ(names(), Names{"a.mapped-1"}) << "to take it away would free nothing";
  here_.clear();
  EXPECT_EQ(standbys_.mapped(is_here).count, 0U);
  EXPECT_TRUE(names().empty());
}

TEST_F(StandbysTest, TakeTheRoomThatVmsLeave) {
  const CheckpointPart first = part("a");
  const CheckpointPart other = part("b");
  room_ = {mebibytes(100), mebibytes(100)};
  auto refused = keep({first});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_FALSE(refused[0].kept);
  EXPECT_NE(refused[0].why_not.find("leave no"), std::string::npos) << refused[0].why_not;
  EXPECT_TRUE(names().empty());
  room_.promised = mebibytes(10);
  ASSERT_EQ(keep_count({first, other}), 2);
  standbys_.give_way({mebibytes(100), mebibytes(10)}, "");
  EXPECT_EQ(names(), (Names{"a", "b"}));
  standbys_.give_way({mebibytes(100), mebibytes(100)}, "a");
  EXPECT_EQ(names(), Names{"a"}) << "that VM is just being started from it";
  EXPECT_FALSE(standbys_.take(first, mebibytes(64), {mebibytes(100), mebibytes(100)}));
  EXPECT_TRUE(standbys_.take(first, mebibytes(64), {mebibytes(110), mebibytes(90)}));
}

TEST_F(StandbysTest, AFileThatIsGoneDamagedOrOfAnOlderFormIsToldSo) {
  CheckpointPart gone = part("a");
  gone.path += "-gone";
  CheckpointPart other = part("b");
  ++other.checksum;
  const CheckpointPart older = part("c");
  checkpointfile::write_file(older.path, save_header("<domain/>") + "pages");
  const CheckpointPart good = part("d");
  const auto answers = keep({gone, other, older, good});
  ASSERT_EQ(answers.size(), 4U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(answers[i].kept);
    EXPECT_FALSE(answers[i].why_not.empty());
  }
  EXPECT_TRUE(answers[3].kept) << answers[3].why_not;
  EXPECT_EQ(names(), Names{"d"});
}

TEST(SavedDomain, IsReadBack) {
  const TestDirectory directory;
  const std::string path = directory.path() + "/state";
  const auto read = [&](const std::string& content) {
    checkpointfile::write_file(path, content);
    return read_save_header(path);
  };
  const std::string header = save_header("<domain type='qemu'/>");
  auto found = read(header + "QEVM");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->xml, "<domain type='qemu'/>");
  EXPECT_EQ(found->stream_at, header.size());
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("QEVM" + header));
  EXPECT_FALSE(read(header.substr(0, header.size() - 1)));
}

}  // namespace
}  // namespace mare::libvirt
