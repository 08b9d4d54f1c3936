// SAFEPOINT: reads the pages that a job's MPI processes in this guest share (safepoint.h).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/guestd.h"
#include "images/guest/safepoint.h"

// The process whose page that is, 0 if it is none of the job's: "job-1.7" is no process of "job-1".
static long page_of(const char* name, const char* prefix) {
  const size_t length = strlen(prefix);
  uint64_t pid = 0;
  if (strncmp(name, prefix, length) != 0) return 0;
  return parse_u64(name + length, INT32_MAX, &pid) ? (long)pid : 0;
}

// False: it is not whole yet, or its process is gone. The page of one that was killed is removed.
static bool read_page(int dir, const char* name, long pid, struct mare_safe_point* page) {
  const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = pread(fd, page, sizeof *page, 0) == (ssize_t)sizeof *page;
  close(fd);
  if (!whole || page->magic != MARE_SAFE_POINT_MAGIC || page->pid != pid) return false;
  unsigned long long start = 0;
  if (process_start(pid, &start) && start == page->process_start) return true;
  (void)unlinkat(dir, name, 0);
  return false;
}

static void count(const struct mare_safe_point* page, int64_t now, struct safe_points* found) {
  ++found->ranks;
  found->entered += page->entered;
  if (page->entered != page->left) {
    ++found->inside;
    return;
  }
  const int64_t outside = now > page->left_ns ? now - page->left_ns : 0;
  if (outside > found->outside_ns) found->outside_ns = outside;
}

bool safe_points_read(const char* job, struct safe_points* found) {
  char prefix[sizeof MARE_SAFE_POINT_PREFIX + MARE_GUEST_ID_MAX + 1];
  snprintf(prefix, sizeof prefix, "%s%s.", MARE_SAFE_POINT_PREFIX, job);
  *found = (struct safe_points){0};
  DIR* dir = opendir(MARE_SAFE_POINT_DIR);
  if (!dir) return errno == ENOENT;
  for (struct dirent* entry; (entry = readdir(dir));) {
    struct mare_safe_point page;
    const long pid = page_of(entry->d_name, prefix);
    if (pid <= 0 || !read_page(dirfd(dir), entry->d_name, pid, &page)) continue;
    // Afterwards: a clock read before could be behind the page's.
    count(&page, (int64_t)clock_ns(CLOCK_MONOTONIC_COARSE), found);
  }
  closedir(dir);
  return true;
}
