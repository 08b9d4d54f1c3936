// The description and the server say the same, in both directions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "rest/server/api.h"
#include "rest/wire/bodies.h"
#include "rest/wire/rebalancing.h"
#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::IsEmpty;
using wire::Json;

class Description : public testing::Test {
 protected:
  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
};

TEST_F(Description, EveryRouteIsDescribedAndEveryDescriptionIsRouted) {
  rest::HttpMetrics metrics;
  rest::RestOptions options;
  rest::Followers followers(*world.store, world.clock, options,
                            [](const Operation&) { return rest::Response{}; });
  rest::Api api{*world.engine, *world.store, world.images, followers, metrics};
  rest::Router router;
  rest::add_all_routes(router, api);
  std::set<std::string> routed;
  for (const auto& route : router.routes()) {
    routed.insert(route.method + " " + route.pattern + " " + route.operation_id +
                  (route.open ? " open" : ""));
  }
  std::set<std::string> described;
  for (const auto& [path, methods] : schemas.description()["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      const bool open = operation.contains("security") && operation["security"].empty();
      described.insert(upper + " " + path + " " + operation["operationId"].get<std::string>() +
                       (open ? " open" : ""));
    }
  }
  EXPECT_EQ(routed, described);
  EXPECT_EQ(routed.size(), router.routes().size()) << "a route is there twice";
}

TEST_F(Description, EveryReferenceLeadsSomewhereAndEveryExampleFits) {
  const Json& components = schemas.description()["components"];
  for (const auto& [name, schema] : components["schemas"].items()) {
    ASSERT_TRUE(schema.contains("example")) << name;
    EXPECT_THAT(schemas.check(schema["example"], schema, name), IsEmpty());
  }
  std::function<void(const Json&)> walk = [&](const Json& node) {
    if (node.is_object() && node.contains("$ref")) {
      EXPECT_NO_THROW(schemas.resolve(node)) << node.dump();
    }
    for (const auto& child : node) {
      if (child.is_structured()) walk(child);
    }
  };
  walk(schemas.description());
}

/// An example of a request's body must be what the server's reader takes.
template <typename Body>
void takes(const Schemas& schemas, const std::string& name) {
  const Json& schema = schemas.description()["components"]["schemas"][name];
  wire::Faults faults;
  Body body;
  wire::read(schema["example"], body, faults);
  EXPECT_TRUE(faults.empty()) << name << ": " << (faults.empty() ? "" : faults[0].detail);
  // The reader knows exactly the described members.
  Json strange = schema["example"];
  strange["strange"] = 1;
  wire::read(strange, body, faults);
  ASSERT_EQ(faults.size(), 1U) << name;
  for (const auto& [member, ignored] : schema["properties"].items()) {
    EXPECT_THAT(faults[0].detail, testing::HasSubstr(member)) << name;
  }
  // What is said to be optional can be left out, and the rest can't.
  Json least = Json::object();
  for (const auto& member : schema["required"]) {
    least[member.get<std::string>()] = schema["example"][member.get<std::string>()];
  }
  faults.clear();
  wire::read(least, body, faults);
  EXPECT_TRUE(faults.empty()) << name;
  for (const auto& member : schema["required"]) {
    Json without = least;
    without.erase(member.get<std::string>());
    faults.clear();
    wire::read(without, body, faults);
    EXPECT_FALSE(faults.empty()) << name << " without " << member;
  }
}

TEST_F(Description, RequestsAreReadAsDescribed) {
  takes<wire::HostBody>(schemas, "HostCreate");
  takes<wire::PoolBody>(schemas, "PoolCreate");
  takes<wire::AutoscaleBody>(schemas, "Autoscale");
  takes<wire::RebalancingBody>(schemas, "RebalancingSetting");
  takes<wire::MetricBody>(schemas, "PoolMetric");
  takes<wire::QuotaBody>(schemas, "Quota");
  takes<wire::VmStartBody>(schemas, "VmStart");
  takes<wire::VmStopBody>(schemas, "VmStop");
  takes<wire::MigrationBody>(schemas, "MigrationCreate");
  takes<wire::ReportBody>(schemas, "MigrationReport");
  takes<wire::JobBody>(schemas, "JobCreate");
  takes<wire::RestartBody>(schemas, "JobRestart");
  takes<wire::LayoutBody>(schemas, "JobLayout");
  takes<wire::EvacuationBody>(schemas, "Evacuation");
  takes<wire::DrainBody>(schemas, "MovePolicyChange");
}

TEST_F(Description, ListsOfNamesAreTheModels) {
  const Json& all = schemas.description()["components"]["schemas"];
  const auto names = [&](const std::string& schema, const std::string& member, auto last) {
    Json expected = Json::array();
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      expected.push_back(to_string(static_cast<decltype(last)>(i)));
    }
    EXPECT_EQ(all[schema]["properties"][member]["enum"], expected) << schema << " " << member;
  };
  names("Host", "admin", HostAdmin::Drained);
  names("Host", "health", HostHealth::Down);
  names("Vm", "state", VmState::Lost);
  names("Job", "state", JobState::Cancelled);
  names("Operation", "kind", OperationKind::PlanEvacuate);
  names("Autoscale", "source", MetricSource::Prometheus);
  names("Operation", "outcome", Outcome::NeedsOperator);
  names("Problem", "code", Code::Internal);
}

TEST_F(Description, LimitsOfAPolicyAreTheModels) {
  const Json& all = schemas.description()["components"]["schemas"];
  for (const char* name : {"MigrationCreate", "MovePolicyChange"}) {
    const Json& bandwidth = all[name]["properties"]["bandwidth_limit_bytes_per_s"];
    EXPECT_EQ(bandwidth["minimum"].get<double>(), kLeastBandwidthLimit.value) << name;
    EXPECT_EQ(bandwidth["maximum"].get<double>(), kMostBandwidthLimit.value) << name;
    const Json& downtime = all[name]["properties"]["downtime_limit_ms"];
    EXPECT_EQ(downtime["maximum"].get<std::int64_t>(), kMostDowntimeLimit.count()) << name;
    Json names = Json::array();
    for (int i = 0; i < kStrategies; ++i) names.push_back(to_string(static_cast<Strategy>(i)));
    names.push_back(nullptr);
    EXPECT_EQ(all[name]["properties"]["strategy"]["enum"], names) << name;
  }
}

/// The first column of the table in docs/api.md; a row may name several.
std::set<std::string> documented_metrics() {
  std::ifstream page(MARE_API_PAGE);
  std::set<std::string> out;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `mare_")) continue;
    // Each name is between two backquotes, and nothing else is.
    std::istringstream column(line.substr(0, line.find('|', 1)));
    for (std::string between, name;
         std::getline(column, between, '`') && std::getline(column, name, '`');) {
      out.insert(name);
    }
  }
  return out;
}

TEST_F(Description, ThePageNamesEveryMetric) {
  world.add_hosts(1);
  world.finish(world.post("/api/v1/rebalancing:run", "{}"));  // or its score is not told
  std::istringstream lines(world.get("/metrics").body);
  std::set<std::string> exported;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, type, name;
    if (words >> hash >> type >> name && hash == "#" && type == "TYPE") exported.insert(name);
  }
  EXPECT_EQ(documented_metrics(), exported);
}

TEST_F(Description, NoMemberIsThereTwice) {
  wire::Faults faults;
  EXPECT_TRUE(wire::parse_json(world.get("/api/v1/openapi.json").body, faults));
  for (const auto& fault : faults) ADD_FAILURE() << fault.detail;
}

TEST_F(Description, VersionIsFilledIn) {
  EXPECT_THAT(schemas.description()["info"]["version"].get<std::string>(),
              testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(schemas.description()["openapi"], "3.1.0");
}

TEST(SchemaChecker, SeesFaults) {
  const Schemas schemas{Json::parse(R"({"components":{"schemas":{"A":{"type":"object",
    "required":["n"],"properties":{"n":{"type":"integer","minimum":1},
    "s":{"type":["string","null"],"enum":["x",null]},"l":{"type":"array","items":
    {"$ref":"#/components/schemas/A"}}}}}}})")};
  const Json ref{{"$ref", "#/components/schemas/A"}};
  EXPECT_THAT(schemas.check(Json::parse(R"({"n":1,"s":null,"l":[{"n":2}]})"), ref), IsEmpty());
  for (const char* bad : {R"({})", R"({"n":0})", R"({"n":1.5})", R"({"n":1,"s":"y"})", R"([])",
                          R"({"n":1,"l":[{"n":0}]})", R"({"n":1,"z":1})"}) {
    EXPECT_EQ(schemas.check(Json::parse(bad), ref).size(), 1U) << bad;
  }
}

}  // namespace
}  // namespace mare::test
