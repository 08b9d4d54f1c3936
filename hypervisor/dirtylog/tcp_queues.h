// How much waits in another process's TCP connections: to be sent, and to be read.
//
// The kernel takes megabytes from a program long before they leave, and from the network long
// before a program reads them. For a migration both are harm: what the VM's last round sends stands
// behind them while the VM stands still, a page that the destination's guest waits for does too,
// and the hypervisor takes filling a buffer for bandwidth. So a sending QEMU's connections get a
// limit of their own (TCP_NOTSENT_LOWAT), and a receiving one's as well (SO_RCVBUF): a destination
// that unpacks more slowly than its source packs then holds the source up, while the VM still runs.
//
// On their way out of the host they also let others pass (SO_PRIORITY): a message of a rank or a
// request to the shared root that waits behind 20 ms of pages costs the job more than the pages'
// move gains by those. Only the pages that a guest waits for in post-copy do not.
//
// A page is asked for on the connection that the pages come by, 16 bytes each time. The kernel
// sends such a small piece only when the one before it is acknowledged (RFC 896), which waits
// behind the pages at the source: 5 ms over 100 Mbit/s, each time, for each of some hundred pages
// that a guest needs before it does anything. So what a receiving QEMU asks for goes out at once
// (TCP_NODELAY).
//
// And after a cut of the link they try again within 2 s (Linux 6.15).
// Linux only.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "hypervisor/dirtylog/process.h"
#include "orchestrator/core/result.h"
#include "orchestrator/core/units.h"

namespace mare::dirtylog {

/// Of one of so many connections that fill a link together: their part of what it carries in 10 ms,
/// at most 1 MiB in all, as a busy sender is late by some milliseconds, and a link that idles
/// meanwhile is lost time; of 256 KiB for a link of unknown rate (0). At least 128 KiB. Pure.
Bytes unsent_limit(BytesPerSecond link, int connections);

/// What the reader of a connection does with what comes.
enum class Reader {
  Copies,   // to its place: as fast as it comes, but on busy CPUs its turn comes late
  Unpacks,  // hardly as fast as a fast link: whatever waits when the VM stands still costs downtime
};

/// Of one of so many connections that fill a link of that rate together: their part of what it
/// carries in two round trips and the time by which the reader may be late (15 ms if it copies, 5
/// if it unpacks), and as much again for what the kernel counts beside the bytes (of a small packet
/// as much as the packet); at least 512 KiB. Nothing, so the kernel's own measure, from 4 MiB: a
/// long way needs it. A link of unknown rate (0) is taken for one of 10 Gbit/s. Pure.
std::optional<Bytes> unread_limit(BytesPerSecond link, Microseconds round_trip, int connections,
                                  Reader reader);

/// The host sends what all others have first, where its queueing discipline goes by priorities
/// (pfifo_fast, prio; a fair queue needs no telling).
void give_way(int socket);

enum class Way {
  Bulk,    // lets all others pass
  Urgent,  // a guest stands still until it comes: as all others
};

class TcpQueues {
 public:
  /// NotFound if there is no such process.
  static Result<TcpQueues> open(pid_t pid);

  bool lives() const { return process_.lives(); }

  /// Of the connections that this has not seen before: bounds what waits to be sent, and has bulk
  /// give way. How many those were. Unavailable without CAP_SYS_PTRACE.
  Result<int> bound_unsent(Bytes limit, Way way = Way::Bulk);
  /// Bounds what waits to be read by unread_limit(), each by its own round trip; `connections` of
  /// them fill the link. And what the reader asks for goes out at once, also on connections that it
  /// is still to accept. Unavailable without CAP_SYS_PTRACE, or where the host allows less and
  /// CAP_NET_ADMIN is missing.
  Result<int> bound_unread(BytesPerSecond link, int connections, Reader reader);

 private:
  explicit TcpQueues(Process process) : process_(std::move(process)) {}
  /// `listening`: of sockets that accept connections, each time.
  Result<int> each_new(const std::function<Status(int socket)>& set,
                       const std::function<Status(int socket)>& listening = {});
  Process process_;
  std::set<std::string> seen_;  // "socket:[inode]", also of those that are not TCP
};

}  // namespace mare::dirtylog
