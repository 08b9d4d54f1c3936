// After a checkpoint the NFS server has gone on without this guest: it counts bytes on a connection
// that the guest does not know of, and either waits for the other for minutes. Sunrpc drops a
// connection when it is told its server's address (Linux 5.15), and connects anew.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "images/guest/guestd.h"

#define SWITCHES "/sys/kernel/sunrpc/xprt-switches"

// What it says is what it is told: only the connection is another one.
static void connect_anew(const char* path) {
  char address[128];
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, address, sizeof address);
  if (got > 0) (void)!pwrite(fd, address, (size_t)got, 0);
  close(fd);
}

static void* connect_all_anew(void* nothing) {
  (void)nothing;
  DIR* switches = opendir(SWITCHES);
  for (struct dirent* one; switches && (one = readdir(switches));) {
    if (strncmp(one->d_name, "switch-", 7) != 0) continue;
    char path[600];
    snprintf(path, sizeof path, "%s/%s", SWITCHES, one->d_name);
    DIR* transports = opendir(path);
    for (struct dirent* other; transports && (other = readdir(transports));) {
      if (strncmp(other->d_name, "xprt-", 5) != 0 || !strstr(other->d_name, "-tcp")) continue;
      char file[900];
      snprintf(file, sizeof file, "%s/%s/dstaddr", path, other->d_name);
      connect_anew(file);
    }
    if (transports) closedir(transports);
  }
  if (switches) closedir(switches);
  return NULL;
}

void nfs_connect_anew(void) {
  // The kernel waits for whatever sends on it; who set the clock does not wait for that.
  pthread_t thread;
  if (pthread_create(&thread, NULL, connect_all_anew, NULL) == 0) pthread_detach(thread);
}
