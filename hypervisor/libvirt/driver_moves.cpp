// Migrations, at both of their ends.
#include "hypervisor/libvirt/domain_xml.h"
#include "hypervisor/libvirt/driver_class.h"
#include "hypervisor/libvirt/figures.h"
#include "hypervisor/libvirt/refusals.h"
#include "hypervisor/libvirt/sending.h"

namespace mare::libvirt {

Result<IncomingEndpoint> LibvirtDriver::prepare_incoming(const MigrationTicket& ticket) {
  const VmSpec& vm = ticket.vm;
  if (auto good = check_key(vm.key()); !good) return good.error();
  if (auto can = can_move(ticket.sending); !can) return can.error();
  const IncomingEndpoint endpoint{route(vm).text()};
  const auto known = arrivals_.find(vm.uuid);
  const bool again = known && known->operation == ticket.operation;
  auto seen = observe(vm.key());
  if (!seen) return seen.error();
  // Asked twice: the copy that is on its way, or has come, is no obstacle.
  if (seen->copy != Copy::Absent && (again || seen->copy == Copy::Incoming)) return endpoint;
  if (seen->copy != Copy::Absent) return admitting_.has_copy(*seen);
  auto fresh = admitting_.admit(vm);
  if (!fresh) return fresh.error();
  if (again && known->expected) return endpoint;
  auto begun = consoles_.begin(vm.key());
  if (begun) begun = arrivals_.expect(ticket);
  if (begun) {
    incoming_queues_.expect(vm.key(), connections(ticket.sending), reader_of(ticket.sending),
                            may_post_copy(ticket.sending));
    return endpoint;
  }
  admission_.release(vm.uuid);
  return begun.error();
}

Status LibvirtDriver::begin_outgoing(const MigrationTicket& ticket, const IncomingEndpoint& to) {
  const VmKey vm = ticket.vm.key();
  Outgoing::Beginning prepared(outgoing_, vm.uuid);
  auto route = Route::parse(to.uri);
  if (outgoing_.knows(vm.uuid, ticket.operation)) {
    return route ? outgoing_.mend(ticket, *route, why_no_mending()) : ok_status();
  }
  if (!route) return route.error();
  if (auto can = can_move(ticket.sending); !can) return can;
  if (route->accelerated != accelerated_) {
    return make_error(Code::Unsupported,
                      std::string("VM '") + vm.id.value + "' can't move between a host with KVM " +
                          "and one that emulates",
                      "choose a host of the same kind, or end the VM and start it there");
  }
  if (auto alike = check_encryption(*route, options_.migration_tls); !alike) return alike;
  auto domain = find(vm);
  if (!domain) return domain.error();
  auto seen = look_at(domain->get(), arrivals_.expected(vm.uuid));
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent || seen->copy == Copy::Incoming) return no_copy(vm);
  if (seen->post_copy == PostCopy::Broken) {
    return outgoing_.mend(ticket, *route, why_no_mending());
  }
  if (captures_.active(vm.uuid)) return being_captured(vm);
  if (seen->sending || outgoing_.running(vm.uuid)) {
    return make_error(Code::Conflict, "VM '" + vm.id.value + "' is being migrated already");
  }
  if (seen->copy == Copy::Paused) {
    return make_error(Code::FailedPrecondition, "VM '" + vm.id.value + "' is paused",
                      "resume it first");
  }
  // Asked before the log is closed.
  auto swept =
      ticket.sending.sweep_switch.waits.empty() ? dirtylog::PageSet{} : watching_.swept(vm.uuid);
  auto begun = outgoing_.begin(prepared, ticket, *route, std::move(swept));
  if (begun) arrivals_.forget(vm.uuid);  // if it came once, now it goes
  if (begun) watching_.back_off(vm.uuid);
  return begun;
}

Result<OutgoingStatus> LibvirtDriver::outgoing(const VmKey& vm) {
  OutgoingStatus known = outgoing_.status(vm.uuid);
  if (outgoing_.running(vm.uuid)) return known;
  // Perhaps one that an earlier agent began.
  auto domain = find(vm);
  if (!domain && domain.error().code != Code::NotFound) return domain.error();
  if (!domain) return known;
  const OutgoingStatus found = found_job(domain->get());
  return found.phase == OutgoingPhase::None ? known : found;
}

Status LibvirtDriver::cancel_outgoing(const VmKey& vm) {
  if (outgoing_.cancel(vm.uuid)) return ok_status();
  auto domain = find(vm);
  if (!domain) return absent_is_fine(domain.error());
  auto seen = look_at(domain->get(), arrivals_.expected(vm.uuid));
  if (!seen) return seen.error();
  if (seen->post_copy != PostCopy::None) return ok_status();  // no way back
  if (!seen->sending || virDomainAbortJob(domain->get()) == 0) return ok_status();
  const Error error = last_error("migration of '" + vm.id.value + "' can't be cancelled");
  // It ended by itself in this moment, or is past the point: the copies tell what came of it.
  return error.code == Code::FailedPrecondition ? ok_status() : absent_is_fine(error);
}

Status LibvirtDriver::force_outgoing(const VmKey& vm, LimitAction how) {
  if (outgoing_.running(vm.uuid)) return outgoing_.force(vm.uuid, how);
  if (how == LimitAction::Cancel) return cancel_outgoing(vm);
  // One that an earlier agent began.
  auto domain = find(vm);
  if (!domain) return domain.error();
  auto seen = look_at(domain->get(), false);
  if (!seen) return seen.error();
  if (!seen->sending) {
    return make_error(Code::NotFound, "no migration of VM '" + vm.id.value + "' runs here");
  }
  if (seen->post_copy != PostCopy::None || seen->copy == Copy::Paused) return ok_status();
  const bool done = how == LimitAction::PostCopy
                        ? virDomainMigrateStartPostCopy(domain->get(), 0) == 0
                        : virDomainSuspend(domain->get()) == 0;
  return done ? ok_status()
              : Status(last_error("the migration of '" + vm.id.value + "' can't be forced"));
}

Status LibvirtDriver::release_outgoing(const VmKey& vm) {
  if (outgoing_.running(vm.uuid)) return outgoing_.release(vm.uuid);
  auto domain = find(vm);
  if (!domain) return absent_is_fine(domain.error());
  auto seen = look_at(domain->get(), false);
  if (!seen) return seen.error();
  if (!seen->sending || seen->post_copy != PostCopy::None) return ok_status();
  if (allow_switch(domain->get())) return ok_status();
  return last_error("the migration of '" + vm.id.value + "' can't be let go");
}

Result<ArrivalReport> LibvirtDriver::arrival(const VmKey& vm) {
  auto seen = observe(vm);
  if (!seen) return seen.error();
  ArrivalReport report;
  report.seen = *seen;
  if (const auto known = arrivals_.find(vm.uuid)) {
    report.resumed_at = known->resumed_at;
    report.announced_at = known->announced_at;
    if (known->announced_at.count() != 0) report.announcements = arrivals_.frames_sent(*known);
  }
  if (seen->copy != Copy::Running && seen->copy != Copy::Paused) return report;
  if (auto domain = find(vm)) add_figures(domain->get(), report);
  return report;
}

Status LibvirtDriver::discard_incoming(const VmKey& vm) {
  auto seen = observe(vm);
  if (!seen) return seen.error();
  if (seen->copy == Copy::Running || seen->copy == Copy::Paused) return ok_status();
  if (seen->copy == Copy::Incoming) return destroy(vm);
  arrivals_.forget(vm.uuid);
  admission_.release(vm.uuid);
  return ok_status();
}

Status LibvirtDriver::announce(const VmSpec& vm) {
  auto seen = observe(vm.key());
  if (!seen) return seen.error();
  if (seen->copy == Copy::Absent) return no_copy(vm.key());
  return arrivals_.announce(vm);
}

Status LibvirtDriver::can_move(const Sending& sending) {
  if (auto good = check(sending); !good) return good;
  auto known = facts();
  return known ? check_offered(*known, options_.host_name, sending) : Status(known.error());
}

std::string LibvirtDriver::why_no_mending() {
  auto connection = connection_.get();
  unsigned long library = 0;
  if (!connection || virConnectGetLibVersion(connection->get(), &library) != 0) return "";
  return libvirt::why_no_mending(accelerated_, library);
}

Route LibvirtDriver::route(const VmSpec& vm) {
  return {libvirt_uri_at(options_.migration_address),
          data_uri_at(options_.migration_address),
          options_.bridge,
          consoles_.path(vm.id),
          accelerated_,
          starting_.preloads(),
          options_.migration_tls,
          notices_.address()};
}

}  // namespace mare::libvirt
