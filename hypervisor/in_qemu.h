// For libraries that QEMU preloads (C): whether this process is one. Their variable is inherited by
// whatever QEMU starts, and by what starts it: those are none of ours.
#pragma once

#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_qemu(void) {
  static const char kName[] = "qemu-system-";
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  const char* slash = strrchr(path, '/');
  return slash != NULL && strncmp(slash + 1, kName, sizeof kName - 1) == 0;
}
