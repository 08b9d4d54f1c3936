// Files that are not what was written: they are refused, or give the very stream.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/checkpointfile/made_stream.h"

namespace mare::checkpointfile {
namespace {

/// Nothing if it is refused.
std::optional<std::string> try_replay(const std::string& path) {
  auto chain = PartChain::open(path);
  if (!chain) {
    EXPECT_EQ(chain.error().code, Code::FailedPrecondition) << chain.error().text();
    return {};
  }
  std::string out;
  const Status done = chain->replay([&](std::string_view data) {
    out += data;
    return ok_status();
  });
  if (done) return out;
  EXPECT_EQ(done.error().code, Code::FailedPrecondition) << done.error().text();
  return {};
}

TEST(DamagedPart, IsRefused) {
  const Directory directory;
  Maker maker(11);
  Memory memory = maker.memory();
  const Written full = write_part(directory / "full", maker.stream(memory), {}, maker);
  maker.run(memory);
  const std::string stream = maker.stream(memory);
  write_part(directory / "next", stream, full.base, maker);
  for (const std::string name : {"full", "next"}) {
    const std::string good = read_file(directory / name);
    int refused = 0;
    for (int i = 0; i < 150; ++i) {
      std::string bad = good;
      const std::size_t at = maker.below(bad.size());
      bad[at] = static_cast<char>(bad[at] ^ static_cast<char>(1U << maker.below(8)));
      if (i % 3 == 0) bad.resize(at);
      write_file(directory / name, bad);
      const auto got = try_replay(directory / "next");
      // Not every page of the full one is needed.
      if (got) {
        EXPECT_TRUE(*got == stream);
      }
      refused += got ? 0 : 1;
    }
    EXPECT_GT(refused, 100) << name;
    write_file(directory / name, good);
  }
  EXPECT_TRUE(replayed(directory / "next") == stream);
}

TEST(DamagedPart, ABaseThatIsGoneOrAnotherIsRefused) {
  const Directory directory;
  Maker maker(12);
  Memory memory = maker.memory();
  const Written full = write_part(directory / "full", maker.stream(memory), {}, maker);
  maker.run(memory);
  write_part(directory / "next", maker.stream(memory), full.base, maker);
  write_part(directory / "full", maker.stream(memory), {}, maker);
  EXPECT_FALSE(try_replay(directory / "next"));
  auto below = read_below(full.base);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().code, Code::FailedPrecondition);
  std::filesystem::remove(directory / "full");
  EXPECT_FALSE(try_replay(directory / "next"));
  below = read_below(full.base);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().code, Code::NotFound);
  auto none = PartChain::open(directory / "none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::NotFound);
}

TEST(DamagedPart, AnotherFormatIsNone) {
  const Directory directory;
  Maker maker(13);
  write_part(directory / "part", maker.stream(maker.memory()), {}, maker);
  EXPECT_TRUE(is_part(directory / "part"));
  write_file(directory / "save", "LibvirtQemudSave" + maker.noise(200));
  EXPECT_FALSE(is_part(directory / "save"));
  EXPECT_FALSE(is_part(directory / "none"));
  EXPECT_FALSE(try_replay(directory / "save"));
  std::string newer = read_file(directory / "part");
  newer[14] = '\x02';
  write_file(directory / "part", newer);
  EXPECT_TRUE(is_part(directory / "part"));
  EXPECT_FALSE(try_replay(directory / "part"));
}

}  // namespace
}  // namespace mare::checkpointfile
