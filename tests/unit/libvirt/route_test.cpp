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
                    {"/lib/a|b.so", "/lib/d.so", "/run/d%"},
                    true,
                    "10.77.0.12:40123/0123456789abcdef0123456789abcdef"};
  auto back = Route::parse(route.text());
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->libvirt_uri, route.libvirt_uri);
  EXPECT_EQ(back->data_uri, route.data_uri);
  EXPECT_EQ(back->bridge, route.bridge);
  EXPECT_EQ(back->console, route.console);
  EXPECT_EQ(back->accelerated, route.accelerated);
  EXPECT_EQ(back->preloads, route.preloads);
  EXPECT_TRUE(back->tls);
  EXPECT_EQ(back->notice, route.notice);
  EXPECT_FALSE(Route::parse(Route{"a", "b", "c", "d"}.text())->tls);
}

TEST(Route, TheMigrationAddressIsWhatLibvirtIsTold) {
  EXPECT_EQ(libvirt_uri_at("10.88.0.12"), "qemu+tcp://10.88.0.12/system");
  EXPECT_EQ(data_uri_at("10.88.0.12"), "tcp://10.88.0.12");
  EXPECT_EQ(data_uri_at("h2.migrations.example"), "tcp://h2.migrations.example");
  EXPECT_EQ(libvirt_uri_at("fd00::12"), "qemu+tcp://[fd00::12]/system");
  EXPECT_EQ(data_uri_at("[fd00::12]"), "tcp://[fd00::12]");
}

TEST(Route, BothEndsEncryptOrNone) {
  Route route;
  EXPECT_TRUE(check_encryption(route, false).ok());
  const auto refused = check_encryption(route, true);
  EXPECT_EQ(refused.error().code, Code::FailedPrecondition);
  EXPECT_NE(refused.error().remedy.find("--migration-tls"), std::string::npos);
  route.tls = true;
  EXPECT_TRUE(check_encryption(route, true).ok());
  EXPECT_FALSE(check_encryption(route, false).ok());
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
