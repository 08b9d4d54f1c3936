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
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Since Linux 5.11. Enough for an asynchronous write-protection, and allowed to a QEMU without
// privileges where vm.unprivileged_userfaultfd is 0.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

// The variable is inherited by whatever QEMU starts: those are none of ours.
static int is_qemu(void) {
  static const char kName[] = "qemu-system-";
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  const char* slash = strrchr(path, '/');
  return slash != NULL && strncmp(slash + 1, kName, sizeof kName - 1) == 0;
}

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
