// vm.migrate: reserve, send, switch, announce, verify; and back if it can't be. The table and the
// decision after a crash are in orchestrator/model/migration_state.h; here is only the acting.
//
// One rule stands above the others: the VM's row names the host whose copy is the true one, it
// changes in the same transaction that enters Committed, or PostCopying, and nothing else changes
// it. A copy elsewhere is ended, never resumed.
//
// vm_migrate_turn.cpp: when it begins. vm_migrate_gang.cpp: when it switches, if others of its job
// move too. vm_migrate_forecast.cpp: what it will cost. vm_migrate.cpp:
// up to the sending. vm_migrate_send.cpp: while the source sends. vm_migrate_look.cpp: what is
// true, and the ways back. vm_migrate_anew.cpp: when it goes far beyond its forecast.
// vm_migrate_arrive.cpp: after the switch.
//
// By checkpoint-restart nothing is sent from host to host: vm_migrate_save.cpp has the source write
// the VM's state into a file (Check), vm_migrate_restart.cpp has the destination make it from that
// (Trans, Restart).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "orchestrator/engine/migration_probe.h"
#include "orchestrator/engine/safe_point_search.h"
#include "orchestrator/engine/task.h"
#include "orchestrator/model/forecast.h"
#include "orchestrator/model/migration_state.h"

namespace mare::engine {

class VmMigrate final : public Task {
 public:
  using Task::Task;

  void enter(bool recovered) override;
  void on_cancel() override;

 private:
  using State = MigrationState;
  using Event = MigrationEvent;

  State state() const;
  /// Reads the rows that everything below needs; they do not change while this operation holds the
  /// VM.
  bool load();
  void load_again();
  VmKey key() const { return {vm_.id, vm_.uuid}; }
  bool step(Event event, const std::string& detail, const Also& also = {});
  Result<MigrationTicket> ticket();

  // Up to the sending: nothing was sent, so a restart just goes on.
  void choose_moment();
  void plan_moment(const Result<MemoryProfile>& profile);
  void await_moment();
  bool may_wait();
  void take_turn();
  void empty_cache();
  void forecast_first();
  void take_up(Result<Forecast> made);
  Status keep_forecast(store::Transaction& tx);
  Status score_forecast(store::Transaction& tx);
  /// Into the row at hand; see policy::score_verdict().
  void forget_verdict();
  void score_verdict(std::optional<Seconds> ended, std::optional<Seconds> limit);
  /// The same of a sending that was stopped, into the row that is stored.
  Status keep_verdict(store::Transaction& tx, Seconds stopped_after);
  void reserve();
  void refuse(const Error& error);
  void prepare();
  /// `then` gets words for the history.
  void at_safe_point(std::function<void(const std::string&)> then);

  // While the source sends.
  void send();
  bool joins_gang();
  void watch_hold(const OutgoingStatus& status);
  void release_switch();
  std::string how_switched() const;
  void poll();
  void polled(Result<OutgoingStatus> status);
  void watch_closely(bool closely);
  void spare_guest();
  void ask_again();
  void switch_by_post_copy();
  void watch_limits(const OutgoingStatus& status);
  void force(LimitAction how, const std::string& why);

  // When it goes far beyond its forecast.
  /// True: it is given up, and what follows is under way.
  bool watch_forecast(const OutgoingStatus& status);
  void tell_overrun(const std::string& words);
  EarlierTry this_try() const;
  void begin_anew();
  bool watches_anew();
  void cancel_sending(const std::string& why);
  void source_is_silent(const Error& error);
  void keep(const OutgoingStatus& status);
  void save_record();
  /// True when the row says PostCopying.
  bool enter_post_copy();
  void post_copying(const OutgoingStatus& status);
  void mend();
  void look_at_starved();

  // Through a file: first the source's copy is the VM, then the file is, then what was made of it.
  bool by_file() const { return migration_.sending.strategy == Strategy::CheckpointRestart; }
  CheckpointId file_name() const { return CheckpointId{operation().id.value}; }
  std::string file_lane() const { return "file/" + migration_.vm.value; }
  CheckpointPart part() const;
  CaptureTicket capture_ticket() const;
  void prepare_file();
  void check_both(const HostFacts& source);
  void save();
  void begin_saving();
  void look_at_saving();
  void saving(const Result<CaptureStatus>& status);
  void source_of_file_is_silent(const Error& error);
  bool is_to_end(std::string& why, Code& code) const;
  void file_is_whole(const CaptureStatus& status);
  void end_source();
  void source_not_ended(const Error& error);
  void go_on_from_file();
  void load_there(bool afresh);
  void loaded_there(const Result<CaptureLoad>& loaded);
  void return_home(const Error& error);
  void load_back(bool afresh);
  void loaded_back(const Result<CaptureLoad>& loaded);
  void resume_there();
  bool allow_to_run();
  void not_resumed(const Error& error);
  void load_once_more();
  void lost_there(const Error& error);
  void keep_file_times(WallTime resumed);
  void remove_file(int attempt);
  void abort_file_move();

  // What is true, and the ways back.
  void look();
  void look_at_destination(Result<VmObservation> source);
  void decide(CopyPair seen);
  bool is_patient(CopyPair seen);
  MonotonicTime looking_for();
  void ask_operator(const std::string& what);
  void lost(CopyPair seen);
  void record_loss(CopyPair seen);
  void abort(const Error& error, const Also& also = {});
  void abort_after_look(const std::string& what);
  void abort_step();
  void wait_until_quiet();
  void still_sending();
  void discard_at_destination();
  void abort_again(CopyPair seen);
  void back_at_source();
  std::string why_aborted() const;

  // After the switch.
  void commit_destination(Event event, const std::string& detail);
  void complete();
  void announce();
  void arrived(const ArrivalReport& report);
  void verify(const std::string& trouble);
  void done(const std::string& trouble);
  void start_probe();
  void stop_probe();

  static Outcome outcome_of(const Error& error) {
    return error.code == Code::Cancelled ? Outcome::Cancelled : Outcome::Failed;
  }
  bool is_emulated() const { return forecast_ && forecast_->profile.emulated; }
  bool may_post_copy() const {
    const Strategy strategy = migration_.sending.strategy;
    return strategy == Strategy::PostCopy || strategy == Strategy::Hybrid ||
           migration_.sending.allow_post_copy;
  }

  /// What this process saw of one try to send; nothing of it is of the next.
  struct Attempt {
    std::string note;  // why it is ending, when it ends badly
    std::optional<Code> note_code;
    bool sends = false;      // the source answered that it does
    bool gave_up = false;    // the source was asked to stop
    bool forced = false;     // the source was asked to end it by the policy's action
    MonotonicTime asked{0};  // when it was asked one of these two last
    bool paused = false;     // the source's copy was seen paused
    bool shared = false;     // others left its source, or came to its destination, meanwhile
    bool holds = false;      // the source was told to hold its switch
    bool overran = false;    // that it went beyond its forecast was said
    std::optional<Seconds> out_of_time;       // when it was stopped, as it had not ended in time
    std::optional<MonotonicTime> held_since;  // it could switch
    double best = 0;                          // the progress that was told, which does not go back
    Microseconds sent_for{0};                 // as the source told last
    WallTime paused_at{0};  // as the source told; 0: not seen, or before a restart
    int looks = 0;
    std::optional<MonotonicTime> spared_since;
    std::optional<MonotonicTime> silent_since;
    std::optional<MonotonicTime> looking_since;
  };

  Vm vm_;
  Migration migration_;
  MovePolicy policy_;
  std::optional<Forecast> forecast_;
  std::string no_forecast_;  // why there is none, as far as this process knows
  IncomingEndpoint endpoint_;
  std::shared_ptr<MigrationProbe> probe_;
  std::shared_ptr<SafePointSearch> search_;
  Attempt attempt_;
  std::string console_;
  std::optional<MonotonicTime> starved_since_;
  Bytes fed_until_;                  // sent when post-copy was last seen broken
  int refused_ = 0;                  // times that the source's copy could not go on
  WallTime stopped_by_{0};           // by this process's clock
  std::optional<CaptureLoad> load_;  // as the destination told
  WallTime loaded_at_{0};
  bool never_ran_ = false;    // what was loaded there, as this process knows
  bool end_refused_ = false;  // the source answered that it does not end its copy
  bool dropped_ = false;      // the source removed the file
  std::string file_left_;     // in words, if it could not be removed
  bool can_mend_ = true;
  MonotonicTime kept_at_{0};
};

}  // namespace mare::engine
