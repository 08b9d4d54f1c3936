// Event streams and followed outputs: order, resuming, endings, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/rest/rest_world.h"

namespace mare::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kStream{"Accept: text/event-stream"};

class Streams : public testing::Test {
 protected:
  /// Appends `count` events; answers the last one's number.
  std::uint64_t add_events(RestWorld& world, int count, const std::string& topic = "vm",
                           std::size_t size = 10) {
    auto done = world.store->write([&](store::Transaction& tx) -> Status {
      for (int i = 0; i < count; ++i) {
        const Event event{
            0,        world.clock.wall_now(), topic,
            "demo-0", topic + ".state",       R"({"filler":")" + std::string(size, 'x') + "\"}"};
        if (auto added = tx.append(event); !added) return added;
      }
      return ok_status();
    });
    EXPECT_TRUE(done.ok());
    std::uint64_t last = 0;
    auto read = world.store->read([&](const store::Reader& reader) -> Status {
      last = *reader.last_event();
      return ok_status();
    });
    EXPECT_TRUE(read.ok());
    return last;
  }

  /// A job row with an output file, as if it ran.
  JobId running_job(RestWorld& world, const std::string& id) {
    put_job(world, id, JobState::Running);
    std::filesystem::create_directories(
        std::filesystem::path(world.engine->output_file(JobId{id})).parent_path());
    return JobId{id};
  }
  void put_job(RestWorld& world, const std::string& id, JobState state) {
    Job job;
    job.id = JobId{id};
    job.name = "x";
    job.pool = PoolId{"p"};
    job.command = {"/x"};
    job.state = state;
    EXPECT_TRUE(world.store->write([&](store::Transaction& tx) { return tx.put(job); }).ok());
  }
  void write_output(RestWorld& world, const JobId& job, const std::string& text) {
    std::ofstream(world.engine->output_file(job), std::ios::app | std::ios::binary) << text;
  }

  static rest::RestOptions quick_options() {
    rest::RestOptions options;
    options.heartbeat = Milliseconds{150};
    return options;
  }
};

std::vector<std::uint64_t> ids_in(const std::string& stream) {
  std::vector<std::uint64_t> out;
  for (std::size_t at = stream.find("id: "); at != std::string::npos;
       at = stream.find("\nid: ", at + 1)) {
    out.push_back(std::stoull(stream.substr(stream.find("id: ", at) + 4)));
  }
  return out;
}

TEST_F(Streams, EventsComeAsTheyHappen) {
  RestWorld world;
  const auto before = add_events(world, 3);
  const auto stream = world.follow("/api/v1/events", kStream);
  ASSERT_TRUE(stream->wait_for_text(": hello"));
  world.add_hosts(1);
  ASSERT_TRUE(stream->wait_for_text("\"outcome\":\"succeeded\""));
  const auto ids = ids_in(stream->text());
  ASSERT_FALSE(ids.empty());
  EXPECT_EQ(ids.front(), before + 1);  // From now on, not from the beginning.
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(ids[i], ids[i - 1] + 1);
  EXPECT_THAT(stream->text(), HasSubstr("event: operation.created\ndata: {"));
}

TEST_F(Streams, ResumeWhereTheyBroke) {
  RestWorld world(quick_options());
  const auto last = add_events(world, 600);
  const auto stream =
      world.follow("/api/v1/events", {kStream[0], "Last-Event-ID: " + std::to_string(last - 590)});
  ASSERT_TRUE(stream->wait_for_text("id: " + std::to_string(last) + "\n"));
  const auto ids = ids_in(stream->text());
  ASSERT_EQ(ids.size(), 590U);
  EXPECT_EQ(ids.front(), last - 589);
  // The header wins over ?after=, and an id of the future means now.
  const auto both = world.follow("/api/v1/events?after=0",
                                 {kStream[0], "Last-Event-ID: " + std::to_string(last - 1)});
  ASSERT_TRUE(both->wait_for_text("id: " + std::to_string(last) + "\n"));
  EXPECT_EQ(ids_in(both->text()).size(), 1U);
  const auto future = world.follow("/api/v1/events", {kStream[0], "Last-Event-ID: 999999"});
  ASSERT_TRUE(future->wait_for_text(": hello"));
  const auto next = add_events(world, 1);
  ASSERT_TRUE(future->wait_for_text("id: " + std::to_string(next) + "\n"));
}

TEST_F(Streams, AWrongLastEventIdIsTold) {
  RestWorld world;
  Sending sending;
  sending.url = world.url("/api/v1/events");
  sending.headers = world.token_header();
  sending.headers.push_back(kStream[0]);
  sending.headers.emplace_back("Last-Event-ID: seven");
  const Got got = send(sending);
  EXPECT_EQ(got.status, 400);
  EXPECT_THAT(got.body, HasSubstr("'seven'"));
}

TEST_F(Streams, TopicsAreChosen) {
  RestWorld world;
  add_events(world, 3, "vm");
  add_events(world, 2, "job");
  add_events(world, 3, "host");
  const auto stream = world.follow("/api/v1/events?topics=job,host&after=0", kStream);
  ASSERT_TRUE(stream->wait([](const std::string& text) { return ids_in(text).size() == 5; }));
  EXPECT_THAT(stream->text(), Not(HasSubstr("vm.state")));
  const auto page = world.get("/api/v1/events?topics=job").json();
  EXPECT_EQ(page["items"].size(), 2U);
  EXPECT_EQ(page["next_after"], 8);
}

TEST_F(Streams, PagesOfEventsGoOn) {
  RestWorld world;
  add_events(world, 25);
  std::uint64_t after = 0;
  std::size_t seen = 0;
  for (int i = 0; i < 5; ++i) {
    const auto page = world.get("/api/v1/events?limit=10&after=" + std::to_string(after)).json();
    seen += page["items"].size();
    after = page["next_after"];
  }
  EXPECT_EQ(seen, 25U);
  EXPECT_EQ(after, 25U);
}

TEST_F(Streams, QuietOnesBeat) {
  RestWorld world(quick_options());
  const auto stream = world.follow("/api/v1/events", kStream);
  EXPECT_TRUE(stream->wait([](const std::string& text) {
    const auto first = text.find(": ping\n\n");
    return first != std::string::npos && text.find(": ping\n\n", first + 1) != std::string::npos;
  }));
}

TEST_F(Streams, ASlowClientCostsNoMoreThanItsBuffer) {
  rest::RestOptions options = quick_options();
  options.stall = Milliseconds{1500};
  RestWorld world(options);
  auto headers = world.token_header();
  headers.push_back(kStream[0]);
  const auto slow = std::make_unique<Follow>(world.url("/api/v1/events"), headers, true);
  ASSERT_TRUE(slow->wait_for_text(": hello"));
  slow->stop_reading();
  // More than sockets and the buffer hold.
  const auto last = add_events(world, 4000, "vm", 2000);
  const auto quick = world.follow("/api/v1/events", kStream);
  ASSERT_TRUE(quick->wait_for_text(": hello"));
  const auto next = add_events(world, 1);
  EXPECT_EQ(next, last + 1);
  // The others go on meanwhile, and the slow one is cut off in the end.
  EXPECT_TRUE(quick->wait_for_text("id: " + std::to_string(next) + "\n"));
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) {
    gone = world.get("/metrics").body.find("mare_http_streams 1\n") != std::string::npos;
    world.clock.sleep_for(std::chrono::milliseconds{100});
  }
  EXPECT_TRUE(gone);
}

TEST_F(Streams, ThoseWhoLeftAreForgotten) {
  RestWorld world(quick_options());
  for (int i = 0; i < 5; ++i) {
    const auto stream = world.follow("/api/v1/events", kStream);
    ASSERT_TRUE(stream->wait_for_text(": hello"));
  }
  bool none = false;
  for (int i = 0; i < 100 && !none; ++i) {
    none = world.get("/metrics").body.find("mare_http_streams 0\n") != std::string::npos;
    world.clock.sleep_for(std::chrono::milliseconds{100});
  }
  EXPECT_TRUE(none);
}

TEST_F(Streams, TooManyAreRefused) {
  rest::RestOptions options;
  options.most_streams = 3;
  RestWorld world(options);
  std::vector<std::unique_ptr<Follow>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(world.follow("/api/v1/events", kStream));
    ASSERT_TRUE(open.back()->wait_for_text(": hello"));
  }
  Sending sending;
  sending.url = world.url("/api/v1/events");
  sending.headers = world.token_header();
  sending.headers.push_back(kStream[0]);
  const Got got = send(sending);
  EXPECT_EQ(got.status, 503);
  EXPECT_THAT(got.body, HasSubstr("too many streams"));
  EXPECT_EQ(got.header("retry-after"), "1");
}

TEST_F(Streams, AnOutputIsFollowedToItsEnd) {
  RestWorld world;
  const JobId job = running_job(world, "job-1");
  const auto stream = world.follow("/api/v1/jobs/job-1/output?follow=true");
  write_output(world, job, "first line\n");
  ASSERT_TRUE(stream->wait_for_text("first line\n"));
  write_output(world, job, std::string(300'000, 'y') + "\nsecond line\n");
  ASSERT_TRUE(stream->wait_for_text("second line\n"));
  write_output(world, job, "last line without end");
  put_job(world, "job-1", JobState::Succeeded);
  ASSERT_TRUE(stream->wait_end());
  const Got got = stream->result();
  EXPECT_EQ(got.failure, "");  // A proper end, with its last chunk.
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body,
            "first line\n" + std::string(300'000, 'y') + "\nsecond line\nlast line without end");
}

TEST_F(Streams, AnOutputIsFollowedFromAnOffsetAndAfterTheEnd) {
  RestWorld world;
  const JobId job = running_job(world, "job-1");
  write_output(world, job, "0123456789");
  put_job(world, "job-1", JobState::Failed);
  const auto stream = world.follow("/api/v1/jobs/job-1/output?follow=true&offset=4");
  ASSERT_TRUE(stream->wait_end());
  EXPECT_EQ(stream->result().body, "456789");
  EXPECT_EQ(stream->result().failure, "");
}

TEST_F(Streams, OutputPartsSayWhereToGoOn) {
  RestWorld world;
  const JobId job = running_job(world, "job-1");
  EXPECT_EQ(world.get("/api/v1/jobs/job-1/output").header("mare-next-offset"), "0");
  write_output(world, job, std::string(1024 * 1024 + 5, 'z'));
  Got part = world.get("/api/v1/jobs/job-1/output");
  EXPECT_EQ(part.body.size(), 1024U * 1024U);
  EXPECT_EQ(part.header("mare-complete"), "false");
  part = world.get("/api/v1/jobs/job-1/output?offset=" + part.header("mare-next-offset"));
  EXPECT_EQ(part.body, "zzzzz");
  EXPECT_EQ(part.header("mare-complete"), "false");  // It still runs.
  put_job(world, "job-1", JobState::Cancelled);
  part = world.get("/api/v1/jobs/job-1/output?offset=" + std::to_string(1024 * 1024));
  EXPECT_EQ(part.header("mare-complete"), "true");
}

TEST_F(Streams, AServerThatEndsEndsThem) {
  RestWorld world;
  running_job(world, "job-1");
  const auto events = world.follow("/api/v1/events", kStream);
  const auto output = world.follow("/api/v1/jobs/job-1/output?follow=true");
  world.add_hosts(1);
  world.add_pool("p", 1);
  const Got submitted =
      world.post("/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=600"]})");
  ASSERT_EQ(submitted.status, 202);
  const auto waiting = world.follow(submitted.header("location") + "?wait=60s");
  ASSERT_TRUE(events->wait_for_text("job.state"));
  bool waits = false;
  for (int i = 0; i < 100 && !waits; ++i) {
    waits = world.get("/metrics").body.find("mare_http_waiters 1\n") != std::string::npos;
    world.clock.sleep_for(std::chrono::milliseconds{20});
  }
  ASSERT_TRUE(waits);
  const auto begin = world.clock.now();
  world.server->stop();
  EXPECT_LT(world.clock.now() - begin, std::chrono::seconds{5});
  ASSERT_TRUE(events->wait_end());
  EXPECT_EQ(events->result().failure, "");
  // The job goes on, so its output is broken off rather than ended.
  ASSERT_TRUE(output->wait_end());
  EXPECT_NE(output->result().failure, "");
  // Those who wait get what is there.
  ASSERT_TRUE(waiting->wait_end());
  EXPECT_EQ(waiting->result().status, 200);
  EXPECT_EQ(waiting->result().json()["outcome"], "pending");
}

TEST_F(Streams, WaitersBeyondTheLimitAreAnsweredAtOnce) {
  rest::RestOptions options;
  options.most_waiters = 1;
  RestWorld world(options);
  world.add_hosts(1);
  world.add_pool("p", 1);
  const Got submitted =
      world.post("/api/v1/jobs", R"({"pool":"p","command":["/x","--sim-work=600"]})");
  const std::string path = submitted.header("location") + "?wait=60s";
  const auto first = world.follow(path);
  bool waits = false;
  for (int i = 0; i < 100 && !waits; ++i) {
    waits = world.get("/metrics").body.find("mare_http_waiters 1\n") != std::string::npos;
    world.clock.sleep_for(std::chrono::milliseconds{20});
  }
  ASSERT_TRUE(waits);
  EXPECT_EQ(world.get(path).json()["outcome"], "pending");
  world.post("/api/v1/operations/" + submitted.json()["id"].get<std::string>() + ":cancel", "");
  ASSERT_TRUE(first->wait_end());
  EXPECT_EQ(first->result().json()["outcome"], "cancelled");
}

}  // namespace
}  // namespace mare::test
