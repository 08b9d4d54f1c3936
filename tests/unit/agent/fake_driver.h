// A driver that remembers what it was asked and answers what it was told.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "hypervisor/driver.h"

namespace mare::agent::test {

class FakeDriver final : public Driver {
 public:
  // Set before the calls; read and written by them under the mutex.
  std::optional<Error> error;
  HostFacts facts_answer;
  std::vector<VmObservation> list_answer;
  VmObservation observe_answer;
  VmStatistics statistics_answer;
  IncomingEndpoint endpoint_answer;
  OutgoingStatus outgoing_answer;
  ArrivalReport arrival_answer;
  MemoryProfile profile_answer;
  LinkMeasurement link_answer;
  CaptureStatus capture_answer;
  Bytes merge_answer{91};
  CaptureLoad load_answer;
  std::vector<StandbyAnswer> standby_answer;
  LeaseAnswer lease_answer;
  TemplateStatus template_answer;
  /// Called first in every call, outside the mutex, with the method's name.
  std::function<void(const std::string&)> hook = [](const std::string&) {};

  std::vector<std::string> calls;
  VmKey key;
  VmSpec spec;
  TemplateSpec template_spec;
  MigrationTicket ticket;
  IncomingEndpoint endpoint;
  std::string path;
  std::optional<LimitAction> forced;
  CaptureTicket capture_ticket;
  bool flag = false;
  LeaseTicket lease_ticket;
  CheckpointId checkpoint;
  CheckpointPart part;
  std::vector<CheckpointPart> parts;

  Result<HostFacts> facts() override {
    return answer("facts", [&] { return facts_answer; });
  }
  Result<std::vector<VmObservation>> list() override {
    return answer("list", [&] { return list_answer; });
  }
  Result<VmObservation> observe(const VmKey& vm) override {
    return answer("observe", [&] { return key = vm, observe_answer; });
  }
  Status start(const VmSpec& vm) override {
    return done("start", [&] { spec = vm; });
  }
  Status start_clone(const VmSpec& vm, const TemplateSpec& from) override {
    return done("start_clone", [&] { spec = vm, template_spec = from; });
  }
  Result<TemplateStatus> make_template(const TemplateSpec& what) override {
    return answer("make_template", [&] { return template_spec = what, template_answer; });
  }
  Status destroy(const VmKey& vm) override {
    return done("destroy", [&] { key = vm; });
  }
  Status pause(const VmKey& vm) override {
    return done("pause", [&] { key = vm; });
  }
  Status resume(const VmKey& vm) override {
    return done("resume", [&] { key = vm; });
  }
  Status save(const VmKey& vm, const std::string& to) override {
    return done("save", [&] { key = vm, path = to; });
  }
  Status restore(const VmSpec& vm, const std::string& from) override {
    return done("restore", [&] { spec = vm, path = from; });
  }
  Result<CaptureStatus> prepare_capture(const CaptureTicket& with) override {
    return answer("prepare_capture", [&] { return capture_ticket = with, capture_answer; });
  }
  Result<CaptureStatus> begin_capture(const CaptureTicket& with) override {
    return answer("begin_capture", [&] { return capture_ticket = with, capture_answer; });
  }
  Result<CaptureStatus> capture(const VmKey& vm) override {
    return answer("capture", [&] { return key = vm, capture_answer; });
  }
  Result<CaptureStatus> release_capture(const VmKey& vm, const CheckpointId& of) override {
    return answer("release_capture", [&] { return key = vm, checkpoint = of, capture_answer; });
  }
  Status drop_capture(const VmKey& vm, const CheckpointId& of, const std::string& from) override {
    return done("drop_capture", [&] { key = vm, checkpoint = of, path = from; });
  }
  Result<CaptureLoad> load_capture(const VmSpec& vm, const CheckpointId& of,
                                   const CheckpointPart& from) override {
    return answer("load_capture",
                  [&] { return spec = vm, checkpoint = of, part = from, load_answer; });
  }
  Result<Bytes> merge_capture(const CheckpointPart& which, bool packed) override {
    return answer("merge_capture", [&] { return part = which, flag = packed, merge_answer; });
  }
  Result<std::vector<StandbyAnswer>> keep_standby(
      const std::vector<CheckpointPart>& which) override {
    return answer("keep_standby", [&] { return parts = which, standby_answer; });
  }
  Result<LeaseAnswer> renew_lease(const LeaseTicket& with) override {
    return answer("renew_lease", [&] { return lease_ticket = with, lease_answer; });
  }
  Status put_fence_note(const std::string& at) override {
    return done("put_fence_note", [&] { path = at; });
  }
  Status remove_fence_note(const std::string& at) override {
    return done("remove_fence_note", [&] { path = at; });
  }
  Result<VmStatistics> statistics(const VmKey& vm) override {
    return answer("statistics", [&] { return key = vm, statistics_answer; });
  }
  Result<IncomingEndpoint> prepare_incoming(const MigrationTicket& with) override {
    return answer("prepare_incoming", [&] { return ticket = with, endpoint_answer; });
  }
  Status begin_outgoing(const MigrationTicket& with, const IncomingEndpoint& to) override {
    return done("begin_outgoing", [&] { ticket = with, endpoint = to; });
  }
  Result<OutgoingStatus> outgoing(const VmKey& vm) override {
    return answer("outgoing", [&] { return key = vm, outgoing_answer; });
  }
  Status cancel_outgoing(const VmKey& vm) override {
    return done("cancel_outgoing", [&] { key = vm; });
  }
  Status force_outgoing(const VmKey& vm, LimitAction how) override {
    return done("force_outgoing", [&] { key = vm, forced = how; });
  }
  Status release_outgoing(const VmKey& vm) override {
    return done("release_outgoing", [&] { key = vm; });
  }
  Result<ArrivalReport> arrival(const VmKey& vm) override {
    return answer("arrival", [&] { return key = vm, arrival_answer; });
  }
  Status discard_incoming(const VmKey& vm) override {
    return done("discard_incoming", [&] { key = vm; });
  }
  Status announce(const VmSpec& vm) override {
    return done("announce", [&] { spec = vm; });
  }
  Result<MemoryProfile> memory_profile(const VmKey& vm) override {
    return answer("memory_profile", [&] { return key = vm, profile_answer; });
  }
  Result<Milliseconds> look_anew(const VmKey& vm) override {
    return answer("look_anew", [&] { return key = vm, Milliseconds{1050}; });
  }
  Result<IncomingEndpoint> open_link_sink() override {
    return answer("open_link_sink", [&] { return endpoint_answer; });
  }
  Result<LinkMeasurement> measure_link(const IncomingEndpoint& to) override {
    return answer("measure_link", [&] { return endpoint = to, link_answer; });
  }

  std::vector<std::string> take_calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls, {});
  }

 private:
  template <typename Work>
  auto answer(const std::string& name, const Work& work) -> Result<decltype(work())> {
    hook(name);
    const std::lock_guard lock(mutex_);
    calls.push_back(name);
    auto value = work();
    if (error) return *error;
    return value;
  }
  template <typename Work>
  Status done(const std::string& name, const Work& work) {
    hook(name);
    const std::lock_guard lock(mutex_);
    calls.push_back(name);
    work();
    return error ? Status(*error) : ok_status();
  }

  std::mutex mutex_;
};

}  // namespace mare::agent::test
