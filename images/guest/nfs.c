// After a checkpoint the NFS server has gone on without this guest: it counts calls of a session
// (nfs_session.c) and bytes on a connection that the guest does not know of, and either waits for
// the other for minutes. Sunrpc drops a connection when it is told its server's address (Linux
// 5.15), and connects anew.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "images/guest/guestd.h"

#define SWITCHES "/sys/kernel/sunrpc/xprt-switches"

enum { kServersMax = 8, kTries = 5 };

struct servers {
  char address[kServersMax][64];
  size_t count;
  bool restored;
};

static bool is_new(const struct servers* servers, const char* address) {
  for (size_t i = 0; i < servers->count; ++i) {
    if (strcmp(servers->address[i], address) == 0) return false;
  }
  return servers->count < kServersMax;
}

// Before the kernel's own calls come through again: one that the server refuses waits for 15 s.
static void end_session(const char* address) {
  for (int tries = 0; tries < kTries; ++tries) {
    if (nfs_session_end(address, MARE_GUEST_NFS_MINOR_VERSION)) {
      guestd_log("the NFS server %s knows that this guest begins anew", address);
      return;
    }
    guestd_log("the NFS server %s was not told that this guest begins anew: %s", address,
               strerror(errno));
    usleep(200000);
  }
}

// What it says is what it is told: only the connection is another one.
static void connect_anew(const char* path, struct servers* servers) {
  char address[64] = "";
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, address, sizeof address - 1);
  if (got > 0) {
    char server[sizeof address];
    snprintf(server, sizeof server, "%.*s", (int)strcspn(address, "\n"), address);
    if (servers->restored && is_new(servers, server)) {
      snprintf(servers->address[servers->count++], sizeof server, "%s", server);
      end_session(server);
    }
    (void)!pwrite(fd, address, (size_t)got, 0);
  }
  close(fd);
}

static void* connect_all_anew(void* restored) {
  struct servers servers = {.restored = restored != NULL};
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
      connect_anew(file, &servers);
    }
    if (transports) closedir(transports);
  }
  if (switches) closedir(switches);
  return NULL;
}

void nfs_connect_anew(bool restored) {
  // The kernel waits for whatever sends on it; who set the clock does not wait for that.
  static char yes;
  (void)thread_start(connect_all_anew, restored ? &yes : NULL);
}
