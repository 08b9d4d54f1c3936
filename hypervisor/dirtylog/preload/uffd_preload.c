// libmare-dirtylog.so: opens one userfaultfd in a QEMU, for the host agent to take.
//
// A userfaultfd works on the memory of the process that opened it, so QEMU must open it, and before
// its seccomp sandbox forbids that. Loaded by LD_PRELOAD; the constructor runs before main(). It
// uses no memory and no thread, prints nothing, and whatever goes wrong QEMU runs on, only
// unwatched. The descriptor is left open and nameless: the agent finds it among /proc/PID/fd.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hypervisor/in_qemu.h"

// Since Linux 5.11. Enough for an asynchronous write-protection, and allowed to a QEMU without
// privileges where vm.unprivileged_userfaultfd is 0.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

__attribute__((constructor)) static void open_descriptor(void) {
  const int saved = errno;
  if (is_qemu()) {
    const long flags = O_CLOEXEC | O_NONBLOCK;
    if (syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY) < 0 && errno == EINVAL) {
      syscall(SYS_userfaultfd, flags);
    }
  }
  errno = saved;
}
