#include <gtest/gtest.h>

#include "orchestrator/model/forecast.h"

namespace mare {
namespace {

TEST(Link, MayBeOneUpToHalfAsMuchAgain) {
  const BytesPerSecond whole{117e6};
  EXPECT_TRUE(may_be_one_link(whole, BytesPerSecond{78e6}));
  EXPECT_TRUE(may_be_one_link(BytesPerSecond{78e6}, whole));
  EXPECT_FALSE(may_be_one_link(whole, BytesPerSecond{77e6}));
  EXPECT_FALSE(may_be_one_link(BytesPerSecond{77e6}, whole));
  EXPECT_TRUE(may_be_one_link(whole, BytesPerSecond{})) << "what is not known may be anything";
}

}  // namespace
}  // namespace mare
