#include "tests/contract/driver_contract.h"

#include <algorithm>

namespace mare::contract {
namespace {
constexpr Milliseconds kMoment{20};
}

GuestPlan busy_guest() {
  return {.memory = mebibytes(128),
          .dirty_bytes_per_s = 48.0 * 1024 * 1024,
          .wws = mebibytes(24),
          .faulty = false};
}

void DriverContract::SetUp() {
  auto made = GetParam().make();
  if (!made && made.error().code == Code::Unsupported) GTEST_SKIP() << made.error().text();
  ASSERT_TRUE(is_ok(made));
  hosts_ = std::move(*made);
}

void DriverContract::TearDown() {
  if (!hosts_) return;
  for (const auto& vm : made_) {
    for (const int host : {0, 1}) {
      EXPECT_TRUE(is_ok(at(host).discard_incoming(vm.key())));
      EXPECT_TRUE(is_ok(at(host).destroy(vm.key())));
    }
  }
}

VmSpec DriverContract::vm(const GuestPlan& plan) {
  made_.push_back(hosts_->vm(plan));
  return made_.back();
}

VmSpec DriverContract::other_incarnation(const VmSpec& vm) {
  VmSpec other = vm;
  char& digit = other.uuid.back();
  digit = digit == '0' ? '1' : '0';
  return other;
}

VmSpec DriverContract::started(int host, const GuestPlan& plan) {
  const VmSpec made = vm(plan);
  EXPECT_TRUE(is_ok(at(host).start(made)));
  EXPECT_TRUE(wait_until([&] { return count(host, made) > 0; }, kBoot)) << "no guest";
  return made;
}

MigrationTicket DriverContract::ticket(const VmSpec& vm) {
  return {OperationId{"op-" + std::to_string(++operations_)}, vm, std::nullopt, std::nullopt, {}};
}

bool DriverContract::wait_until(const std::function<bool()>& condition, Milliseconds limit) {
  const MonotonicTime deadline = hosts_->now() + limit;
  while (!condition()) {
    if (hosts_->now() > deadline) return condition();
    hosts_->wait(kMoment);
  }
  return true;
}

Copy DriverContract::copy(int host, const VmSpec& vm) {
  auto seen = at(host).observe(vm.key());
  EXPECT_TRUE(is_ok(seen));
  return seen ? seen->copy : Copy::Unknown;
}

bool DriverContract::sending(int host, const VmSpec& vm) {
  auto seen = at(host).observe(vm.key());
  EXPECT_TRUE(is_ok(seen));
  return seen && seen->sending;
}

OutgoingStatus DriverContract::outgoing(int host, const VmSpec& vm) {
  auto status = at(host).outgoing(vm.key());
  EXPECT_TRUE(is_ok(status));
  return status ? *status : OutgoingStatus{};
}

void DriverContract::expect_alive(int host, const VmSpec& vm) {
  const double before = count(host, vm);
  EXPECT_TRUE(wait_until([&] { return count(host, vm) > before; }, kSoon))
      << "the guest of " << vm.id.value << " makes no progress on host " << host;
  auto seen = at(host).observe(vm.key());
  ASSERT_TRUE(is_ok(seen));
  EXPECT_EQ(seen->console_faults, 0) << seen->console_first_fault;
}

void DriverContract::expect_only_copy(int host, const VmSpec& vm) {
  EXPECT_EQ(copy(host, vm), Copy::Running);
  EXPECT_FALSE(sending(host, vm));
  EXPECT_EQ(copy(1 - host, vm), Copy::Absent);
  expect_alive(host, vm);
}

bool DriverContract::ended(int host, const VmSpec& vm) {
  const auto phase = outgoing(host, vm).phase;
  return phase != OutgoingPhase::PreCopying && phase != OutgoingPhase::Switching &&
         phase != OutgoingPhase::PostCopying;
}

void DriverContract::begin(const MigrationTicket& ticket, int from, int to) {
  auto endpoint = at(to).prepare_incoming(ticket);
  ASSERT_TRUE(is_ok(endpoint));
  ASSERT_TRUE(is_ok(at(from).begin_outgoing(ticket, *endpoint)));
}

void DriverContract::begin_holding(const VmSpec& vm, int from, int to) {
  MigrationTicket holding = ticket(vm, Strategy::PreCopy);
  holding.holds_switch = true;
  begin(holding, from, to);
  EXPECT_TRUE(wait_until([&] { return outgoing(from, vm).holds; }, kMove)) << "it never holds";
}

OutgoingStatus DriverContract::move(const MigrationTicket& ticket, int from, int to) {
  begin(ticket, from, to);
  EXPECT_TRUE(wait_until([&] { return ended(from, ticket.vm); }, kMove)) << "it does not end";
  return outgoing(from, ticket.vm);
}

std::vector<Strategy> DriverContract::offered() {
  auto source = at(0).facts();
  auto destination = at(1).facts();
  EXPECT_TRUE(is_ok(source));
  EXPECT_TRUE(is_ok(destination));
  std::vector<Strategy> both;
  if (!source || !destination) return both;
  for (const Strategy strategy : source->strategies) {
    const auto& there = destination->strategies;
    if (std::find(there.begin(), there.end(), strategy) != there.end()) both.push_back(strategy);
  }
  return both;
}

MigrationTicket DriverContract::ticket(const VmSpec& vm, Strategy strategy) {
  MigrationTicket out = ticket(vm);
  out.sending.strategy = strategy;
  out.sending.rate_min = BytesPerSecond{16.0 * 1024 * 1024};
  out.sending.rate_max = BytesPerSecond{256.0 * 1024 * 1024};
  return out;
}

void DriverContract::make_template(const VmSpec& like) {
  const TemplateSpec what = hosts_->template_of(like);
  TemplateStatus status;
  const auto made = [&] {
    auto asked = at(0).make_template(what);
    EXPECT_TRUE(is_ok(asked));
    status = asked ? *asked : TemplateStatus{TemplatePhase::Failed, "not asked"};
    return status.phase != TemplatePhase::Making;
  };
  EXPECT_TRUE(wait_until(made, kBoot));
  EXPECT_EQ(status.phase, TemplatePhase::Ready) << status.why;
}

VmSpec DriverContract::cloned(const VmSpec& like) {
  const VmSpec made = vm();
  EXPECT_TRUE(is_ok(at(0).start_clone(made, hosts_->template_of(like))));
  EXPECT_TRUE(wait_until([&] { return count(0, made) > 0; }, kSoon)) << "no guest";
  return made;
}

std::size_t DriverContract::listed(const VmSpec& like) {
  auto all = at(0).list();
  EXPECT_TRUE(is_ok(all));
  if (!all) return 0;
  // Another test's VMs may be there.
  const std::string ours = like.id.value.substr(0, like.id.value.rfind('-') + 1);
  return static_cast<std::size_t>(
      std::count_if(all->begin(), all->end(), [&](const VmObservation& one) {
        return one.key.id.value.rfind(ours, 0) == 0 ||
               one.key.id.value.find("template") != std::string::npos;
      }));
}

VmSpec DriverContract::half_way() {
  const VmSpec made = started(0, busy_guest());
  MigrationTicket slow = ticket(made);
  slow.bandwidth_limit = kSlow;
  begin(slow, 0, 1);
  EXPECT_TRUE(wait_until([&] { return outgoing(0, made).transferred > mebibytes(2); }, kMove));
  EXPECT_TRUE(wait_until([&] { return copy(1, made) == Copy::Incoming; }, kSoon));
  return made;
}

}  // namespace mare::contract
