#include "rest/server/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mare::rest {
namespace {

Router some_routes() {
  Router router;
  for (const char* pattern : {"/v/vms", "/v/vms/{id}", "/v/vms/{id}:start", "/v/vms/{id}/moves"}) {
    router.add({"GET", pattern, std::string("get ") + pattern, false, {}});
  }
  router.add({"POST", "/v/vms", "post", false, {}});
  return router;
}

TEST(Router, FindsByMethodAndPath) {
  const Router router = some_routes();
  EXPECT_EQ(router.match("POST", "/v/vms").route->operation_id, "post");
  const auto one = router.match("GET", "/v/vms/demo-0");
  ASSERT_NE(one.route, nullptr);
  EXPECT_EQ(one.captures.at("id"), "demo-0");
  EXPECT_EQ(router.match("GET", "/v/vms/demo-0:start").route->pattern, "/v/vms/{id}:start");
  EXPECT_EQ(router.match("GET", "/v/vms/d/moves").route->pattern, "/v/vms/{id}/moves");
  EXPECT_EQ(router.match("GET", "/v/vms/a%2Fb").captures.at("id"), "a/b");
}

TEST(Router, TellsWhatIsAllowed) {
  const auto wrong = some_routes().match("DELETE", "/v/vms");
  EXPECT_EQ(wrong.route, nullptr);
  EXPECT_THAT(wrong.allowed, testing::UnorderedElementsAre("GET", "POST"));
}

TEST(Router, KnowsWhatIsNotThere) {
  const Router router = some_routes();
  for (const char* path : {"", "/", "/v", "/v/vms/", "/v/vms//", "/v/vms/a:stop", "/v/vms/:start",
                           "/v/vms/a:", "/v/vms/a/moves/", "/v/vms/%zz", "/v/vms/%00", "/V/vms",
                           "v/vms", "/v/vms/a/b/c", "/v/vms/a%"}) {
    const auto none = router.match("GET", path);
    EXPECT_EQ(none.route, nullptr) << path;
    EXPECT_TRUE(none.allowed.empty()) << path;
  }
}

TEST(Query, IsDecoded) {
  const auto query = parse_query("a=1&b=x%20y+z&c&&d=%3D%26");
  ASSERT_TRUE(query);
  EXPECT_THAT(*query, testing::ElementsAre(testing::Pair("a", "1"), testing::Pair("b", "x y z"),
                                           testing::Pair("c", ""), testing::Pair("d", "=&")));
  EXPECT_FALSE(parse_query("a=%"));
  EXPECT_FALSE(parse_query("a=%4"));
  EXPECT_FALSE(parse_query("%gg=1"));
  EXPECT_TRUE(parse_query("")->empty());
}

TEST(Query, EveryFaultIsTold) {
  const Request request;
  const Call call{request,
                  {},
                  {{"limit", "0"},
                   {"flag", "yes"},
                   {"twice", "1"},
                   {"twice", "2"},
                   {"empty", ""},
                   {"strange", "1"},
                   {"many", "9x"}}};
  wire::Faults faults;
  QueryReader query(call, faults);
  EXPECT_FALSE(query.natural("limit", 1, 10));
  query.flag("flag");
  query.text("twice");
  EXPECT_FALSE(query.text("empty"));
  EXPECT_FALSE(query.natural("many", 0, 10));
  query.finish();
  std::vector<std::string> where;
  for (const auto& fault : faults) where.push_back(fault.pointer);
  EXPECT_THAT(where,
              testing::ElementsAre("?limit", "?flag", "?twice", "?empty", "?many", "?strange"));
}

}  // namespace
}  // namespace mare::rest
