// The fixture of the contract; the sentences of hypervisor/driver.h as tests are in the
// *_contract.cpp files, and each backend runs them all.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/contract/hosts.h"

namespace mare::contract {

// Generous: guests are emulated, and the machine may be busy.
constexpr Milliseconds kBoot{180'000};
constexpr Milliseconds kMove{180'000};
constexpr Milliseconds kSoon{30'000};
/// With kBusy a migration can't end at this speed: what it sends in a downtime is less than what is
/// dirtied.
constexpr BytesPerSecond kSlow{8.0 * 1024 * 1024};

/// Its migration at kSlow never ends by itself.
GuestPlan busy_guest();

class DriverContract : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Driver& at(int host) { return hosts_->driver(host); }
  Hosts& hosts() { return *hosts_; }
  /// A VM that the test's end clears away from both hosts.
  VmSpec vm(const GuestPlan& plan = {});
  /// The same name, another incarnation.
  static VmSpec other_incarnation(const VmSpec& vm);
  /// Started on that host, its guest up.
  VmSpec started(int host, const GuestPlan& plan = {});
  MigrationTicket ticket(const VmSpec& vm);
  MigrationTicket ticket(const VmSpec& vm, Strategy strategy);
  /// Strategies that both hosts offer.
  std::vector<Strategy> offered();

  bool wait_until(const std::function<bool()>& condition, Milliseconds limit);
  Copy copy(int host, const VmSpec& vm);
  bool sending(int host, const VmSpec& vm);
  OutgoingStatus outgoing(int host, const VmSpec& vm);
  double count(int host, const VmSpec& vm) { return hosts_->count(host, vm).value_or(-1); }
  /// The guest goes on, from where it was: its count grows.
  void expect_alive(int host, const VmSpec& vm);
  /// Exactly one copy, running on that host and on its way nowhere, and its guest goes on.
  void expect_only_copy(int host, const VmSpec& vm);
  bool ended(int host, const VmSpec& vm);

  /// Prepares at `to`, begins at `from`; fails the test if one of these fails.
  void begin(const MigrationTicket& ticket, int from, int to);
  /// Begins one by pre-copy that holds its switch, and waits until it says so.
  void begin_holding(const VmSpec& vm, int from, int to);
  /// A whole migration; what the source said last.
  OutgoingStatus move(const MigrationTicket& ticket, int from, int to);
  /// A template of VMs like this one is on host 0 then.
  void make_template(const VmSpec& like);
  /// A clone of it on host 0, its guest up.
  VmSpec cloned(const VmSpec& like);
  /// VMs on host 0.
  /// How many VMs of the test of that one, and templates if any, host 0 lists.
  std::size_t listed(const VmSpec& like);
  /// A busy VM on host 0 in the midst of a migration to host 1 that does not end by itself.
  VmSpec half_way();

 private:
  std::unique_ptr<Hosts> hosts_;
  std::vector<VmSpec> made_;
  int operations_ = 0;
};

inline std::string backend_name(const testing::TestParamInfo<Backend>& with) {
  return with.param.name;
}

/// Prints the code and the text when a Status or a Result is an error.
template <typename R>
testing::AssertionResult is_ok(const R& result) {
  if (result.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << to_string(result.error().code) << ": " << result.error().text();
}

template <typename R>
testing::AssertionResult fails_with(const R& result, Code code) {
  if (result.ok()) return testing::AssertionFailure() << "it was done";
  if (result.error().code == code && !result.error().message.empty()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << to_string(result.error().code) << ": " << result.error().text();
}

}  // namespace mare::contract
