#include "hypervisor/libvirt/route.h"

#include <gtest/gtest.h>

namespace mare::libvirt {
namespace {

TEST(Route, ComesBackAsItWasWritten) {
  const Route route{"qemu+tcp://10.77.0.12/system",
                    "tcp://10.77.0.12",
                    "br0",
                    "/state/a|b%7Cc%/console/demo-0.log",
                    true,
                    "/lib/a|b.so"};
  auto back = Route::parse(route.text());
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->libvirt_uri, route.libvirt_uri);
  EXPECT_EQ(back->data_uri, route.data_uri);
  EXPECT_EQ(back->bridge, route.bridge);
  EXPECT_EQ(back->console, route.console);
  EXPECT_EQ(back->accelerated, route.accelerated);
  EXPECT_EQ(back->preload, route.preload);
}

TEST(Route, WhatIsNoRouteIsRefusedByName) {
  const std::string good = Route{"qemu+tcp://h/system", "tcp://h", "br0", "/c", false}.text();
  ASSERT_TRUE(Route::parse(good).ok());
  for (const std::string& bad :
       {std::string(), std::string("sim://h1"), good + "|more", good.substr(0, good.size() - 1),
        good.substr(0, good.find('|', 12)), "x" + good}) {
    auto parsed = Route::parse(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().code, Code::InvalidArgument);
    EXPECT_NE(parsed.error().message.find("'" + bad + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace mare::libvirt
