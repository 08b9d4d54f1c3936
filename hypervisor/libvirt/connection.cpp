#include "hypervisor/libvirt/connection.h"

#include <array>
#include <thread>
#include <utility>

namespace mare::libvirt {
namespace {

// A libvirtd that hangs is noticed within 15 s instead of never.
constexpr int kKeepAliveSeconds = 5;
constexpr unsigned kKeepAlivesMissed = 3;

using Listening = std::shared_ptr<Connection::Listener>;

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

/// Tells the listener, unless it is gone.
template <typename Tell>
void tell(void* opaque, const Tell& how) {
  const Listening listener = *static_cast<Listening*>(opaque);
  const std::lock_guard lock(listener->mutex);
  if (!listener->closed) how(listener->events);
}

int on_lifecycle(virConnectPtr, virDomainPtr domain, int event, int detail, void* opaque) {
  if (event == VIR_DOMAIN_EVENT_SUSPENDED && detail == VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED) {
    tell(opaque, [&](const DomainEvents& to) { to.paused_for_migration(uuid_of(domain)); });
  }
  if (event == VIR_DOMAIN_EVENT_SUSPENDED &&
      (detail == VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY ||
       detail == VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY_FAILED)) {
    tell(opaque, [&](const DomainEvents& to) { to.post_copying(uuid_of(domain)); });
  }
  // In post-copy it runs long before all of it is here, and is told of twice.
  if (event == VIR_DOMAIN_EVENT_RESUMED && (detail == VIR_DOMAIN_EVENT_RESUMED_MIGRATED ||
                                            detail == VIR_DOMAIN_EVENT_RESUMED_POSTCOPY)) {
    tell(opaque, [&](const DomainEvents& to) { to.resumed_by_migration(uuid_of(domain)); });
  }
  return 0;
}

void on_iteration(virConnectPtr, virDomainPtr domain, int iteration, void* opaque) {
  tell(opaque, [&](const DomainEvents& to) { to.iteration(uuid_of(domain), iteration); });
}

void on_job_completed(virConnectPtr, virDomainPtr domain, virTypedParameterPtr params, int count,
                      void* opaque) {
  int operation = VIR_DOMAIN_JOB_OPERATION_UNKNOWN;
  virTypedParamsGetInt(params, count, VIR_DOMAIN_JOB_OPERATION, &operation);
  if (operation != VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT) return;
  CompletedJob figures;
  unsigned long long value = 0;
  if (virTypedParamsGetULLong(params, count, VIR_DOMAIN_JOB_DATA_PROCESSED, &value) == 1) {
    figures.transferred = Bytes{value};
  }
  if (virTypedParamsGetULLong(params, count, VIR_DOMAIN_JOB_DOWNTIME, &value) == 1) {
    figures.downtime = Milliseconds{static_cast<std::int64_t>(value)};
  }
  tell(opaque, [&](const DomainEvents& to) { to.sent(uuid_of(domain), figures); });
}

/// libvirt takes every kind of callback as this one type; GCC lets only void(*)() stand for any.
template <typename Function>
virConnectDomainEventGenericCallback generic(Function* callback) {
  return reinterpret_cast<virConnectDomainEventGenericCallback>(
      reinterpret_cast<void (*)()>(callback));
}

}  // namespace

Result<ConnectHandle> open_connection(const std::string& uri) {
  start_event_loop();
  virConnectPtr raw = virConnectOpen(uri.c_str());
  if (raw == nullptr) {
    Error error = last_error("libvirtd at " + uri + " does not answer");
    error.code = Code::Unavailable;
    error.remedy = "is libvirtd running on this host?";
    return error;
  }
  ConnectHandle connection(raw, ConnectClose{});
  virConnectSetKeepAlive(raw, kKeepAliveSeconds, kKeepAlivesMissed);
  return connection;
}

Connection::Connection(std::string uri, DomainEvents events, Log& log)
    : uri_(std::move(uri)), log_(log), listener_(std::make_shared<Listener>()) {
  listener_->events = std::move(events);
}

Connection::~Connection() {
  stop_events();
  close(current_);
}

void Connection::stop_events() {
  const std::lock_guard lock(listener_->mutex);
  listener_->closed = true;
}

Result<ConnectHandle> Connection::get() {
  Open broken;
  {
    const std::lock_guard lock(mutex_);
    if (current_.handle) {
      if (virConnectIsAlive(current_.handle.get()) == 1) return current_.handle;
      broken = std::exchange(current_, Open{});
    }
  }
  if (broken.handle) {
    log_.warn("libvirt", "the connection to " + uri_ + " broke; opening it again");
    close(broken);
  }
  auto opened = open_connection(uri_);  // may block: under no lock
  if (!opened) return opened.error();
  Open fresh = listen(*opened);
  {
    const std::lock_guard lock(mutex_);
    if (!current_.handle) {
      current_ = fresh;
      fresh = Open{};
    }
  }
  if (fresh.handle) close(fresh);  // another thread was quicker
  listener_->events.connected(opened->get());
  return *opened;
}

Connection::Open Connection::listen(ConnectHandle handle) {
  Open open{std::move(handle), {}};
  const auto add = [&](int event, virConnectDomainEventGenericCallback callback) {
    auto* opaque = new Listening(listener_);
    const int id = virConnectDomainEventRegisterAny(
        open.handle.get(), nullptr, event, callback, opaque,
        [](void* given) { delete static_cast<Listening*>(given); });
    if (id >= 0) {
      open.callbacks.push_back(id);
      return;
    }
    const Error error = last_error("no events: announcements and rounds will be late");
    delete opaque;  // libvirt frees only what it took
    log_.warn("libvirt", error.message);
  };
  add(VIR_DOMAIN_EVENT_ID_LIFECYCLE, generic(on_lifecycle));
  add(VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION, generic(on_iteration));
  add(VIR_DOMAIN_EVENT_ID_JOB_COMPLETED, generic(on_job_completed));
  return open;
}

void Connection::close(Open& open) {
  for (const int id : open.callbacks) virConnectDomainEventDeregisterAny(open.handle.get(), id);
  open = Open{};
}

}  // namespace mare::libvirt
