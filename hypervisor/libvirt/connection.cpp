#include "hypervisor/libvirt/connection.h"

#include <array>
#include <thread>

namespace mare::libvirt {
namespace {

/// libvirt's event loop: one a process, for ever, and to be there before the first connection.
void start_event_loop() {
  static std::once_flag once;
  std::call_once(once, [] {
    virSetErrorFunc(nullptr,
                    [](void*, virErrorPtr) {});  // errors are values here, not lines on stderr
    virInitialize();
    virEventRegisterDefaultImpl();
    std::thread([] {
      while (true) virEventRunDefaultImpl();
    }).detach();
  });
}

std::string uuid_of(virDomainPtr domain) {
  std::array<char, VIR_UUID_STRING_BUFLEN> text{};
  return virDomainGetUUIDString(domain, text.data()) == 0 ? std::string(text.data())
                                                          : std::string();
}

int on_lifecycle(virConnectPtr, virDomainPtr domain, int event, int detail, void* opaque) {
  const auto& events = *static_cast<const DomainEvents*>(opaque);
  if (event == VIR_DOMAIN_EVENT_SUSPENDED && detail == VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED) {
    events.paused_for_migration(uuid_of(domain));
  }
  if (event == VIR_DOMAIN_EVENT_RESUMED && detail == VIR_DOMAIN_EVENT_RESUMED_MIGRATED) {
    events.resumed_by_migration(uuid_of(domain));
  }
  return 0;
}

void on_iteration(virConnectPtr, virDomainPtr domain, int iteration, void* opaque) {
  static_cast<const DomainEvents*>(opaque)->iteration(uuid_of(domain), iteration);
}

/// libvirt takes every kind of callback as this one type; GCC lets only void(*)() stand for any.
template <typename Function>
virConnectDomainEventGenericCallback generic(Function* callback) {
  return reinterpret_cast<virConnectDomainEventGenericCallback>(
      reinterpret_cast<void (*)()>(callback));
}

Result<ConnectHandle> open_now(const std::string& uri) {
  virConnectPtr raw = virConnectOpen(uri.c_str());
  if (raw == nullptr) {
    Error error = last_error("libvirtd at " + uri + " does not answer");
    error.code = Code::Unavailable;
    error.remedy = "is libvirtd running on this host?";
    return error;
  }
  ConnectHandle connection(raw, ConnectClose{});
  // A libvirtd that hangs is noticed within 15 s instead of never.
  virConnectSetKeepAlive(raw, 5, 3);
  return connection;
}

}  // namespace

Connection::Connection(std::string uri, DomainEvents events, Log& log)
    : uri_(std::move(uri)), events_(std::move(events)), log_(log) {
  start_event_loop();
}

Connection::~Connection() = default;

Result<ConnectHandle> Connection::get() {
  const std::lock_guard lock(mutex_);
  if (current_ && virConnectIsAlive(current_.get()) == 1) return current_;
  if (current_) log_.warn("libvirt", "the connection to " + uri_ + " broke; opening it again");
  current_.reset();
  auto opened = open_now(uri_);
  if (!opened) return opened.error();
  current_ = *opened;
  register_events(current_.get());
  return current_;
}

Result<ConnectHandle> Connection::open_another() const {
  return open_now(uri_);
}

void Connection::register_events(virConnectPtr connection) {
  auto* opaque = const_cast<DomainEvents*>(&events_);
  const int lifecycle = virConnectDomainEventRegisterAny(
      connection, nullptr, VIR_DOMAIN_EVENT_ID_LIFECYCLE, generic(on_lifecycle), opaque, nullptr);
  const int iteration =
      virConnectDomainEventRegisterAny(connection, nullptr, VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION,
                                       generic(on_iteration), opaque, nullptr);
  if (lifecycle < 0 || iteration < 0) {
    log_.warn("libvirt", last_error("no events: announcements and rounds will be late").message);
  }
}

}  // namespace mare::libvirt
