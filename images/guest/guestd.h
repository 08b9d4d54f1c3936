// What the files of mare-guestd share. Threads: main accepts; one for the UDP echo; one follows the
// kernel log; one a connection. Nothing of a job is kept in memory: its directory is the truth, so
// that a new mare-guestd knows as much as the one that died.
#ifndef MARE_IMAGES_GUEST_GUESTD_H
#define MARE_IMAGES_GUEST_GUESTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "images/guest/wire.h"

struct guestd {
  const char* token_file;                       // absolute, handed to jobs as MARE_TOKEN_FILE
  char first_words[MARE_GUEST_TOKEN_MAX + 16];  // "MARE1 TOKEN "
  int line_timeout_ms;
  int idle_timeout_ms;
  int connections_max;
  bool is_mare_vm;  // may set the clock and switch the machine off
};

/// Where answers go. An error has a code of protocol.h and a text.
struct answer {
  struct text fields;  // of an OK
  char* payload;       // malloc'ed, sent after the line; adds len=
  size_t payload_size;
  bool has_payload;
  const char* error;  // NULL: OK
  char message[512];
  bool power_off;  // to be done when the answer is out
};

/// The code for what a file call said: an NFS server that is out of reach for a while (mounts are
/// soft) is there again later, and so is whoever asks.
const char* file_error_code(int error);
void answer_error(struct answer* answer, const char* code, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

bool send_error(int fd, const char* code, const char* message);

/// One line to stderr, which is the console in a VM.
void guestd_log(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// A detached thread with a small stack; false with errno.
bool thread_start(void* (*body)(void*), void* argument);

// verbs.c
/// Answers any verb but RSH.
void verb_answer(const struct guestd* guestd, const struct request* request, struct answer* answer);
/// Switches the machine off; does not come back unless the kernel refuses.
void machine_power_off(void);
/// A line of /proc/meminfo, 0 if it is not there.
uint64_t meminfo_kib(const char* name);

// cache.c
/// False with errno if the kernel refuses; zeroing is done as far as it goes.
bool cache_drop(uint64_t* freed_kib, uint64_t* zeroed_kib);
/// What stays free while free memory is zeroed, so that nobody else goes short.
uint64_t cache_left_free_kib(uint64_t total_kib);

// nfs.c, nfs_session.c
/// Drops the connections to NFS servers, which are made anew at once; a guest that is `restored`
/// from a checkpoint has their sessions ended first. Does not wait for either; changes nothing
/// where the kernel can't be told.
void nfs_connect_anew(bool restored);
/// Has the server at this IPv4 address forget this guest's session of NFS 4.`minor`, which the
/// kernel then makes anew; false with errno, after some seconds if it does not answer.
bool nfs_session_end(const char* server, unsigned minor);
/// The conversation of it, on a connection: this client `owner` has begun anew.
bool nfs_begin_anew(int fd, unsigned minor, const char* owner);

// launch.c
struct launch {
  char** arguments;    // NULL-terminated
  char** environment;  // NULL-terminated
  const char* cwd;     // NULL: the default of the verb
  uint64_t uid, gid;
  bool has_identity;
  char* storage[8];  // what environment's defaults point to
};
#define LAUNCH_KEYS "arg", "env", "cwd", "uid", "gid"
/// From a request's keys; false with the answer's error set. Free in either case.
bool launch_read(const struct guestd* guestd, const struct request* request, struct launch* launch,
                 struct answer* answer);
void launch_free(struct launch* launch);
/// A launch as the arguments of another mare-guestd process, `mode` being --runner or --session;
/// the environment goes along as such. malloc'ed, points into the launch and `numbers`. NULL: out
/// of memory.
enum {
  kArgMode = 1,
  kArgId,
  kArgDir,
  kArgCwd,
  kArgUid,
  kArgGid,
  kArgHasIdentity,
  kArgExtra,
  kArgProgram
};
struct launch_numbers {
  char uid[24];
  char gid[24];
  char extra[48];
};
char** launch_argv(const char* mode, const char* id, const char* dir, const struct launch* launch,
                   struct launch_numbers* numbers);
/// In a child, between fork and exec: default signals and priority, killable by the OOM killer
/// again.
void child_reset(void);
/// In a child of such a process: gives up root as asked; false with errno.
bool child_identity(char** argv);

// jobdir.c
struct job_state {
  const char* state;  // MARE_GUEST_STATE_...
  pid_t pid;          // 0: not known
  bool by_signal;
  int code;
  uint64_t output_bytes;
};
bool job_id_ok(const char* id);
bool job_dir_ok(const char* dir);
/// Reads the directory. `id` NULL: whoever owns it. False with the answer's error set.
bool job_state_read(const char* dir, const char* id, struct job_state* state,
                    struct answer* answer);
/// Where the output ends, if its runner lives here: in a VM that was put back to a checkpoint the
/// file may be longer, with what was written in the life that was undone.
bool job_output_end(const char* dir, uint64_t* end);
/// 1: made, the directory is this process's; 0: somebody made it before; -1: errno.
int job_claim(const char* dir, const char* id);
/// Replaces a file of the directory at once and durably; false with errno.
bool job_file_write(const char* dir, const char* name, const char* content);
void job_path(char* path, size_t size, const char* dir, const char* name);
/// Field 22 of /proc/PID/stat, which tells a reused pid. False: no such process, or a zombie, which
/// runs nothing either.
bool process_start(long pid, unsigned long long* start);

// safepoint.c
struct safe_points {
  uint64_t ranks;      // processes of the job that announce
  uint64_t inside;     // of these, that are in a collective
  uint64_t entered;    // collectives begun so far, by all
  int64_t outside_ns;  // of those that are in none, the longest since one
};
/// False with errno if the guest cannot tell.
bool safe_points_read(const char* job, struct safe_points* found);

// runner.c
/// RUN: starts the runner unless the directory is claimed. False with the answer's error set.
bool runner_start(const char* id, const char* dir, const struct launch* launch,
                  struct answer* answer);
/// The runner itself: `mare-guestd --runner`, see there for the arguments.
int runner_main(int argc, char** argv);

// rshd.c
/// RSH: gives the socket to a session process of its own and returns when that has ended. The
/// reader holds frames that came early.
void rsh_serve(const struct guestd* guestd, const struct request* request,
               struct line_reader* reader);
/// The session process: `mare-guestd --session`.
int session_main(int argc, char** argv);

// echo.c, kmsg.c
/// Starts the thread that answers pings on a bound UDP socket.
bool echo_start(int udp);
/// Starts following the kernel's log.
void kmsg_start(void);
struct kmsg_summary {
  bool watched;
  uint64_t faults;
  char first[512];
};
void kmsg_read(struct kmsg_summary* summary);

#endif
