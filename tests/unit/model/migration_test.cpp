// The table of a migration and the function that decides after a crash, over all their arguments.
// The spaces are small, so every case is tried; nothing here is a sample.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "orchestrator/model/migration_state.h"

namespace mare {
namespace {

using S = MigrationState;
using E = MigrationEvent;

constexpr S kStates[] = {S::Planned, S::Reserved,   S::PreCopying,   S::Switching, S::PostCopying,
                         S::Saving,  S::Restarting, S::Returning,    S::Committed, S::Aborting,
                         S::Done,    S::Failed,     S::NeedsOperator};
constexpr E kEvents[] = {E::Reserve, E::StartPreCopy, E::Switch, E::PostCopy,  E::DestinationRuns,
                         E::Save,    E::EndSource,    E::Return, E::Loaded,    E::Announced,
                         E::Abort,   E::SourceRuns,   E::Lost,   E::Ambiguous, E::Reconsider};
constexpr Copy kCopies[] = {Copy::Absent, Copy::Incoming, Copy::Running, Copy::Paused,
                            Copy::Unknown};

template <typename F>
void for_all(F check) {
  for (const S state : kStates) {
    for (const Copy source : kCopies) {
      for (const Copy destination : kCopies) {
        SCOPED_TRACE(std::string(to_string(state)) + ", source " + std::string(to_string(source)) +
                     ", destination " + std::string(to_string(destination)));
        check(state, CopyPair{source, destination});
      }
    }
  }
}

/// The file is the VM, or what was made from it and has not run.
bool file_decides(S state) {
  return state == S::Restarting || state == S::Returning;
}

/// Before anything was sent, and after all was, the copies are not asked.
bool copies_decide(S state) {
  return state == S::PreCopying || state == S::Switching || state == S::PostCopying ||
         state == S::Aborting;
}

/// Written down a second time, so that a change of the table is a decision made twice.
TEST(MigrationTable, IsThisAndNothingElse) {
  const std::map<std::pair<S, E>, S> expected = {
      {{S::Planned, E::Reserve}, S::Reserved},
      {{S::Planned, E::Abort}, S::Failed},
      {{S::Reserved, E::StartPreCopy}, S::PreCopying},
      {{S::Reserved, E::Abort}, S::Aborting},
      {{S::PreCopying, E::Switch}, S::Switching},
      {{S::PreCopying, E::DestinationRuns}, S::Committed},
      {{S::PreCopying, E::Abort}, S::Aborting},
      {{S::PreCopying, E::PostCopy}, S::PostCopying},
      {{S::PreCopying, E::Lost}, S::Failed},
      {{S::PreCopying, E::Ambiguous}, S::NeedsOperator},
      {{S::Switching, E::DestinationRuns}, S::Committed},
      {{S::Switching, E::Abort}, S::Aborting},
      {{S::Switching, E::PostCopy}, S::PostCopying},
      {{S::Switching, E::Lost}, S::Failed},
      {{S::Switching, E::Ambiguous}, S::NeedsOperator},
      {{S::PostCopying, E::DestinationRuns}, S::Committed},
      {{S::PostCopying, E::Lost}, S::Failed},
      {{S::PostCopying, E::Ambiguous}, S::NeedsOperator},
      {{S::Reserved, E::Save}, S::Saving},
      {{S::Saving, E::EndSource}, S::Restarting},
      {{S::Saving, E::Abort}, S::Aborting},
      {{S::Restarting, E::Loaded}, S::Committed},
      {{S::Restarting, E::Abort}, S::Aborting},
      {{S::Restarting, E::Return}, S::Returning},
      {{S::Restarting, E::Ambiguous}, S::NeedsOperator},
      {{S::Returning, E::Loaded}, S::Aborting},
      {{S::Returning, E::Lost}, S::Failed},
      {{S::Returning, E::Ambiguous}, S::NeedsOperator},
      {{S::Committed, E::Announced}, S::Done},
      {{S::Aborting, E::SourceRuns}, S::Failed},
      {{S::Aborting, E::Reconsider}, S::Planned},
      {{S::Aborting, E::DestinationRuns}, S::Committed},
      {{S::Aborting, E::PostCopy}, S::PostCopying},
      {{S::Aborting, E::Lost}, S::Failed},
      {{S::Aborting, E::Ambiguous}, S::NeedsOperator},
  };
  for (const S from : kStates) {
    for (const E event : kEvents) {
      const auto wanted = expected.find({from, event});
      const auto got = next(from, event);
      EXPECT_EQ(got.has_value(), wanted != expected.end())
          << to_string(from) << " + " << to_string(event);
      if (got && wanted != expected.end()) {
        EXPECT_EQ(*got, wanted->second);
      }
    }
  }
}

TEST(MigrationTable, FinalStatesHaveNoWayOutAndOthersReachOne) {
  for (const S from : kStates) {
    std::set<S> reached{from};
    for (std::size_t before = 0; before != reached.size();) {
      before = reached.size();
      for (const S state : std::set<S>(reached)) {
        for (const E event : kEvents) {
          if (const auto to = next(state, event)) reached.insert(*to);
        }
      }
    }
    if (is_final(from)) {
      EXPECT_EQ(reached.size(), 1U) << to_string(from);
    } else {
      EXPECT_TRUE(reached.contains(S::Done) || reached.contains(S::Failed)) << to_string(from);
    }
  }
}

TEST(MigrationTable, OnceCommittedItNeverFails) {
  for (const E event : kEvents) {
    const auto to = next(S::Committed, event);
    if (to) {
      EXPECT_EQ(*to, S::Done);
    }
  }
}

/// Whatever happens in post-copy, no event leads to where a source's copy is let go on.
TEST(MigrationTable, PostCopyHasNoWayBack) {
  for (const E event : kEvents) {
    const auto to = next(S::PostCopying, event);
    if (!to) continue;
    EXPECT_TRUE(*to == S::Committed || *to == S::Failed || *to == S::NeedsOperator)
        << to_string(*to);
    EXPECT_NE(event, E::Abort);
    EXPECT_NE(event, E::SourceRuns);
  }
}

/// Whatever is made from a file, once the source's copy may have been ended, has not run before a
/// state in which the file is never read again.
TEST(MigrationTable, AFileIsReadNoMoreOnceWhatWasMadeOfItMayRun) {
  for (const S may_run : {S::Committed, S::Aborting}) {
    for (const E event : kEvents) {
      const auto to = next(may_run, event);
      if (to) {
        EXPECT_FALSE(file_decides(*to)) << to_string(may_run) << " + " << to_string(event);
      }
    }
  }
}

TEST(MigrationNames, GoThereAndBack) {
  std::set<std::string_view> names;
  for (const S state : kStates) {
    EXPECT_EQ(migration_state_from(to_string(state)), state);
    names.insert(to_string(state));
  }
  EXPECT_EQ(names.size(), std::size(kStates));
  for (const Copy copy : kCopies) EXPECT_EQ(copy_from(to_string(copy)), copy);
  std::set<std::string_view> events;
  for (const E event : kEvents) events.insert(to_string(event));
  EXPECT_EQ(events.size(), std::size(kEvents));
  EXPECT_EQ(migration_state_from("planned"), std::nullopt);
  EXPECT_EQ(copy_from(""), std::nullopt);
}

/// Whatever is seen, the answer is an event that the state knows, or repeats what is being done.
TEST(Recover, AlwaysAnswersWhatTheTableKnows) {
  for_all([](S state, CopyPair seen) {
    if (is_final(state)) return;
    const E event = recover(state, seen);
    const bool repeats = (state == S::Aborting && event == E::Abort) ||
                         (state == S::Committed && event == E::DestinationRuns);
    EXPECT_TRUE(next(state, event) || repeats) << to_string(event);
  });
}

TEST(Recover, TwoRunningCopiesAreAmbiguous) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state)) return;
    if (seen.source == Copy::Running && seen.destination == Copy::Running) {
      EXPECT_EQ(recover(state, seen), E::Ambiguous);
    }
  });
}

TEST(Recover, ASilentHostIsNeverTakenForAnEmptyOne) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state)) return;
    if (seen.source == Copy::Unknown || seen.destination == Copy::Unknown) {
      EXPECT_EQ(recover(state, seen), E::Ambiguous);
    }
  });
}

TEST(Recover, SaysDestinationRunsOnlyWhenItAloneDoes) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state) || recover(state, seen) != E::DestinationRuns) return;
    EXPECT_EQ(seen.destination, Copy::Running);
    EXPECT_NE(seen.source, Copy::Running);
    EXPECT_NE(seen.source, Copy::Unknown);
  });
}

TEST(Recover, SaysSourceRunsOnlyWhenNothingIsLeftAtTheDestination) {
  for_all([](S state, CopyPair seen) {
    if (recover(state, seen) != E::SourceRuns) return;
    EXPECT_EQ(state, S::Aborting);
    EXPECT_EQ(seen.source, Copy::Running);
    EXPECT_EQ(seen.destination, Copy::Absent);
  });
}

/// An abort destroys the destination's copy: never the running one, never the only whole one.
TEST(Recover, AbortsOnlyWithAWholeSource) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state) || recover(state, seen) != E::Abort) return;
    EXPECT_TRUE(seen.source == Copy::Running || seen.source == Copy::Paused);
    EXPECT_NE(seen.destination, Copy::Running);
    EXPECT_NE(seen.destination, Copy::Unknown);
  });
}

TEST(Recover, ACopyThatRunsAloneIsNeverAmbiguous) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state)) return;
    // What the source has in post-copy is old, so that it runs is no answer but a riddle.
    if (state == S::PostCopying && seen.source == Copy::Running) {
      EXPECT_EQ(recover(state, seen), E::Ambiguous);
      return;
    }
    const bool known = seen.source != Copy::Unknown && seen.destination != Copy::Unknown;
    const bool one = (seen.source == Copy::Running) != (seen.destination == Copy::Running);
    if (known && one) {
      EXPECT_NE(recover(state, seen), E::Ambiguous);
    }
  });
}

TEST(Recover, BeforeAnythingWasSentItAborts) {
  for_all([](S state, CopyPair seen) {
    if (state == S::Planned || state == S::Reserved) {
      EXPECT_EQ(recover(state, seen), E::Abort);
    }
  });
}

TEST(Recover, WhileItIsSavedTheSourceIsTheVm) {
  for_all([](S state, CopyPair seen) {
    if (state == S::Saving) {
      EXPECT_EQ(recover(state, seen), E::Abort);
    }
  });
}

/// Nothing is made from a file beside a copy that is there, or may be.
TEST(Recover, AFileIsReadOnlyWhereNoOtherCopyRunsOrMay) {
  for_all([](S state, CopyPair seen) {
    if (!file_decides(state) || recover(state, seen) != E::Loaded) return;
    EXPECT_NE(seen.destination, Copy::Running);
    EXPECT_NE(seen.source, Copy::Running);
    EXPECT_NE(seen.source, Copy::Unknown);
    if (state == S::Restarting) {
      EXPECT_EQ(seen.source, Copy::Absent);
    }
  });
}

/// A copy that is at the source before anything was made from the file was not ended.
TEST(Recover, AMoveThroughAFileGoesBackOnlyToACopyThatWasNotEnded) {
  for_all([](S state, CopyPair seen) {
    if (!file_decides(state) || recover(state, seen) != E::Abort) return;
    EXPECT_EQ(state, S::Restarting);
    EXPECT_TRUE(seen.source != Copy::Absent && seen.source != Copy::Unknown);
    EXPECT_NE(seen.destination, Copy::Running);
  });
}

TEST(Recover, OnceCommittedOnlyTheDestinationCounts) {
  for_all([](S state, CopyPair seen) {
    if (state == S::Committed) {
      EXPECT_EQ(recover(state, seen), E::DestinationRuns);
    }
  });
}

TEST(Recover, InPostCopyTheSourcesCopyIsNeverResumed) {
  for_all([](S state, CopyPair seen) {
    if (state != S::PostCopying) return;
    const E event = recover(state, seen);
    EXPECT_NE(event, E::Abort);
    EXPECT_NE(event, E::SourceRuns);
  });
}

TEST(Recover, SaysLostOnlyWhenNoCopyIsLeftThatCouldRun) {
  for_all([](S state, CopyPair seen) {
    if (is_final(state) || recover(state, seen) != E::Lost) return;
    ASSERT_TRUE(copies_decide(state));
    EXPECT_NE(seen.source, Copy::Running);
    EXPECT_NE(seen.destination, Copy::Running);
    EXPECT_NE(seen.source, Copy::Unknown);
    EXPECT_NE(seen.destination, Copy::Unknown);
    if (state == S::PostCopying) {
      EXPECT_TRUE(seen.destination == Copy::Absent || seen.source == Copy::Absent);
    } else {
      EXPECT_EQ(seen.source, Copy::Absent);
      EXPECT_EQ(seen.destination, Copy::Absent);
    }
  });
}

TEST(Recover, AVmWithoutACopyIsLost) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state)) return;
    if (seen.source == Copy::Absent && seen.destination == Copy::Absent) {
      EXPECT_EQ(recover(state, seen), E::Lost);
    }
  });
}

/// Plays what the engine does on each answer, from every start, until it ends: an abort removes the
/// destination's copy and then lets the source go on. At no step do two copies run, and a VM that
/// had a whole copy still has one.
TEST(Recover, FollowedToTheEndNeitherDoublesNorLosesTheVm) {
  for_all([](S state, CopyPair seen) {
    if (!copies_decide(state)) return;
    if (seen.source == Copy::Running && seen.destination == Copy::Running) return;
    const auto whole = [](Copy copy) { return copy == Copy::Running || copy == Copy::Paused; };
    // In post-copy the only copy that may run is the destination's, if the source feeds it.
    const bool had_one = state == S::PostCopying ? seen.destination == Copy::Running
                                                 : whole(seen.source) || whole(seen.destination);
    const S first = state;
    for (int step = 0; step < 4 && !is_final(state); ++step) {
      const E event = recover(state, seen);
      if (event == E::DestinationRuns) {
        seen.source = Copy::Absent;  // committed: the paused source is destroyed
        state = S::Done;
        break;
      }
      if (const auto to = next(state, event)) state = *to;
      if (event == E::Lost) seen = {Copy::Absent, Copy::Absent};  // what is left is ended
      if (event == E::Abort) {
        seen.destination = Copy::Absent;
        EXPECT_NE(seen.destination, Copy::Running);
        seen.source = Copy::Running;
      }
      EXPECT_FALSE(seen.source == Copy::Running && seen.destination == Copy::Running);
    }
    EXPECT_TRUE(is_final(state));
    if (had_one) {
      EXPECT_TRUE(whole(seen.source) || whole(seen.destination));
    }
    if (state == S::Failed) {
      const bool lost = seen.source == Copy::Absent && seen.destination == Copy::Absent;
      EXPECT_TRUE(seen.source == Copy::Running || lost);
      if (lost) {
        EXPECT_FALSE(had_one);
      }
      if (first == S::PostCopying) {
        EXPECT_TRUE(lost);
      }
    }
  });
}

}  // namespace
}  // namespace mare
