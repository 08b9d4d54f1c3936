// Follows the kernel's log. A migration that returned success may still have corrupted the guest;
// the first sign is often a line here. Counted as it comes, because the ring buffer forgets.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "images/guest/guestd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kmsg_summary kept;

static bool is_fault(const char* line) {
  static const char* const kFaults[] = MARE_GUEST_KMSG_FAULTS;
  for (size_t i = 0; i < sizeof kFaults / sizeof *kFaults; ++i) {
    if (strstr(line, kFaults[i])) return true;
  }
  return !strncmp(line, MARE_GUEST_KMSG_FAULT_START, strlen(MARE_GUEST_KMSG_FAULT_START));
}

static void note_fault(const char* line) {
  pthread_mutex_lock(&lock);
  if (kept.faults++ == 0) {
    snprintf(kept.first, sizeof kept.first, "%s", line);
  }
  pthread_mutex_unlock(&lock);
}

static void* kmsg_main(void* argument) {
  const int fd = (int)(intptr_t)argument;
  // A record is "priority,sequence,time,flags;text\n" and maybe " KEY=value\n" lines.
  char record[8192];
  for (;;) {
    const ssize_t got = read(fd, record, sizeof record - 1);
    if (got < 0 && (errno == EPIPE || errno == EINTR || errno == EINVAL))
      continue;  // Overrun: go on.
    if (got <= 0) break;
    record[got] = '\0';
    char* text = strchr(record, ';');
    if (!text) continue;
    ++text;
    text[strcspn(text, "\n")] = '\0';
    // The daemon's own and other programs' lines are not the kernel's: their facility (bits 3 and
    // up) is not 0.
    unsigned priority = 0;
    if (sscanf(record, "%u", &priority) == 1 && priority < 8 && is_fault(text)) note_fault(text);
  }
  pthread_mutex_lock(&lock);
  kept.watched = false;
  pthread_mutex_unlock(&lock);
  close(fd);
  return NULL;
}

void kmsg_start(void) {
  const int fd = open("/dev/kmsg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  kept.watched = true;
  if (thread_start(kmsg_main, (void*)(intptr_t)fd)) return;
  kept.watched = false;
  close(fd);
}

void kmsg_read(struct kmsg_summary* summary) {
  pthread_mutex_lock(&lock);
  *summary = kept;
  pthread_mutex_unlock(&lock);
}
