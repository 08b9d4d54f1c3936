// nfs_begin_anew() on the socket that is standard input; tells how it ended.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "images/guest/guestd.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const bool done = nfs_begin_anew(STDIN_FILENO, MARE_GUEST_NFS_MINOR_VERSION, argv[1]);
  puts(done ? "done" : strerror(errno));
  return done ? 0 : 1;
}
