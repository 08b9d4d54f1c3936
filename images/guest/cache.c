// DROPCACHE: a page that holds nothing any more still has its old content, and a hypervisor sends
// that. Taking free pages and giving them back leaves zeros, which cost next to nothing.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum { kPieceKib = 4 * 1024, kLeastFreeKib = 16 * 1024, kShareLeftFree = 16, kLookMs = 5 };

static bool write_text(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  const int error = errno;
  close(fd);
  errno = error;
  return written;
}

uint64_t cache_left_free_kib(uint64_t total_kib) {
  const uint64_t share = total_kib / kShareLeftFree;
  return share > kLeastFreeKib ? share : kLeastFreeKib;
}

// In a process of its own, which goes first if memory gets short meanwhile. The kernel clears every
// page that it hands out.
static _Noreturn void zero_main(void) {
  if (!write_text("/proc/self/oom_score_adj", "1000")) _exit(1);
  const uint64_t keep = cache_left_free_kib(meminfo_kib("MemTotal:"));
  while (meminfo_kib("MemFree:") > keep + kPieceKib) {
    const void* piece = mmap(NULL, (size_t)kPieceKib * 1024, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (piece == MAP_FAILED) break;
  }
  _exit(0);
}

// How much was zeroed, about: what was free beyond what is left.
static uint64_t zero_free_memory(void) {
  const uint64_t keep = cache_left_free_kib(meminfo_kib("MemTotal:"));
  const uint64_t free_kib = meminfo_kib("MemFree:");
  if (free_kib <= keep) return 0;
  const pid_t child = fork();
  if (child == 0) zero_main();
  if (child < 0) return 0;
  int status = 0;
  for (int waited = 0; waited < MARE_GUEST_ZERO_TIMEOUT_MS; waited += kLookMs) {
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? free_kib - keep : 0;
    }
    const struct timespec pause = {.tv_nsec = kLookMs * 1000000L};
    nanosleep(&pause, NULL);
  }
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  return 0;
}

bool cache_drop(uint64_t* freed_kib, uint64_t* zeroed_kib) {
  const uint64_t before = meminfo_kib("MemFree:");
  // 1: the page cache alone. Names and inodes of the shared root would have to be asked for again.
  if (!write_text("/proc/sys/vm/drop_caches", "1\n")) return false;
  const uint64_t after = meminfo_kib("MemFree:");
  *freed_kib = after > before ? after - before : 0;
  *zeroed_kib = zero_free_memory();
  return true;
}
