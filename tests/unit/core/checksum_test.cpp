#include "orchestrator/core/checksum.h"

#include <gtest/gtest.h>

namespace mare {
namespace {

std::string sum_of(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return checksum_text(sum.value());
}

TEST(Checksum, IsXxh64) {
  // The reference implementation's values.
  EXPECT_EQ(sum_of(""), "ef46db3751d8e999");
  EXPECT_EQ(sum_of("abc"), "44bc2cf5ad770999");
  EXPECT_EQ(sum_of("Nobody inspects the spammish repetition"), "fbcea83c8a378bf1");
}

TEST(Checksum, DoesNotDependOnThePiecesThatItIsGiven) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) text.push_back(static_cast<char>(i * 7));
  const std::string whole = sum_of(text);
  for (const std::size_t piece : {1U, 3U, 8U, 31U, 32U, 33U, 500U}) {
    Checksum sum;
    for (std::size_t at = 0; at < text.size(); at += piece) sum.add(text.substr(at, piece));
    EXPECT_EQ(checksum_text(sum.value()), whole) << piece;
  }
  text[500] = static_cast<char>(text[500] ^ 1);
  EXPECT_NE(sum_of(text), whole);
}

TEST(Checksum, TextComesBackAndNothingElseDoes) {
  std::uint64_t value = 0;
  EXPECT_TRUE(checksum_from("00ff00000000ab01", value));
  EXPECT_EQ(value, 0x00ff00000000ab01ULL);
  for (const char* wrong :
       {"", "12", "00ff00000000ab0g", "00ff00000000ab011", " 0ff00000000ab01"}) {
    EXPECT_FALSE(checksum_from(wrong, value)) << wrong;
  }
}

}  // namespace
}  // namespace mare
