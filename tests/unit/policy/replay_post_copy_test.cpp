#include <gtest/gtest.h>

#include <vector>

#include "orchestrator/policy/replay.h"
#include "tests/unit/policy/replay_input.h"

namespace mare::policy {
namespace {

TEST(PostCopyReplay, PostCopySwitchesAtOnceAndWaitsForPages) {
  const DirtyCurve fast = writer(20 * kMega, 100 * kMega, 200 * kMega);
  const HypervisorCosts costs;
  const Replay out = replay(input(fast, Strategy::PostCopy), costs);
  // 0.0225 s, and 0.04 MB that wait in buffers and 0.4 MB of devices at 10 MB/s.
  EXPECT_NEAR(out.downtime_s, 0.0665, 1e-9);
  EXPECT_NEAR(replay(input(fast, Strategy::Hybrid)).downtime_s, 0.0665, 1e-9);
  EXPECT_GT(out.faulted_s, 1);
  EXPECT_LE(out.faulted_s, out.total_time_s);
  // Only what was sent before the switch and written again goes twice.
  // That went at the full rate of the link.
  EXPECT_NEAR(out.total_time_s, 20 * kPageWire + 0.1 + 0.0665 + costs.post_copy_end_s, 0.03);
}

TEST(PostCopyReplay, AGuestThatWritesNothingWaitsInPostCopyForWhatItReads) {
  const DirtyCurve idle = writer(0, 0, 200 * kMega);
  const HypervisorCosts costs;
  const Replay out = replay(input(idle, Strategy::PostCopy), costs);
  // Page for page: 0.3 ms, a round trip of 0.5 and 4096 bytes at 10 MB/s. (Of 200 MB 0.6 are sent
  // before the switch.) A twentieth comes by itself in the 2 s, of 20, in which it comes to them.
  EXPECT_NEAR(out.faulted_s, 0.95 * costs.read_bytes / 4096 * 0.0012096, 0.01);
  // Of 200 MB that are there after 0.94 s (0.06 s of them were sent before), 0.47 in the mean of
  // that time, and all in the rest of the 2 s.
  ReplayInput quick = input(idle, Strategy::PostCopy);
  quick.link_rate = 200 * kMega;
  EXPECT_NEAR(replay(quick, costs).faulted_s,
              0.94 * 0.47 / 2 * costs.read_bytes / 4096 * 0.00082048, 0.01);
  // After a round it is there.
  EXPECT_NEAR(replay(input(idle, Strategy::Hybrid), costs).faulted_s, 0, 1e-9);
}

TEST(PostCopyReplay, AFaultedWorkingSetByHand) {
  // The first second of progress touches 100 pages, later nothing; all is missing, 10 s of it.
  const double pages = 100;
  const DirtyCurve curve({{0, 0}, {0.1, pages * 4096}, {1, pages * 4096}, {100, pages * 4096}}, 1,
                         100 * kMega);
  ReplayInput in = input(curve, Strategy::PostCopy);
  in.total_bytes = 100 * kMega;
  HypervisorCosts costs;
  costs.fault_s = 0.0005;
  costs.faults_per_page = 1;
  const auto phase = post_copy(in, costs, {100 * kMega, 0, 0, 100 * kMega, 10 * kMega});
  EXPECT_DOUBLE_EQ(phase.duration_s, 10);
  // 100 faults of 0.5 + 0.5 + 0.4096 ms, few pages come by themselves so early.
  EXPECT_NEAR(phase.faulted_s, 100 * 0.0014096, 0.01);

  // Who waits for a clock makes up for it when it would wait, here for a hundredth of these 10 s,
  // as long as it is not late by more than the longest of its pauses.
  in.pause_s = 2;
  const auto working_for = [&](double share) {
    return DirtyCurve({{0, 0}, {0.1, pages * 4096}, {1, pages * 4096}, {100, pages * 4096}}, share,
                      100 * kMega);
  };
  const DirtyCurve nearly = working_for(0.99);
  in.curve = &nearly;
  const auto rests = post_copy(in, costs, {100 * kMega, 0, 0, 100 * kMega, 10 * kMega});
  EXPECT_NEAR(rests.faulted_s, 100 * 0.0014096 - 0.01 * 10, 0.005);
  const DirtyCurve half = working_for(0.5);
  in.curve = &half;
  EXPECT_EQ(post_copy(in, costs, {100 * kMega, 0, 0, 100 * kMega, 10 * kMega}).faulted_s, 0);
  // What it takes of a CPU while it waits is no work, where that is known.
  const DirtyCurve busy = working_for(1);
  in.curve = &busy;
  const MissingPages all{100 * kMega, 0, 0, 100 * kMega, 10 * kMega};
  EXPECT_GT(post_copy(in, costs, all).faulted_s, 0.1);
  in.work_share = 0.5;
  EXPECT_EQ(post_copy(in, costs, all).faulted_s, 0);
  in.work_share = 0;
  // But for those 2 s at most: 3000 pages at once; in the 4.2 s of 100 a fiftieth comes by itself.
  const DirtyCurve many({{0, 0}, {0.001, 3000 * 4096}, {1000, 3000 * 4096}}, 0.5, 1000 * kMega);
  in.curve = &many;
  in.total_bytes = 1000 * kMega;
  const auto later = post_copy(in, costs, {1000 * kMega, 0, 0, 1000 * kMega, 10 * kMega});
  EXPECT_NEAR(later.faulted_s, 0.979 * 3000 * 0.0014096 - 2, 0.02);
  in.curve = &half;
  in.total_bytes = 100 * kMega;
  in.most_share = 0.5;  // of a whole one it may have no more
  EXPECT_NEAR(post_copy(in, costs, {100 * kMega, 0, 0, 100 * kMega, 10 * kMega}).faulted_s,
              100 * 0.0014096, 0.01);
}

TEST(PostCopyReplay, AWorkingSetComesWhenTheStreamHasComeToItsPlace) {
  // 20 of 100 MB in half a second, again and again: far more pages than can be asked for in 10 s.
  const DirtyCurve curve({{0, 0}, {0.25, 10 * kMega}, {0.5, 20 * kMega}, {100, 20 * kMega}}, 1,
                         100 * kMega);
  ReplayInput in = input(curve, Strategy::PostCopy);
  in.total_bytes = 100 * kMega;
  HypervisorCosts slow;
  slow.fault_s = 0.0153;
  const auto lost_with = [&in, &slow](const std::vector<double>& heat) {
    in.heat = &heat;
    return post_copy(in, slow, {100 * kMega, 0, 0, 100 * kMega, 10 * kMega}).faulted_s;
  };
  EXPECT_GT(lost_with({}), 9) << "all over memory";
  EXPECT_GT(lost_with({1, 1, 1, 1, 1}), 9);
  EXPECT_NEAR(lost_with({0, 0, 1, 0, 0}), 6, 0.3);
  EXPECT_NEAR(lost_with({0.5, 0, 0, 0, 0}), 2, 0.3);
  EXPECT_NEAR(lost_with({0, 0, 0, 0, 1}), 10, 0.3);
}

TEST(PostCopyReplay, WhoWritesInOrderWaitsForTheStreamAndThenFollowsIt) {
  // All 100 MB that it rewrites in 5 s are missing, and come in 10.
  const DirtyCurve sweep({{0, 0}, {2.5, 50 * kMega}, {5, 100 * kMega}, {100, 100 * kMega}}, 1,
                         200 * kMega);
  HypervisorCosts costs;
  costs.fault_s = 0.0205904;  // with all the rest 21 ms a page
  ReplayInput in = input(sweep, Strategy::Hybrid);
  in.round_trip_s = 0;
  const MissingPages missing{0, 100 * kMega, 5, 100 * kMega, 10 * kMega};
  const double scattered = post_copy(in, costs, missing).faulted_s;
  in.sequential = 1;
  // For 5 s it gets 4096 bytes each 21 ms of the 20 MB/s that it wants; for 5 s 10 MB/s.
  EXPECT_NEAR(post_copy(in, costs, missing).faulted_s, 5 * (1 - 4096 / 0.021 / 20e6) + 2.5, 1e-6);
  EXPECT_GT(scattered, 9);
  // A link that is faster than it: once the stream has come to it nothing is waited for.
  const MissingPages fast{0, 100 * kMega, 5, 100 * kMega, 40 * kMega};
  EXPECT_NEAR(post_copy(in, costs, fast).faulted_s, 1.25, 0.02);
  // One that wants a page less often than it can ask for one.
  const DirtyCurve slow = writer(0.1 * kMega, 10 * kMega, 200 * kMega);
  in.curve = &slow;
  EXPECT_DOUBLE_EQ(post_copy(in, costs, {0, 10 * kMega, 100, 10 * kMega, 10 * kMega}).faulted_s, 0);
  // Where most of what is missing was never sent, what is written in order is little of it.
  in.curve = &sweep;
  const MissingPages most{900 * kMega, 100 * kMega, 5, 1000 * kMega, 10 * kMega};
  const double ordered = post_copy(in, costs, most).faulted_s;
  in.sequential = 0;
  EXPECT_GT(ordered, 0.9 * post_copy(in, costs, most).faulted_s);
}

TEST(PostCopyReplay, HybridLeavesOnlyWhatWasWrittenAgain) {
  const DirtyCurve slow = writer(2 * kMega, 20 * kMega, 200 * kMega);
  ReplayInput in = input(slow, Strategy::Hybrid);
  const Replay hybrid = replay(in);
  const Replay post = replay(input(slow, Strategy::PostCopy));
  EXPECT_LT(hybrid.faulted_s, post.faulted_s);
  EXPECT_GT(hybrid.sent_bytes, post.sent_bytes);
  EXPECT_EQ(hybrid.rounds.size(), 2U);
  in.sending.pre_copy_rounds = 2;
  EXPECT_EQ(replay(in).rounds.size(), 3U);
}

TEST(PostCopyReplay, WhoWasSeenToSweepWaitsInOrderForAllOfIt) {
  // 100 of 200 MB in 5 s, again and again, and half of its time it waits for a clock; nothing was
  // sent before.
  const DirtyCurve sweep({{0, 0}, {1.25, 50 * kMega}, {2.5, 100 * kMega}, {100, 100 * kMega}}, 0.5,
                         200 * kMega);
  HypervisorCosts costs;
  costs.fault_s = 0.0005904;  // with all the rest 1 ms a page
  ReplayInput in = input(sweep, Strategy::PostCopy);
  in.round_trip_s = 0;
  in.sequential = 1;
  in.pause_s = 20;  // far too long: then it would make up for all
  const MissingPages all{200 * kMega, 0, 0, 200 * kMega, 10 * kMega};
  const double made_up = post_copy(in, costs, all).faulted_s;
  in.sweeps = true;
  // Half of the 20 s it gets 4.096 MB/s of the 20 that it wants, and of half of them, in which its
  // own half comes, 10 MB/s.
  EXPECT_NEAR(post_copy(in, costs, all).faulted_s, 10 * (1 - 4.096 / 20) + 5 * (1 - 10.0 / 20),
              1e-6);
  EXPECT_LT(made_up, 8);
}

}  // namespace
}  // namespace mare::policy
