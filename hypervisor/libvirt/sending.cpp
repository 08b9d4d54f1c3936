#include "hypervisor/libvirt/sending.h"

#include <libvirt/libvirt.h>

#include <algorithm>
#include <cmath>

#include "hypervisor/rate_control.h"

namespace mare::libvirt {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
// VIR_MIGRATE_PARAM_BANDWIDTH_AVAIL_SWITCHOVER; libvirt before 11.1 has no such name.
constexpr const char* kSwitchoverBandwidth = "bandwidth.avail.switchover";

void add_throttle(const Sending& sending, MigrateCall& call) {
  call.flags |= VIR_MIGRATE_AUTO_CONVERGE;
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_AUTO_CONVERGE_INITIAL,
                               sending.throttle_initial_percent);
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_AUTO_CONVERGE_INCREMENT,
                               sending.throttle_step_percent);
}

/// zstd at its lowest level: it is faster than most links, and higher ones gain little on memory.
void add_compression(const Sending& sending, MigrateCall& call) {
  call.flags |= VIR_MIGRATE_PARALLEL;
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS, sending.channels);
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_COMPRESSION, std::string("zstd"));
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_COMPRESSION_ZSTD_LEVEL, 1);
}

void add_bandwidth(const MigrationTicket& ticket, MigrateCall& call) {
  const Sending& sending = ticket.sending;
  if (sending.strategy == Strategy::RateControlled) {
    const auto first = RateController(sending, Milliseconds{0}).rate();
    call.parameters.emplace_back(VIR_MIGRATE_PARAM_BANDWIDTH, mebibytes_per_s(first));
  } else if (ticket.bandwidth_limit) {
    call.parameters.emplace_back(VIR_MIGRATE_PARAM_BANDWIDTH,
                                 mebibytes_per_s(*ticket.bandwidth_limit));
  }
  if (ticket.bandwidth_limit && may_post_copy(sending)) {
    call.parameters.emplace_back(VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY,
                                 mebibytes_per_s(*ticket.bandwidth_limit));
  }
  if (sending.switchover_bandwidth) {
    call.parameters.emplace_back(kSwitchoverBandwidth,
                                 mebibytes_per_s(*sending.switchover_bandwidth));
  }
}

Status refuse(const std::string& what, int value, int low, int high) {
  if (value >= low && value <= high) return ok_status();
  return make_error(Code::InvalidArgument, what + " can't be " + std::to_string(value),
                    "give " + std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace

int connections(const Sending& sending) {
  return sending.strategy == Strategy::Compressed ? sending.channels : 1;
}

dirtylog::Reader reader_of(const Sending& sending) {
  return sending.strategy == Strategy::Compressed ? dirtylog::Reader::Unpacks
                                                  : dirtylog::Reader::Copies;
}

bool may_post_copy(const Sending& sending) {
  return sending.strategy == Strategy::PostCopy || sending.strategy == Strategy::Hybrid ||
         sending.allow_post_copy;
}

bool refuses_switchover_bandwidth(const Sending& sending, const std::string& error) {
  // QEMU's name of the parameter, or libvirt's.
  return sending.switchover_bandwidth &&
         (error.find("avail-switchover-bandwidth") != std::string::npos ||
          error.find(kSwitchoverBandwidth) != std::string::npos);
}

std::string remedy_for(const Route& route, const std::string& error) {
  // A channel of TLS that broke says nothing of certificates: its link may have broken.
  const bool of_tls = error.find("ertificate") != std::string::npos ||
                      error.find("credentials") != std::string::npos ||
                      error.find("handshake") != std::string::npos;
  if (!route.tls || !of_tls) return "";
  const std::string address = route.data_uri.substr(route.data_uri.rfind('/') + 1);
  return "both hosts need certificates for QEMU that are of one CA, the destination's for " +
         address + " (docs/libvirt.md)";
}

unsigned long long mebibytes_per_s(BytesPerSecond rate) {
  return static_cast<unsigned long long>(std::max(1.0, std::floor(rate.value / kMib)));
}

MigrateCall call_for(const MigrationTicket& ticket, const Route& route, const std::string& xml) {
  MigrateCall call;
  // Not persistent: a definition that stays behind could be started a second time by hand.
  call.flags = VIR_MIGRATE_PEER2PEER;
  // Without this flag libvirt pauses the VM first, and lets it go on at whichever end it comes to.
  if (ticket.sending.strategy != Strategy::StopAndCopy) call.flags |= VIR_MIGRATE_LIVE;
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_URI, route.data_uri);
  if (route.tls) call.flags |= VIR_MIGRATE_TLS;
  if (!xml.empty()) call.parameters.emplace_back(VIR_MIGRATE_PARAM_DEST_XML, xml);
  if (ticket.sending.strategy == Strategy::Throttled) add_throttle(ticket.sending, call);
  if (ticket.sending.strategy == Strategy::Compressed) add_compression(ticket.sending, call);
  if (may_post_copy(ticket.sending)) call.flags |= VIR_MIGRATE_POSTCOPY;
  add_bandwidth(ticket, call);
  return call;
}

MigrateCall call_to_mend(const MigrationTicket& ticket, const Route& route) {
  MigrateCall call;
  call.flags =
      VIR_MIGRATE_PEER2PEER | VIR_MIGRATE_LIVE | VIR_MIGRATE_POSTCOPY | VIR_MIGRATE_POSTCOPY_RESUME;
  if (route.tls) call.flags |= VIR_MIGRATE_TLS;
  call.parameters.emplace_back(VIR_MIGRATE_PARAM_URI, route.data_uri);
  if (ticket.bandwidth_limit) {
    call.parameters.emplace_back(VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY,
                                 mebibytes_per_s(*ticket.bandwidth_limit));
  }
  return call;
}

Milliseconds wait_of(const SweepSwitch& how, double place, std::chrono::nanoseconds since) {
  const double gone = std::chrono::duration<double>(since) / how.sweep.period;
  const double then = how.sweep.descending ? place + gone : place - gone;
  const auto parts = static_cast<double>(how.waits.size());
  const auto part = static_cast<std::size_t>((then - std::floor(then)) * parts);
  return how.waits[std::min(part, how.waits.size() - 1)];
}

std::chrono::nanoseconds hold_of(const SweepSwitch& how, double place,
                                 std::chrono::nanoseconds rest) {
  const double way = how.sweep.descending ? place - how.best_place : how.best_place - place;
  const double periods = way - std::chrono::duration<double>(rest) / how.sweep.period;
  const auto hold = std::chrono::duration_cast<std::chrono::nanoseconds>(
      (periods - std::floor(periods)) * how.sweep.period);
  return hold <= how.longest_hold ? hold : std::chrono::nanoseconds{0};
}

Status check(const Sending& sending) {
  if (sending.strategy == Strategy::Compressed) {
    if (sending.allow_post_copy) {
      return make_error(Code::Unsupported, "compressed channels can't be switched to post-copy");
    }
    return refuse("the number of channels", sending.channels, 1, 16);
  }
  if (sending.strategy == Strategy::Hybrid) {
    const SweepSwitch& sweep = sending.sweep_switch;
    if (!sweep.waits.empty() && sweep.sweep.period.count() <= 0) {
      return make_error(Code::InvalidArgument, "waits for a guest that sweeps, without its period");
    }
    return refuse("the number of rounds", sending.pre_copy_rounds, 1, 10);
  }
  if (sending.strategy == Strategy::Throttled) {
    auto initial = refuse("the first throttle", sending.throttle_initial_percent, 1, 99);
    return initial ? refuse("the throttle's step", sending.throttle_step_percent, 1, 99) : initial;
  }
  return ok_status();
}

}  // namespace mare::libvirt
