// The UDP echo. It must answer at once whatever else the guest does: it is the ruler by which a
// migration's downtime is measured, so it does no allocation, takes no lock and runs above the
// job's threads.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/guestd.h"

static void raise_priority(void) {
  // The lowest real-time priority is above every ordinary thread and below the kernel's own.
  const struct sched_param lowest = {.sched_priority = 1};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) == 0) return;
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -10);
}

static void* echo_main(void* argument) {
  const int udp = (int)(intptr_t)argument;
  raise_priority();
  for (;;) {
    unsigned char packet[MARE_GUEST_PONG_BYTES + 1];
    struct sockaddr_storage from;
    socklen_t from_size = sizeof from;
    const ssize_t got =
        recvfrom(udp, packet, sizeof packet, 0, (struct sockaddr*)&from, &from_size);
    if (got < 0 && errno == EBADF) return NULL;
    if (got != MARE_GUEST_PING_BYTES || memcmp(packet, MARE_GUEST_PING_MAGIC, 8) != 0) continue;
    memcpy(packet, MARE_GUEST_PONG_MAGIC, 8);
    put_be64(packet + 16, clock_ns(CLOCK_MONOTONIC_RAW));
    put_be64(packet + 24, clock_ns(CLOCK_REALTIME));
    // Lost replies are what the sender measures: nothing to do about an error here.
    (void)sendto(udp, packet, MARE_GUEST_PONG_BYTES, MSG_DONTWAIT, (struct sockaddr*)&from,
                 from_size);
  }
}

bool echo_start(int udp) {
  return thread_start(echo_main, (void*)(intptr_t)udp);
}
