#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hypervisor/leases/lease_record.h"
#include "tests/unit/leases/scratch.h"

namespace mare::leases {
namespace {

const LeaseRecord kRecord{true, Milliseconds{2000}, std::chrono::seconds{77}, "/ck/fenced/h1-1-2"};

TEST(LeaseRecordText, GoesThereAndBack) {
  EXPECT_EQ(record_from(record_text(kRecord, "b1"), "b1"), kRecord);
  EXPECT_EQ(record_from(record_text(LeaseRecord{}, "b1"), "b1"), LeaseRecord{});
}

TEST(LeaseRecordText, OfAnotherBootIsNone) {
  EXPECT_EQ(record_from(record_text(kRecord, "b1"), "b2"), std::nullopt);
}

TEST(LeaseRecordText, AnyDamageIsSeen) {
  const std::string whole = record_text(kRecord, "b1");
  const auto length = whole.find_last_not_of(' ');
  for (std::size_t i = 0; i < length; ++i) {
    std::string damaged = whole;
    damaged[i] = damaged[i] == '1' ? '2' : '1';
    EXPECT_EQ(record_from(damaged, "b1"), std::nullopt) << "at " << i;
  }
  for (std::size_t i = 0; i < length; ++i) {
    EXPECT_EQ(record_from(whole.substr(0, i), "b1"), std::nullopt) << "cut at " << i;
  }
}

TEST(LeaseRecordFile, IsOfOneSizeAndWrittenInPlace) {
  const Scratch scratch;
  const RecordFile file(scratch.path("record"), "b1");
  ASSERT_TRUE(file.read().ok());
  EXPECT_EQ(*file.read(), LeaseRecord{}) << "there is none yet";
  ASSERT_TRUE(file.write(LeaseRecord{}));
  const auto size = std::filesystem::file_size(scratch.path("record"));
  LeaseRecord longest = kRecord;
  longest.note.assign(kLongestNote, 'n');
  ASSERT_TRUE(file.write(longest));
  EXPECT_EQ(std::filesystem::file_size(scratch.path("record")), size);
  EXPECT_EQ(*file.read(), longest);
  longest.note += 'n';
  EXPECT_EQ(file.write(longest).error().code, Code::InvalidArgument);
  longest.note = "two\nlines";
  EXPECT_EQ(file.write(longest).error().code, Code::InvalidArgument);
  EXPECT_EQ(*RecordFile(scratch.path("record"), "b2").read(), LeaseRecord{});
}

TEST(LeaseRecordFile, DamageIsAnErrorAndNotAnEnd) {
  const Scratch scratch;
  const RecordFile file(scratch.path("record"), "b1");
  ASSERT_TRUE(file.write(kRecord));
  std::fstream(scratch.path("record"), std::ios::in | std::ios::out).seekp(10) << '?';
  EXPECT_EQ(file.read().error().code, Code::Unavailable);
}

}  // namespace
}  // namespace mare::leases
