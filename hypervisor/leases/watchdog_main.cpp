// mare-watchdog LEASE_DIRECTORY LIBVIRT_STATUS_DIRECTORY [DEADMAN_FILE]: started by mare-agent.
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "hypervisor/leases/watchdog.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(
        stderr,
        "mare-watchdog: ends this host's VMs when its lease is over. mare-agent starts it: "
        "docs/agent.md.\nusage: mare-watchdog LEASE_DIRECTORY LIBVIRT_STATUS_DIRECTORY "
        "[DEADMAN_FILE]\n");
    return 2;
  }
  // Of whoever started it nothing but the words' way out stays: an agent's port would stay taken.
  ::close_range(3, ~0U, 0);
  signal(SIGPIPE, SIG_IGN);
  // Nobody's child: who started it need not bury it.
  const pid_t child = ::fork();
  if (child != 0) return child > 0 ? 0 : 1;
  mare::SystemClock clock;
  mare::Log log(clock, mare::LogLevel::Info);
  return mare::leases::run_watchdog({argv[1], argv[2], argc == 4 ? argv[3] : ""}, log);
}
