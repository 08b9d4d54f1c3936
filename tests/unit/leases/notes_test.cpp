#include <gtest/gtest.h>

#include "hypervisor/leases/fence_notes.h"
#include "tests/unit/leases/scratch.h"

namespace mare::leases {
namespace {

TEST(FenceNotes, AreSeenUntilTheyAreRemoved) {
  const Scratch storage;
  const std::string note = storage.path("fenced/h1-1-1");
  EXPECT_EQ(look_for_note(note), NoteSeen::Unknown) << "no directory: perhaps it is not mounted";
  ASSERT_TRUE(make_room_for_notes(note));
  EXPECT_EQ(look_for_note(note), NoteSeen::Absent);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(put_note(note));
  EXPECT_EQ(look_for_note(note), NoteSeen::Present);
  EXPECT_EQ(look_for_note(storage.path("fenced/h1-1-2")), NoteSeen::Absent);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(remove_note(note));
  EXPECT_EQ(look_for_note(note), NoteSeen::Absent);
}

TEST(FenceNotes, OnlyWhoWritesOneMakesTheStorage) {
  const Scratch storage;
  const std::string note = storage.path("not-mounted/fenced/h1-1-1");
  EXPECT_EQ(make_room_for_notes(note).error().code, Code::Unavailable);
  EXPECT_EQ(look_for_note(note), NoteSeen::Unknown);
  ASSERT_TRUE(put_note(note));
  EXPECT_EQ(look_for_note(note), NoteSeen::Present);
}

TEST(FenceNotes, AStorageThatRefusesIsAnError) {
  EXPECT_EQ(put_note("/proc/mare/fenced/h1-1-1").error().code, Code::Unavailable);
  EXPECT_EQ(look_for_note("/proc/mare/fenced/h1-1-1"), NoteSeen::Unknown);
}

}  // namespace
}  // namespace mare::leases
