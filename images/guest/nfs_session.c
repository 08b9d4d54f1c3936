// A guest that goes on from a checkpoint counts the calls of its NFS session from where it was
// then, the server from where the undone life ended. Linux's client asks again with the same number
// every 15 s until the lease runs out at the server, a minute or more later
// (nfs41_sequence_process() in fs/nfs/nfs4proc.c). So the server is told what is true: this client
// has begun anew. It then forgets the former session (RFC 8881, 18.35.4, "client restart"); the
// kernel hears so at its next call, and makes another at once. Locks on files are lost with it, as
// they are when a lease ends.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum {
  kNfsPort = 2049,
  kCallMax = 2048,
  kPatienceS = 2,
  kLastFragment = (int)0x80000000,
  kProgram = 100003,
  kVersion = 4,
  kProcCompound = 1,
  kAuthNone = 0,
  kAuthSys = 1,
  kOpExchangeId = 42,
  kOpCreateSession = 43,
};

struct call {
  unsigned char bytes[kCallMax];
  size_t size;
  size_t read;
  bool torn;  // more was written or read than there is
};

static void put(struct call* call, const void* bytes, size_t size) {
  const size_t padded = (size + 3) & ~(size_t)3;
  if (call->torn || call->size + padded > sizeof call->bytes) {
    call->torn = true;
    return;
  }
  memset(call->bytes + call->size, 0, padded);
  memcpy(call->bytes + call->size, bytes, size);
  call->size += padded;
}

static void put32(struct call* call, uint32_t number) {
  const uint32_t wire = htonl(number);
  put(call, &wire, sizeof wire);
}

static void put_opaque(struct call* call, const void* bytes, size_t size) {
  put32(call, (uint32_t)size);
  put(call, bytes, size);
}

static const void* take(struct call* call, size_t size) {
  static const unsigned char nothing[16];
  const size_t padded = (size + 3) & ~(size_t)3;
  if (call->torn || call->size - call->read < padded) {
    call->torn = true;
    return nothing;
  }
  call->read += padded;
  return call->bytes + call->read - padded;
}

static uint32_t take32(struct call* call) {
  uint32_t wire;
  memcpy(&wire, take(call, sizeof wire), sizeof wire);
  return ntohl(wire);
}

static void skip_opaque(struct call* call) {
  const uint32_t size = take32(call);
  if (size > kCallMax) {
    call->torn = true;
  } else {
    (void)take(call, size);
  }
}

/// A COMPOUND of one operation, by root, whose arguments follow.
static void begin(struct call* call, uint32_t minor, uint32_t operation) {
  memset(call, 0, sizeof *call);
  put32(call, 0);  // the record's mark, set when it is sent
  put32(call, operation);
  put32(call, 0);  // a call
  put32(call, 2);  // of RPC version 2
  put32(call, kProgram);
  put32(call, kVersion);
  put32(call, kProcCompound);
  struct utsname names;
  (void)uname(&names);
  const size_t length = strnlen(names.nodename, 64);
  put32(call, kAuthSys);
  put32(call, (uint32_t)(20 + ((length + 3) & ~(size_t)3)));
  put32(call, 0);  // stamp
  put_opaque(call, names.nodename, length);
  put32(call, 0);  // uid
  put32(call, 0);  // gid
  put32(call, 0);  // no more groups
  put32(call, kAuthNone);
  put32(call, 0);
  put_opaque(call, "", 0);  // tag
  put32(call, minor);
  put32(call, 1);
  put32(call, operation);
}

static bool read_all(int fd, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = recv(fd, (char*)to + done, size - done, 0);
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

/// Sends it and reads the answer into it, up to the operation's own results; false with errno.
static bool ask(int fd, struct call* call) {
  if (call->torn) {
    errno = EMSGSIZE;
    return false;
  }
  const uint32_t mark = htonl((uint32_t)kLastFragment | (uint32_t)(call->size - 4));
  memcpy(call->bytes, &mark, sizeof mark);
  if (send(fd, call->bytes, call->size, MSG_NOSIGNAL) != (ssize_t)call->size) return false;
  uint32_t head;
  if (!read_all(fd, &head, sizeof head)) return false;
  const uint32_t length = ntohl(head) & ~(uint32_t)kLastFragment;
  memset(call, 0, sizeof *call);
  errno = EPROTO;
  if (length > sizeof call->bytes) return false;
  if (!read_all(fd, call->bytes, length)) return false;
  call->size = length;
  (void)take32(call);                       // xid
  const uint32_t is_reply = take32(call);   // 1
  const uint32_t is_denied = take32(call);  // 0
  (void)take32(call);                       // the server's verifier
  skip_opaque(call);
  const uint32_t refused = take32(call);  // 0
  const uint32_t status = take32(call);   // of the compound: that of its only operation
  skip_opaque(call);                      // tag
  (void)take32(call);                     // one result
  (void)take32(call);                     // of this operation
  (void)take32(call);                     // its status
  errno = EPROTO;
  return !call->torn && is_reply == 1 && !is_denied && !refused && status == 0;
}

static void put_channel(struct call* call) {
  put32(call, 0);     // no padding of headers
  put32(call, 4096);  // a request's, an answer's, a kept answer's most bytes
  put32(call, 4096);
  put32(call, 4096);
  put32(call, 8);  // operations
  put32(call, 1);  // slots
  put32(call, 0);  // no RDMA
}

bool nfs_begin_anew(int fd, uint32_t minor, const char* owner) {
  unsigned char verifier[8];
  const uint64_t now = clock_ns(CLOCK_REALTIME);
  memcpy(verifier, &now, sizeof now);
  struct call call;
  begin(&call, minor, kOpExchangeId);
  put(&call, verifier, sizeof verifier);
  put_opaque(&call, owner, strlen(owner));
  put32(&call, 0);  // flags
  put32(&call, 0);  // no protection of state
  put32(&call, 0);  // no word on who made this client
  if (!ask(fd, &call)) return false;
  unsigned char client[8];
  memcpy(client, take(&call, sizeof client), sizeof client);
  const uint32_t sequence = take32(&call);
  if (call.torn) return false;
  // Not before this does the server believe the other.
  begin(&call, minor, kOpCreateSession);
  put(&call, client, sizeof client);
  put32(&call, sequence);
  put32(&call, 0);  // flags
  put_channel(&call);
  put_channel(&call);
  put32(&call, 0x40000000);  // the program of calls back, of which there are none
  put32(&call, 1);
  put32(&call, kAuthNone);
  return ask(fd, &call);
}

static int connect_to(const char* server) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kNfsPort)};
  if (inet_pton(AF_INET, server, &address.sin_addr) != 1) {
    errno = EINVAL;
    return -1;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const struct timeval patience = {.tv_sec = kPatienceS};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, (struct sockaddr*)&address, sizeof address) == 0) return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

/// As nfs4_init_uniform_client_string() makes it, from what mare-init said before the first mount.
static bool name_owner(char* owner, size_t size, unsigned minor) {
  char unique[80] = "";
  FILE* file = fopen("/sys/module/nfs/parameters/nfs4_unique_id", "re");
  if (!file) return false;
  const bool known = fgets(unique, sizeof unique, file) != NULL;
  (void)fclose(file);
  unique[strcspn(unique, "\n")] = '\0';
  struct utsname names;
  if (!known || !unique[0] || uname(&names) != 0) return false;
  snprintf(owner, size, "Linux NFSv4.%u %s/%s", minor, unique, names.nodename);
  return true;
}

bool nfs_session_end(const char* server, unsigned minor) {
  char owner[256];
  if (!name_owner(owner, sizeof owner, minor)) {
    errno = ENOENT;
    return false;
  }
  const int fd = connect_to(server);
  if (fd < 0) return false;
  const bool done = nfs_begin_anew(fd, minor, owner);
  const int why = errno;
  close(fd);
  errno = why;
  return done;
}
