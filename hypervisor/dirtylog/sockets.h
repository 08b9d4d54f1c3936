// Sockets with deadlines, for the link's two ends; and datagrams, for words between agents.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/clock.h"
#include "orchestrator/core/net.h"

namespace mare::dirtylog {

/// A listening socket on a free port of that address, and the port.
Result<Fd> listen_on(const std::string& address, std::uint16_t& port);
/// A socket that takes datagrams on a free port of that address, and the port.
Result<Fd> datagrams_at(const std::string& address, std::uint16_t& port);
/// A socket whose datagrams go there.
Result<Fd> datagrams_to(const Endpoint& to);
Result<Fd> connect_to(const Endpoint& to, Clock& clock, MonotonicTime deadline);

/// Until `fd` has `events`; false at the deadline, on an error, or when `stop` (if >= 0) is
/// readable.
bool await(int fd, short events, int stop, Clock& clock, MonotonicTime deadline);
/// Everything, or false.
bool send_all(int fd, std::span<const std::byte> bytes, int stop, Clock& clock,
              MonotonicTime deadline);
bool receive_all(int fd, std::span<std::byte> bytes, int stop, Clock& clock,
                 MonotonicTime deadline);
/// Small writes leave at once.
void make_prompt(int fd);
/// Received bytes carry the time at which the kernel got them.
void ask_for_stamps(int fd);

/// Some bytes, 0 at the stream's end, -1 on an error. `stamp`: when the last of them came, by the
/// kernel's wall clock; 0 if it does not tell.
ssize_t receive_stamped(int fd, std::span<std::byte> bytes, std::chrono::nanoseconds& stamp);

}  // namespace mare::dirtylog
