#include "hypervisor/dirtylog/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/rng.h"

namespace mare::dirtylog {
namespace {

constexpr std::size_t kPacket = kPacketPages * kPage;

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> out(size);
  SeededRng rng(7);
  std::generate(out.begin(), out.end(), [&rng] { return static_cast<std::byte>(rng.next()); });
  return out;
}

TEST(Packing, OfNothingAllIsLeft) {
  const Packed nothing = pack({}, Unpack::Yes);
  EXPECT_DOUBLE_EQ(nothing.fraction, 1);
  EXPECT_EQ(nothing.pack_cpu_s, 0);
  EXPECT_EQ(nothing.unpack_cpu_s, 0);
}

TEST(Packing, TheSameByteShrinksAndNoiseDoesNot) {
  // Less than a packet, one, a part for each packer and a little more.
  for (const std::size_t pages : {3, 128, 256, 259}) {
    const std::vector<std::byte> same(pages * kPage, std::byte{7});
    EXPECT_LT(pack(same, Unpack::No).fraction, 0.02) << pages;
    EXPECT_GT(pack(same, Unpack::No).fraction, 0) << pages;
    EXPECT_DOUBLE_EQ(pack(noise(pages * kPage), Unpack::No).fraction, 1) << pages;
  }
}

TEST(Packing, EachPackersPartCounts) {
  // Packets go to the packers by turns: one has the noise, the other one what shrinks.
  std::vector<std::byte> pages(8 * kPacket, std::byte{7});
  for (std::size_t at = 0; at < pages.size(); at += kPackers * kPacket) {
    std::ranges::copy(noise(kPacket), pages.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_NEAR(pack(pages, Unpack::No).fraction, 1.0 / kPackers, 0.02);
}

TEST(Packing, TellsWhatItTookOfCpus) {
  const std::vector<std::byte> pages(4096 * kPage, std::byte{7});
  const Packed packed = pack(pages, Unpack::Yes);
  for (const double cpu_s : {packed.pack_cpu_s, packed.unpack_cpu_s}) {
    EXPECT_GT(cpu_s, 0);
    EXPECT_GT(static_cast<double>(pages.size()) / cpu_s, 1e6) << "16 MiB in less than 17 s";
  }
  const Packed only_packed = pack(pages, Unpack::No);
  EXPECT_EQ(only_packed.unpack_cpu_s, 0);
  EXPECT_GT(only_packed.pack_cpu_s, 0);
  EXPECT_DOUBLE_EQ(only_packed.fraction, packed.fraction);
}

}  // namespace
}  // namespace mare::dirtylog
