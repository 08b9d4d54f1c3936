#include "hypervisor/checkpointfile/part_chain.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/checkpointfile/made_stream.h"

namespace mare::checkpointfile {
namespace {

TEST(PartChain, GivesBackEveryStreamOfAChain) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const Directory directory;
    Maker maker(seed);
    Memory memory = maker.memory();
    std::optional<Base> base;
    std::vector<std::string> streams;
    for (int i = 0; i < 9; ++i) {
      streams.push_back(maker.stream(memory));
      const std::string path = directory / std::to_string(i);
      base = write_part(path, streams.back(), base, maker, seed % 4 != 0).base;
      maker.run(memory);
    }
    for (int i = 0; i < 9; ++i) {
      const std::string path = directory / std::to_string(i);
      EXPECT_TRUE(replayed(path) == streams[static_cast<std::size_t>(i)]) << i;
      EXPECT_EQ(PartChain::open(path)->depth(), i);
    }
  }
}

/// What is remembered of a part is what would be read from its file.
TEST(PartChain, GoesOnFromWhatIsRemembered) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const Directory directory;
    Maker maker(seed * 17);
    Memory memory = maker.memory();
    const Memory first = memory;
    std::optional<Below> below;
    std::vector<std::string> streams;
    std::vector<Identity> identities;
    auto last = memory["pc.ram"];
    for (int i = 0; i < 6; ++i) {
      const std::string path = directory / std::to_string(i);
      streams.push_back(maker.stream(memory));
      std::string file;
      PartWriter writer([&](std::string_view data) { return file += data, ok_status(); }, true,
                        std::move(below));
      ASSERT_TRUE(writer.add(streams.back()) && writer.finish());
      write_file(path, file);
      identities.push_back(writer.identity());
      below = writer.for_next(path);
      EXPECT_TRUE(still_there(*below));
      EXPECT_EQ(below->files, PartChain::open(path)->files());
      auto read = read_below(below->base);
      ASSERT_TRUE(read);
      EXPECT_EQ(read->pages.count(), below->pages.count());
      below->pages.each([&](const std::string& block, std::uint64_t number, const PageEntry& one) {
        const PageEntry* same = read->pages.find(block, number);
        ASSERT_NE(same, nullptr);
        EXPECT_EQ(same->hash, one.hash);
      });
      if (i == 1) memory = first;
      if (i < 2 || i > 3) maker.run(memory);
      // A block goes and comes back as it was: what is built on 3 must not know it.
      if (i == 2) memory.erase("pc.ram");
      if (i == 3) memory["pc.ram"] = last;
      last = memory.contains("pc.ram") ? memory["pc.ram"] : last;
    }
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_TRUE(replayed(directory / std::to_string(i)) == streams[i]) << i;
    }
    ASSERT_TRUE(make_full(directory / "3", identities[3], true));
    for (int i = 0; i < 3; ++i) std::filesystem::remove(directory / std::to_string(i));
    for (std::size_t i = 3; i < 6; ++i) {
      EXPECT_TRUE(replayed(directory / std::to_string(i)) == streams[i]) << i;
    }
    write_file(directory / "3", "");
    EXPECT_FALSE(still_there(*below));
  }
}

TEST(PartChain, OnlyWhatChangedIsWritten) {
  const Directory directory;
  Maker maker(5);
  Memory memory;
  for (int i = 0; i < 1000; ++i) memory["pc.ram"].push_back(maker.page());
  const Written full = write_part(directory / "full", maker.stream(memory), {}, maker);
  EXPECT_GE(full.here, 1000U);
  EXPECT_LT(full.file.count, 1000 * kPageBytes / 2) << "it is packed";
  memory["pc.ram"][17] = maker.page();
  memory["pc.ram"][18] = "";
  const std::string after = maker.stream(memory);
  const Written next = write_part(directory / "next", after, full.base, maker);
  EXPECT_LE(next.here, 30U) << "one page, which may have been sent more than once";
  EXPECT_GE(next.below, 998U);
  EXPECT_LT(next.file.count, full.file.count / 10);
  EXPECT_TRUE(replayed(directory / "next") == after);
}

TEST(PartChain, ItMayBeUnpacked) {
  const Directory directory;
  Maker maker(5);
  const std::string stream = maker.stream(maker.memory());
  const Written packed = write_part(directory / "packed", stream, {}, maker, true);
  const Written plain = write_part(directory / "plain", stream, {}, maker, false);
  EXPECT_LT(packed.file.count, plain.file.count / 2);
  EXPECT_TRUE(replayed(directory / "plain") == stream);
}

/// Also where a page was zero in between, or is there twice: what a part has in a page is what its
/// stream had there last.
TEST(PartChain, AnyPartOfAChainCanBeMadeFull) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const Directory directory;
    Maker maker(seed * 31);
    Memory memory = maker.memory();
    const Memory first = memory;
    std::optional<Base> base;
    std::vector<std::string> streams;
    std::vector<Base> bases;
    for (int i = 0; i < 6; ++i) {
      streams.push_back(maker.stream(memory));
      base = write_part(directory / std::to_string(i), streams.back(), base, maker).base;
      bases.push_back(*base);
      // Contents come back: what an older part has must not be taken for what the last one has.
      if (i == 2) memory = first;
      maker.run(memory);
    }
    const std::size_t middle = 1 + maker.below(4);
    const std::string path = directory / std::to_string(middle);
    auto done = make_full(path, bases[middle].identity, true);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->count, std::filesystem::file_size(path));
    for (std::size_t i = 0; i < middle; ++i) {
      std::filesystem::remove(directory / std::to_string(i));
    }
    for (std::size_t i = middle; i < 6; ++i) {
      EXPECT_TRUE(replayed(directory / std::to_string(i)) == streams[i]) << i;
    }
    EXPECT_TRUE(make_full(path, bases[middle].identity, true)) << "twice is as good as once";
    // And it can be gone on from.
    maker.run(memory);
    const std::string more = maker.stream(memory);
    write_part(directory / "more", more, base, maker);
    EXPECT_TRUE(replayed(directory / "more") == more);
  }
}

TEST(PartChain, OnlyWhatWasKeptIsMadeFull) {
  const Directory directory;
  Maker maker(2);
  Memory memory = maker.memory();
  const Written full = write_part(directory / "full", maker.stream(memory), {}, maker);
  maker.run(memory);
  const std::string stream = maker.stream(memory);
  const Written next = write_part(directory / "next", stream, full.base, maker);
  Identity other = next.base.identity;
  ++other.checksum;
  auto refused = make_full(directory / "next", other, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  std::filesystem::remove(directory / "full");
  refused = make_full(directory / "next", next.base.identity, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "")) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 1U) << "nothing is left beside it";
}

TEST(PartChain, AStreamOfAnythingIsKept) {
  const Directory directory;
  Maker maker(4);
  const Written empty = write_part(directory / "empty", "", {}, maker);
  EXPECT_EQ(replayed(directory / "empty"), "");
  const std::string noise = maker.noise(1'000'000);
  const Written first = write_part(directory / "first", noise, empty.base, maker);
  EXPECT_TRUE(replayed(directory / "first") == noise);
  const std::string stream = maker.stream(maker.memory());
  write_part(directory / "then", stream, first.base, maker);
  EXPECT_TRUE(replayed(directory / "then") == stream);
}

TEST(Part, IsRemovedWithItsDirectories) {
  const Directory directory;
  const std::string path = directory / "job-1/ck-1/demo-0";
  std::filesystem::create_directories(directory / "job-1/ck-1");
  write_file(path, "x");
  write_file(path + ".merging-abcdef", "y");
  write_file(directory / "job-1/ck-1/demo-01", "z");
  EXPECT_TRUE(remove_part(path));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".merging-abcdef"));
  EXPECT_TRUE(remove_part(path)) << "twice is as good as once";
  EXPECT_TRUE(remove_part(directory / "job-1/ck-1/demo-01"));
  EXPECT_FALSE(std::filesystem::exists(directory / "job-1"));
}

}  // namespace
}  // namespace mare::checkpointfile
