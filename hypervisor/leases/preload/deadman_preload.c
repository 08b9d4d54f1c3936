// libmare-deadman.so: a dead man's switch in a QEMU. A timer of the kernel ends the process when
// nobody has put it off, whoever else was killed or stopped meanwhile (docs/adr/0012).
//
// Loaded by LD_PRELOAD; the constructor runs before main(). One thread of its own reads, every 50
// ms, until when VMs may run on this host (hypervisor/leases/deadman.h has the file's layout) and
// sets the timer to that. A process that is stopped is ended by SIGKILL all the same. It prints
// nothing, and whatever goes wrong at its start QEMU runs on, only without this switch.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hypervisor/in_qemu.h"

#define LOOK_EVERY_NS (50 * 1000 * 1000)
#define SECOND_NS 1000000000ULL
#define MAGIC 0x314e414d44414544ULL  // "DEADMAN1"

struct words {
  uint64_t magic;
  uint64_t agent;
  uint64_t watchdog;
};

static const char* the_file;
static timer_t the_timer;

// Opened each time: an agent that is started anew may have had to make the file again.
static int read_words(struct words* out) {
  const int file = open(the_file, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  struct words again;
  const int whole = pread(file, out, sizeof *out, 0) == (ssize_t)sizeof *out &&
                    pread(file, &again, sizeof again, 0) == (ssize_t)sizeof again;
  close(file);
  // Two alike: none was read in the middle of a write.
  return whole && memcmp(out, &again, sizeof again) == 0 && out->magic == MAGIC;
}

static void put_off(uint64_t until_ns) {
  struct itimerspec at = {{0, 0}, {0, 0}};
  if (until_ns != 0 && until_ns != UINT64_MAX) {
    at.it_value.tv_sec = (time_t)(until_ns / SECOND_NS);
    at.it_value.tv_nsec = (long)(until_ns % SECOND_NS);
  }
  timer_settime(the_timer, TIMER_ABSTIME, &at, NULL);  // all zero: not set
}

static void look(void) {
  struct words said;
  // What can't be read changes nothing: the last word still runs out.
  if (read_words(&said)) put_off(said.agent > said.watchdog ? said.agent : said.watchdog);
}

static void* watch(void* unused) {
  (void)unused;
  const struct timespec pause = {0, LOOK_EVERY_NS};
  for (;;) {
    nanosleep(&pause, NULL);
    look();
  }
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  const int saved = errno;
  the_file = getenv("MARE_DEADMAN");
  struct sigevent end;
  memset(&end, 0, sizeof end);
  end.sigev_notify = SIGEV_SIGNAL;
  end.sigev_signo = SIGKILL;
  if (the_file != NULL && is_qemu() && timer_create(CLOCK_BOOTTIME, &end, &the_timer) == 0) {
    look();
    // Signals are QEMU's: none may be delivered to this thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0) {
      pthread_setname_np(thread, "mare-deadman");
      pthread_detach(thread);
    } else {
      timer_delete(the_timer);  // nobody would put it off
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved;
}
