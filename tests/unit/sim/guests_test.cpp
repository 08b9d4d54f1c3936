// What runs in simulated guests.
#include "tests/unit/sim/fixture.h"

namespace mare::sim {
namespace {

class Guests : public SimTest {
 protected:
  /// A booted VM on each host and a program over both.
  void start_both() {
    ASSERT_TRUE(one->start(a));
    ASSERT_TRUE(two->start(b));
    clock.advance(10s);
    program.id = JobId{"job-1"};
    program.directory = "/jobs/job-1";
    program.arguments = {"mpirun", "--host", a.ip.text() + ":1," + b.ip.text() + ":1", "prog",
                         "--sim-work=4"};
  }
  RunStatus status() {
    auto seen = guests.run_status(address(a), program);
    EXPECT_TRUE(seen.ok());
    return seen ? *seen : RunStatus{};
  }

  VmSpec a = spec(0);
  VmSpec b = spec(1);
  GuestRun program;
};

TEST_F(Guests, AnswerWhenBootedAndOnlyWithTheToken) {
  ASSERT_TRUE(one->start(a));
  clock.advance(3s);
  EXPECT_EQ(guests.hello(address(a)).error().code, Code::Unavailable);
  clock.advance(2s);
  auto hello = guests.hello(address(a));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->uptime, 5s);
  EXPECT_EQ(guests.hello({a.id, a.ip, "wrong"}).error().code, Code::Unauthenticated);
  EXPECT_EQ(guests.hello({a.id, b.ip, "secret"}).error().code, Code::Unavailable);
}

TEST_F(Guests, ABootedAnewGuestHasAnotherBootId) {
  ASSERT_TRUE(one->start(a));
  clock.advance(5s);
  const auto first = guests.hello(address(a));
  ASSERT_TRUE(one->destroy(a.key()));
  ASSERT_TRUE(one->start(a));
  clock.advance(5s);
  const auto second = guests.hello(address(a));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->boot_id, second->boot_id);
}

TEST_F(Guests, AProgramRunsOnceAndEndsWithItsOutput) {
  start_both();
  EXPECT_EQ(status().phase, RunPhase::Unknown);
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(2s);
  auto again = guests.run(address(a), program);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->phase, RunPhase::Running);
  EXPECT_EQ(*guests.output(address(a), program, 0, 1000),
            "iteration 1 of 8\niteration 2 of 8\niteration 3 of 8\niteration 4 of 8\n");
  clock.advance(3s);
  EXPECT_EQ(status().phase, RunPhase::Exited);
  EXPECT_EQ(status().exit_code, 0);
  const auto all = *guests.output(address(a), program, 0, 1000);
  EXPECT_EQ(all.size(), status().output_bytes);
  EXPECT_NE(all.find("iteration 8 of 8\nchecksum "), std::string::npos);
  EXPECT_EQ(*guests.output(address(a), program, 2, 5), all.substr(2, 5));
  EXPECT_EQ(*guests.output(address(a), program, 10'000, 5), "");
  GuestRun other = program;
  other.id = JobId{"job-2"};
  EXPECT_EQ(guests.run(address(a), other).error().code, Code::AlreadyExists);
}

TEST_F(Guests, AProgramStallsWhileOneRankIsPaused) {
  start_both();
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(1s);
  ASSERT_TRUE(two->pause(b.key()));
  clock.advance(60s);
  EXPECT_EQ(status().phase, RunPhase::Running);
  ASSERT_TRUE(two->resume(b.key()));
  clock.advance(2900ms);
  EXPECT_EQ(status().phase, RunPhase::Running);
  clock.advance(200ms);
  EXPECT_EQ(status().phase, RunPhase::Exited);
}

TEST_F(Guests, AProgramEndsWithItsOwnExitCode) {
  start_both();
  program.arguments.emplace_back("--sim-exit=3");
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(10s);
  EXPECT_EQ(status().exit_code, 3);
}

TEST_F(Guests, ARankThatDiesEndsTheProgram) {
  start_both();
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(1s);
  ASSERT_TRUE(two->destroy(b.key()));
  EXPECT_EQ(status().exit_code, 1);
  EXPECT_NE(guests.output(address(a), program, 0, 1000)->find("lost the connection to demo-1"),
            std::string::npos);
}

TEST_F(Guests, WithTheLauncherTheExitStatusIsLost) {
  start_both();
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(1s);
  ASSERT_TRUE(cluster.kill_host(h1));
  auto seen = guests.run_status(address(b), program);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->phase, RunPhase::Lost);
}

TEST_F(Guests, WhatEndedBeforeTheVmDiedStaysEnded) {
  start_both();
  ASSERT_TRUE(guests.run(address(a), program));
  clock.advance(10s);
  ASSERT_TRUE(cluster.kill_host(h1));
  auto seen = guests.run_status(address(b), program);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->exit_code, 0);
}

TEST_F(Guests, ASignalEndsTheProgram) {
  start_both();
  ASSERT_TRUE(guests.run(address(a), program));
  ASSERT_TRUE(guests.signal(address(a), program, 15));
  EXPECT_EQ(status().exit_code, 128 + 15);
  EXPECT_TRUE(guests.signal(address(a), program, 15));
}

TEST_F(Guests, AProgramWithAnUnreachableRankFails) {
  start_both();
  ASSERT_TRUE(two->destroy(b.key()));
  ASSERT_TRUE(guests.run(address(a), program));
  EXPECT_EQ(status().exit_code, 1);
}

TEST_F(Guests, PowerOffTakesAMomentAndWaitsForAPausedGuest) {
  start_both();
  ASSERT_TRUE(guests.power_off(address(a)));
  EXPECT_EQ(at(*one, a), Copy::Running);
  clock.advance(1s);
  EXPECT_EQ(at(*one, a), Copy::Absent);
  ASSERT_TRUE(guests.power_off(address(b)));
  ASSERT_TRUE(two->pause(b.key()));
  clock.advance(1s);
  EXPECT_EQ(at(*two, b), Copy::Paused);
  ASSERT_TRUE(two->resume(b.key()));
  EXPECT_EQ(at(*two, b), Copy::Absent);
  ASSERT_EQ(cluster.endings().size(), 2U);
  EXPECT_EQ(cluster.endings()[1].cause, EndCause::PoweredOff);
}

TEST_F(Guests, AProbeSeesThePause) {
  start_both();
  auto probe = guests.start_probe(address(a), 5ms);
  ASSERT_TRUE(probe);
  clock.advance(1s);
  ASSERT_TRUE(one->pause(a.key()));
  clock.advance(200ms);
  ASSERT_TRUE(one->resume(a.key()));
  clock.advance(1s);
  const auto report = (*probe)->report(true);
  EXPECT_EQ(report.longest_silence, 205ms);
  EXPECT_EQ(report.clock_lost, 200ms);
  EXPECT_EQ(report.sent, 440);
  EXPECT_EQ(report.answered, 400);
  clock.advance(10s);
  EXPECT_EQ((*probe)->report(true).sent, 440);
}

}  // namespace
}  // namespace mare::sim
