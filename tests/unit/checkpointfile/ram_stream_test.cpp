#include "hypervisor/checkpointfile/ram_stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/checkpointfile/made_stream.h"

namespace mare::checkpointfile {
namespace {

/// Puts together again what it is handed, and counts.
struct Together final : StreamSink {
  Status bytes(std::string_view data) override {
    all += data;
    plain += data.size();
    return ok_status();
  }
  Status page(PageId which, bool headed, std::string_view content) override {
    if (headed) all += page_header(which.number);
    all += content;
    ++pages;
    seen.push_back(which);
    return ok_status();
  }
  Status zero(PageId which, bool headed) override {
    if (headed) all += zero_header(which.number);
    ++zeros;
    seen.push_back(which);
    return ok_status();
  }
  std::string all;
  std::size_t plain = 0;
  std::size_t pages = 0;
  std::size_t zeros = 0;
  std::vector<PageId> seen;
};

void feed(RamStream& stream, std::string_view data, Maker& maker) {
  while (!data.empty()) {
    const std::size_t piece = std::min<std::size_t>(data.size(), 1 + maker.below(6000));
    ASSERT_TRUE(stream.add(data.substr(0, piece)));
    data.remove_prefix(piece);
  }
  ASSERT_TRUE(stream.end());
}

TEST(RamStream, FindsEveryPageOfAStream) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Maker maker(seed);
    const Memory memory = maker.memory();
    std::size_t there = 0;
    for (const auto& [name, pages] : memory) there += pages.size();
    const std::string made = maker.stream(memory);
    Together out;
    RamStream stream(out);
    feed(stream, made, maker);
    EXPECT_EQ(out.all, made);
    EXPECT_EQ(stream.blocks().size(), memory.size());
    EXPECT_GE(out.pages + out.zeros, there);
    EXPECT_LE(out.pages + out.zeros, there + 30);
    EXPECT_LT(out.plain, 20'000U) << "what is no page is little";
    for (const auto& which : out.seen) {
      ASSERT_LT(which.number, memory.at(stream.blocks()[which.block]).size());
    }
  }
}

TEST(RamStream, PassesOnWhatItDoesNotKnow) {
  Maker maker(7);
  for (int i = 0; i < 50; ++i) {
    std::string made = maker.stream(maker.memory());
    // Something in the middle of it is not as it should be.
    for (std::uint64_t hit = maker.below(5); hit > 0; --hit) {
      made.replace(maker.below(made.size()), 1 + maker.below(40), maker.noise(maker.below(60)));
    }
    Together out;
    RamStream stream(out);
    feed(stream, made, maker);
    ASSERT_EQ(out.all, made);
  }
  const std::string noise = maker.noise(300'000);
  Together out;
  RamStream stream(out);
  feed(stream, noise, maker);
  EXPECT_EQ(out.all, noise);
  EXPECT_EQ(out.pages, 0U);
}

TEST(RamStream, AStreamMayEndAnywhere) {
  Maker maker(3);
  Memory memory;
  memory["pc.ram"] = {maker.page(), "", maker.page()};
  const std::string made = maker.stream(memory);
  for (std::size_t size = 0; size <= made.size(); size += 7) {
    Together out;
    RamStream stream(out);
    feed(stream, std::string_view(made).substr(0, size), maker);
    ASSERT_EQ(out.all, made.substr(0, size)) << size;
  }
}

TEST(RamStream, APageBeyondItsBlockIsBytes) {
  std::string made = "\x01" + big_endian(2, 4) + "\x03ram" + big_endian(0, 4) + big_endian(4, 4);
  made += big_endian(kPageBytes | 4U, 8) + "\x01x" + big_endian(kPageBytes, 8);
  made += big_endian(0x08, 8) + "\x01x" + std::string(kPageBytes, 'a');
  made += big_endian(std::uint64_t{1} << 40U | 0x28U, 8) + std::string(kPageBytes, 'b');
  Maker maker(1);
  Together out;
  RamStream stream(out);
  feed(stream, made, maker);
  EXPECT_EQ(out.all, made);
  EXPECT_EQ(out.pages, 1U);
}

TEST(RamStream, AnErrorOfWhoTakesItIsHandedOn) {
  struct Full final : StreamSink {
    Status bytes(std::string_view) override {
      return make_error(Code::ResourceExhausted, "the disk is full");
    }
    Status page(PageId, bool, std::string_view) override { return ok_status(); }
    Status zero(PageId, bool) override { return ok_status(); }
  } full;
  RamStream stream(full);
  const Status added = stream.add(std::string(100, 'x'));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::ResourceExhausted);
}

}  // namespace
}  // namespace mare::checkpointfile
