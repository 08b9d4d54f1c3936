// Forecasts over REST, from a dry run to what came of the move; every reply checked against the
// description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rest/rest_world.h"
#include "tests/rest/schema.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using wire::Json;

class Forecasts : public testing::Test {
 protected:
  void SetUp() override {
    world.add_hosts(2);
    world.add_pool("p", 1);
  }
  Got described(const std::string& operation_id, const Got& got) {
    EXPECT_THAT(schemas.check_reply(operation_id, got.status, got.header("content-type"), got.body),
                IsEmpty());
    return got;
  }
  Json get(const std::string& operation_id, const std::string& path) {
    return described(operation_id, world.get("/api/v1/" + path)).json();
  }
  Json move(const std::string& body = "{}", const std::string& outcome = "succeeded") {
    return world.finish(described("migrateVm", world.post("/api/v1/vms/p-0/migrations", body)),
                        outcome);
  }
  Json dry_run(const std::string& body = "{}") {
    return world.finish(
        described("migrateVm", world.post("/api/v1/vms/p-0/migrations?dry_run=true", body)));
  }
  static const Json& strategy(const Json& forecast, const std::string& name) {
    for (const auto& one : forecast["strategies"]) {
      if (one["strategy"] == name) return one;
    }
    ADD_FAILURE() << name << " is not in " << forecast.dump();
    return forecast;
  }

  RestWorld world;
  Schemas schemas{world.get("/api/v1/openapi.json").json()};
};

TEST_F(Forecasts, ADryRunTellsOfEveryStrategyAndMovesNothing) {
  const std::string host = get("getVm", "vms/p-0")["host"];
  const Json operation = dry_run();
  EXPECT_EQ(operation["kind"], "forecast.make");
  const std::string id = operation["id"];
  const Json forecast = get("getForecast", "forecasts/" + id);
  EXPECT_EQ(forecast["source"], host);
  EXPECT_EQ(forecast["reason"], operation["reason"]);
  EXPECT_EQ(forecast["strategies"].size(), 8U);
  const Json& said = strategy(forecast, "stop-and-copy");
  EXPECT_TRUE(said["offered"].get<bool>());
  EXPECT_GT(said["total_time_s"]["value"].get<double>(), 0);
  EXPECT_LE(said["total_time_s"]["low"].get<double>(), said["total_time_s"]["value"].get<double>());
  const Json& by_file = strategy(forecast, "checkpoint-restart");
  EXPECT_TRUE(by_file["offered"].get<bool>()) << by_file.dump();
  // Written, and read.
  EXPECT_GT(by_file["downtime_s"]["value"].get<double>(),
            said["downtime_s"]["value"].get<double>());
  EXPECT_TRUE(forecast["outcome"].is_null());
  EXPECT_EQ(get("getVm", "vms/p-0")["host"], host);
  EXPECT_EQ(get("listMigrations", "migrations")["items"].size(), 0U);
  EXPECT_EQ(described("getMigration", world.get("/api/v1/migrations/" + id)).status, 404);
  EXPECT_EQ(get("listForecasts", "forecasts?vm=p-0")["items"].size(), 1U);
  EXPECT_EQ(get("listForecasts", "forecasts?vm=p-1")["items"].size(), 0U);
}

TEST_F(Forecasts, AMoveThroughAFileTellsItsThreeTimes) {
  const std::string id = move(R"({"strategy":"checkpoint-restart"})")["id"];
  const Json row = get("getMigration", "migrations/" + id);
  EXPECT_EQ(row["outcome"], "succeeded") << row.dump();
  EXPECT_EQ(row["strategy"], "checkpoint-restart");
  const double all = row["check_ms"].get<double>() + row["trans_ms"].get<double>() +
                     row["restart_ms"].get<double>();
  EXPECT_NEAR(all, row["downtime_ms"]["hypervisor"].get<double>(), 0.01);
  EXPECT_GT(row["check_ms"].get<double>(), 0);
  EXPECT_EQ(get("getForecast", "forecasts/" + id)["outcome"]["strategy"], "checkpoint-restart");
  const Json told = get("explainMigration", "migrations/" + id + "/explanation");
  EXPECT_THAT(told["sentence"].get<std::string>(), testing::HasSubstr(" Check took "));
  const std::string other = move(R"({"strategy":"stop-and-copy"})")["id"];
  EXPECT_TRUE(get("getMigration", "migrations/" + other)["check_ms"].is_null());
  const std::string metrics = world.get("/metrics").body;
  EXPECT_NE(metrics.find("mare_migration_restart_phase_seconds_count{phase=\"trans\"} 1"),
            std::string::npos);
}

TEST_F(Forecasts, AMigrationBeginsWithOneAndIsExplained) {
  const std::string id = move(R"({"strategy":"pre-copy"})")["id"];
  const Json forecast = get("getForecast", "forecasts/" + id);
  ASSERT_TRUE(forecast["outcome"].is_object());
  EXPECT_EQ(forecast["outcome"]["strategy"], "pre-copy");
  const Json told = get("explainMigration", "migrations/" + id + "/explanation");
  EXPECT_EQ(told["strategy"], "pre-copy");
  ASSERT_EQ(told["figures"].size(), 4U);
  const Json migration = get("getMigration", "migrations/" + id);
  EXPECT_DOUBLE_EQ(told["figures"][0]["actual"].get<double>() * 1000,
                   migration["total_time_ms"].get<double>());
  EXPECT_DOUBLE_EQ(told["figures"][0]["forecast"].get<double>(),
                   strategy(forecast, "pre-copy")["total_time_s"]["value"].get<double>());
  EXPECT_TRUE(told["figures"][3]["actual"].is_null()) << "nobody reported it";
  ASSERT_GE(told["rounds"].size(), migration["rounds"].size());
  EXPECT_EQ(told["rounds"][0]["actual"]["sent_bytes"], migration["rounds"][0]["sent_bytes"]);
  EXPECT_GT(told["rounds"][0]["forecast"]["sent_bytes"].get<double>(), 0);
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr("pre-copy took "));
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr(" of 3 figures"));
}

TEST_F(Forecasts, AReportIsKeptAndCounted) {
  const std::string id = move()["id"];
  const std::string path = "/api/v1/migrations/" + id + ":report";
  const Got kept = described("reportMigration", world.post(path, R"({"added_job_time_s":0.75})"));
  ASSERT_EQ(kept.status, 200) << kept.body;
  EXPECT_EQ(kept.json()["outcome"]["added_job_time_s"], 0.75);
  const Json told = get("explainMigration", "migrations/" + id + "/explanation");
  EXPECT_EQ(told["figures"][3]["actual"], 0.75);
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr("cost the job 750 ms"));
  const Json accuracy = get("getAccuracy", "forecasts/accuracy");
  EXPECT_EQ(accuracy["forecasts"], 1);
  EXPECT_EQ(accuracy["added_job_time_s"]["moves"], 1);
  const std::string metrics = world.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("mare_forecasts 1\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_forecasts_scored 1\n"));
  EXPECT_THAT(metrics,
              HasSubstr("mare_forecast_error_ratio{strategy=\"all\",quantity=\"total_time\","
                        "quantile=\"0.5\"}"));
  EXPECT_THAT(metrics, HasSubstr("mare_forecast_coverage_ratio{strategy=\"all\",quantity="
                                 "\"added_job_time\"}"));
}

TEST_F(Forecasts, AccuracyIsSplitAndLimitedToATime) {
  const std::string first = move(R"({"strategy":"pre-copy"})")["id"];
  const std::string made = get("getForecast", "forecasts/" + first)["made"];
  const std::string second = move(R"({"strategy":"stop-and-copy"})")["id"];
  const std::string later = get("getForecast", "forecasts/" + second)["made"];
  const auto accuracy = [&](const std::string& query) {
    return get("getAccuracy", "forecasts/accuracy" + query);
  };
  const Json all = accuracy("");
  EXPECT_EQ(all["forecasts"], 2);
  EXPECT_EQ(all["total_time_s"]["moves"], 2);
  EXPECT_TRUE(all["by"].is_null());
  EXPECT_TRUE(all["groups"].empty());
  const Json by_strategy = accuracy("?by=strategy");
  EXPECT_EQ(by_strategy["total_time_s"], all["total_time_s"]);
  ASSERT_EQ(by_strategy["groups"].size(), 2U);
  EXPECT_EQ(by_strategy["groups"][0]["strategy"], "pre-copy");
  EXPECT_EQ(by_strategy["groups"][0]["total_time_s"]["moves"], 1);
  EXPECT_TRUE(by_strategy["groups"][0]["source"].is_null());
  EXPECT_EQ(by_strategy["groups"][1]["strategy"], "stop-and-copy");
  // There and back again.
  const Json pairs = accuracy("?by=pair")["groups"];
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0]["source"], pairs[1]["destination"]);
  const Json programs = accuracy("?by=program")["groups"];
  ASSERT_EQ(programs.size(), 1U);
  EXPECT_TRUE(programs[0]["program"].is_null());
  EXPECT_EQ(programs[0]["total_time_s"]["moves"], 2);
  const Json newer = accuracy("?by=strategy&since=" + later);
  EXPECT_EQ(newer["since"], later);
  EXPECT_EQ(newer["forecasts"], 1);
  ASSERT_EQ(newer["groups"].size(), 1U);
  EXPECT_EQ(newer["groups"][0]["strategy"], "stop-and-copy");
  EXPECT_EQ(accuracy("?since=" + made)["forecasts"], 2);
}

TEST_F(Forecasts, VerdictsAreScoredAndCounted) {
  const std::string id = move(R"({"strategy":"pre-copy"})")["id"];
  const Json forecast = get("getForecast", "forecasts/" + id);
  ASSERT_TRUE(strategy(forecast, "pre-copy")["converges"].get<bool>());
  ASSERT_FALSE(strategy(forecast, "pre-copy")["end_unsure"].get<bool>());
  const Json right{{"sending", 1}, {"strategy", "pre-copy"}, {"score", "right"}};
  EXPECT_EQ(forecast["verdicts"], Json::array({right}));
  // At 1 MiB/s its guest writes more than is sent; it is stopped after a second and a half.
  const std::string stopped =
      move(R"({"strategy":"pre-copy","bandwidth_limit_bytes_per_s":1048576,)"
           R"("time_limit_s":1.5,"force":true})",
           "failed")["id"];
  const Json foretold = get("getForecast", "forecasts/" + stopped);
  EXPECT_FALSE(strategy(foretold, "pre-copy")["converges"].get<bool>())
      << foretold["strategies"].dump();
  EXPECT_TRUE(foretold["outcome"].is_null());
  EXPECT_EQ(foretold["verdicts"], Json::array({right}));
  move(R"({"strategy":"stop-and-copy"})");
  const Json two{{"right", 2}, {"wrong", 0}, {"open", 0}};
  const Json accuracy = get("getAccuracy", "forecasts/accuracy?by=strategy");
  EXPECT_EQ(accuracy["verdicts"], two);
  ASSERT_EQ(accuracy["groups"].size(), 2U);
  EXPECT_EQ(accuracy["groups"][0]["verdicts"], two);
  EXPECT_EQ(accuracy["groups"][0]["total_time_s"]["moves"], 1) << "one moved nothing";
  EXPECT_EQ(accuracy["groups"][1]["verdicts"]["right"], 0) << "stop-and-copy always ends";
  const std::string metrics = world.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("mare_forecast_verdicts{strategy=\"pre-copy\","
                                 "verdict=\"right\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_forecast_verdicts{strategy=\"compressed\","
                                 "verdict=\"wrong\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_forecast_bias_ratio{strategy=\"pre-copy\",quantity="
                                 "\"total_time\"}"));
  EXPECT_THAT(metrics,
              HasSubstr("mare_migration_duration_seconds_count{strategy=\"stop-and-copy\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_migration_downtime_seconds_count{seen_by=\"hypervisor\","
                                 "strategy=\"stop-and-copy\"} 1\n"));
}

TEST_F(Forecasts, MetricsTellWhatForecastsSawOfMemory) {
  EXPECT_THAT(world.get("/metrics").body, Not(HasSubstr("mare_host_wws_bytes{")));
  dry_run();
  const std::string host = get("getVm", "vms/p-0")["host"];
  const std::string metrics = world.get("/metrics").body;
  const std::string of = "{host=\"" + host + "\"} ";
  EXPECT_THAT(metrics, HasSubstr("mare_host_vms_forecast" + of + "1\n"));
  EXPECT_THAT(metrics, HasSubstr("mare_host_wws_bytes" + of));
  EXPECT_THAT(metrics, HasSubstr("mare_host_dirty_log_cost_ratio" + of + "0\n"));
}

TEST_F(Forecasts, AReportThatFitsNothingIsRefused) {
  const std::string dry = dry_run()["id"];
  const auto report = [&](const std::string& id, const std::string& body) {
    return described("reportMigration", world.post("/api/v1/migrations/" + id + ":report", body));
  };
  EXPECT_EQ(report(dry, R"({"added_job_time_s":1})").status, 404);
  EXPECT_EQ(report("op-99", R"({"added_job_time_s":1})").status, 404);
  EXPECT_EQ(report(dry, "{}").status, 400);
  EXPECT_EQ(report(dry, R"({"added_job_time_s":"much"})").status, 400);
}

TEST_F(Forecasts, APoolsPolicyIsChangedAndTaken) {
  const auto patch = [&](const std::string& body, const std::string& pool = "p") {
    return described("patchPool", world.patch("/api/v1/pools/" + pool, body));
  };
  const auto strategy_of = [&](const Json& moved) -> Json {
    return get("getMigration", "migrations/" + moved["id"].get<std::string>())["strategy"];
  };
  const Got set = patch(R"({"move_policy":{"strategy":"stop-and-copy","time_limit_s":90}})");
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json()["move_policy"]["priority"], "manual");
  EXPECT_EQ(patch(R"({"move_policy":{"time_limit_s":null}})").status, 200);
  const Json pool = get("getPool", "pools/p");
  EXPECT_EQ(pool["move_policy"]["strategy"], "stop-and-copy");
  EXPECT_TRUE(pool["move_policy"]["time_limit_s"].is_null());
  EXPECT_EQ(strategy_of(move()), "stop-and-copy");
  EXPECT_EQ(strategy_of(move(R"({"strategy":"hybrid"})")), "hybrid");
  const std::string forecast = dry_run()["id"];
  EXPECT_EQ(get("getForecast", "forecasts/" + forecast)["choice"], "stop-and-copy");
  EXPECT_EQ(patch(R"({"move_policy":{"priority":"manual","strategy":null}})").status, 400);
  EXPECT_EQ(patch(R"({"move_policy":{"bandwidth_limit_bytes_per_s":10}})").status, 400);
  EXPECT_EQ(patch(R"({"strategy":"hybrid"})").status, 400);
  EXPECT_EQ(patch(R"({"move_policy":{}})", "nope").status, 404);
}

TEST_F(Forecasts, WithoutAnOutcomeTheExplanationSaysWhy) {
  const auto stream = world.follow("/api/v1/events", {"Accept: text/event-stream"});
  ASSERT_TRUE(stream->wait_for_text(": hello"));
  // 1 MiB/s: it can be cancelled before it ends, but its forecast was made when pages are sent.
  const Got slow = world.post("/api/v1/vms/p-0/migrations",
                              R"({"strategy":"pre-copy","bandwidth_limit_bytes_per_s":1048576})");
  const std::string id = slow.json()["id"];
  ASSERT_TRUE(stream->wait_for_text("PreCopying"));
  world.post("/api/v1/operations/" + id + ":cancel", "");
  world.finish(slow, "cancelled");
  const Json told = get("explainMigration", "migrations/" + id + "/explanation");
  EXPECT_THAT(told["sentence"].get<std::string>(), HasSubstr("did not move its VM"));
  EXPECT_EQ(described("explainMigration", world.get("/api/v1/migrations/op-99/explanation")).status,
            404);
}

TEST_F(Forecasts, ADrainIsForecastWithoutBeingDone) {
  const std::string host = get("getVm", "vms/p-0")["host"];
  const Json plan = world.finish(
      described("drainHost", world.post("/api/v1/hosts/" + host + ":drain?dry_run=true", "")));
  EXPECT_EQ(plan["kind"], "plan.drain");
  EXPECT_THAT(plan["reason"].get<std::string>(), HasSubstr("1 VM would move in "));
  const Json children =
      get("listOperations", "operations?parent=" + plan["id"].get<std::string>())["items"];
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(get("getForecast", "forecasts/" + children[0]["id"].get<std::string>())["vm"], "p-0");
  EXPECT_EQ(get("getHost", "hosts/" + host)["admin"], "active");
  EXPECT_EQ(get("getVm", "vms/p-0")["host"], host);
}

TEST_F(Forecasts, AVmsMemoryIsAskedOfItsHost) {
  const Json memory = get("getVmMemory", "vms/p-0/memory");
  EXPECT_EQ(memory["vm"], "p-0");
  EXPECT_EQ(memory["profile"]["source"], "sim");
  EXPECT_EQ(memory["profile"]["heat"].size(), 64U);
  EXPECT_EQ(described("getVmMemory", world.get("/api/v1/vms/nobody/memory")).status, 404);
  world.finish(world.post("/api/v1/vms/p-0:stop", R"({"force":true})"));
  const Got stopped = described("getVmMemory", world.get("/api/v1/vms/p-0/memory"));
  EXPECT_EQ(stopped.status, 409);
  EXPECT_EQ(stopped.json()["code"], "failed_precondition");
}

TEST_F(Forecasts, KnobsThatAreSetAreTheOnesThatAreSent) {
  const Json operation = dry_run(R"({"strategy":"hybrid","knobs":{"pre_copy_rounds":3}})");
  const Json forecast = get("getForecast", "forecasts/" + operation["id"].get<std::string>());
  EXPECT_EQ(forecast["sending"]["pre_copy_rounds"], 3);
  EXPECT_EQ(forecast["policy"]["knobs"], Json({{"pre_copy_rounds", 3}}));
  for (const auto& one : forecast["strategies"]) {
    EXPECT_TRUE(one["offered"].get<bool>())
        << one.dump() << ": the knobs of another are not its own";
  }
  const std::string id =
      move(R"({"strategy":"throttled","knobs":{"throttle_initial_percent":33}})")["id"];
  const Json moved = get("getForecast", "forecasts/" + id);
  EXPECT_EQ(moved["sending"]["throttle_initial_percent"], 33);
  for (const char* bad :
       {R"({"knobs":{"rate_gain":1}})", R"({"strategy":"hybrid","knobs":{"rate_gain":1}})",
        R"({"strategy":"hybrid","knobs":{"pre_copy_rounds":11}})"}) {
    const Got got = described("migrateVm", world.post("/api/v1/vms/p-0/migrations", bad));
    EXPECT_EQ(got.status, 400) << bad;
    EXPECT_THAT(got.body, HasSubstr("/knobs")) << bad;
  }
}

TEST_F(Forecasts, APoolKeepsItsKnobsUntilItsStrategyChanges) {
  const auto patch = [&](const std::string& policy) {
    const Got got =
        described("patchPool", world.patch("/api/v1/pools/p", R"({"move_policy":)" + policy + "}"));
    EXPECT_EQ(got.status, 200) << got.body;
    return get("getPool", "pools/p")["move_policy"]["knobs"];
  };
  EXPECT_EQ(patch(R"({"strategy":"throttled","knobs":{"throttle_step_percent":5}})"),
            Json({{"throttle_step_percent", 5}}));
  EXPECT_EQ(patch(R"({"time_limit_s":60})"), Json({{"throttle_step_percent", 5}}));
  EXPECT_TRUE(patch(R"({"strategy":"hybrid"})").is_null());
}

TEST_F(Forecasts, BadInputIsRefused) {
  const auto status = [&](const std::string& query, const std::string& body) {
    return described("migrateVm", world.post("/api/v1/vms/p-0/migrations" + query, body)).status;
  };
  EXPECT_EQ(status("?dry_run=maybe", "{}"), 400);
  EXPECT_EQ(status("?dryrun=true", "{}"), 400);
  EXPECT_EQ(status("?dry_run=true", R"({"priority":"fast"})"), 400);
  EXPECT_EQ(status("?dry_run=true", R"({"destination":"nowhere"})"), 404);
  EXPECT_EQ(described("getForecast", world.get("/api/v1/forecasts/op-99")).status, 404);
  for (const char* bad : {"vm=x", "by=host", "since=yesterday"}) {
    const Got got =
        described("getAccuracy", world.get(std::string("/api/v1/forecasts/accuracy?") + bad));
    EXPECT_EQ(got.status, 400) << bad;
  }
  const Got named = described(
      "migrateVm", world.post("/api/v1/vms/p-0/migrations?dry_run=true", R"({"strategy":"fast"})"));
  EXPECT_EQ(named.status, 400);
  for (int i = 0; i < kStrategies; ++i) {
    EXPECT_THAT(named.body, HasSubstr(std::string(to_string(static_cast<Strategy>(i)))));
  }
  EXPECT_EQ(described("drainHost", world.post("/api/v1/hosts/h1:drain?dry_run=1", "")).status, 400);
}

TEST_F(Forecasts, AHostThatIsSlowerIsTold) {
  world.finish(world.post("/api/v1/hosts",
                          R"({"id":"h9","address":"sim:///h9?memory_mib=2048&speed=0.5"})"));
  EXPECT_EQ(get("getHost", "hosts/h1")["cpu_speed"], 1);
  EXPECT_EQ(get("getHost", "hosts/h9")["cpu_speed"], 0.5);
  EXPECT_THAT(world.get("/metrics").body, HasSubstr("mare_host_cpu_speed{host=\"h9\"} 0.5\n"));
  const auto said = [&](const std::string& destination) {
    const std::string id = dry_run(R"({"destination":")" + destination + R"("})")["id"];
    return get("getForecast", "forecasts/" + id);
  };
  const std::string other = get("getVm", "vms/p-0")["host"] == "h1" ? "h2" : "h1";
  EXPECT_EQ(said(other)["destination_speed"], 1);
  EXPECT_TRUE(said(other)["tightness"].is_null()) << "no job is there";
  const Json slower = said("h9");
  EXPECT_EQ(slower["destination_speed"], 0.5);
  EXPECT_THAT(slower["reason"].get<std::string>(),
              HasSubstr("'h9' computes 0.50 times as fast as"));
}

TEST_F(Forecasts, AJobTellsHowTightlyItsRanksWait) {
  const Json submitted =
      described("submitJob",
                world.post("/api/v1/jobs",
                           R"({"pool":"p","command":["farm","--sim-work=60"],"tightness":0.25})"))
          .json();
  const std::string job = "jobs/" + submitted["target"].get<std::string>();
  for (int i = 0; i < 1200 && get("getJob", job)["state"] != "running"; ++i) {
    world.clock.sleep_for(Milliseconds{25});
  }
  EXPECT_EQ(get("getJob", job)["tightness"], 0.25);
  const Json loose = get("getForecast", "forecasts/" + dry_run()["id"].get<std::string>());
  EXPECT_EQ(loose["tightness"], 0.25);
  const Json& stop = strategy(loose, "stop-and-copy");
  EXPECT_LT(stop["added_job_time_s"]["value"].get<double>(),
            stop["downtime_s"]["value"].get<double>() / 2);
}

TEST_F(Forecasts, HostsTellWhatTheyOffer) {
  const Json host = get("getHost", "hosts/h1");
  EXPECT_EQ(host["dirty_log"], "sim");
  EXPECT_EQ(host["migration_tls"], false);
  EXPECT_TRUE(host["migration_address"].is_null()) << "a simulated one has none";
  EXPECT_TRUE(host["dirty_log_why"].is_null());
  EXPECT_THAT(host["strategies"].get<std::vector<std::string>>(), testing::Contains("post-copy"));
}

}  // namespace
}  // namespace mare::test
