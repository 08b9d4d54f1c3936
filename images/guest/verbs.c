// Every verb but RSH: from a parsed request to an answer.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum { kSyncTimeoutMs = 5000 };

static bool read_text(const char* path, char* content, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, content, size - 1);
  close(fd);
  if (got < 0) return false;
  content[got] = '\0';
  return true;
}

uint64_t meminfo_kib(const char* name) {
  char meminfo[4096] = "";
  (void)read_text("/proc/meminfo", meminfo, sizeof meminfo);
  const char* line = strstr(meminfo, name);
  return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

static void hello(const struct guestd* guestd, const struct request* request,
                  struct answer* answer) {
  (void)guestd;
  (void)request;
  char hostname[65] = "unknown";
  char boot_id[64] = "unknown";
  char taint[32] = "0";
  (void)gethostname(hostname, sizeof hostname - 1);
  if (read_text("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id)) {
    boot_id[strcspn(boot_id, "\n")] = '\0';
  }
  (void)read_text("/proc/sys/kernel/tainted", taint, sizeof taint);
  struct kmsg_summary kmsg;
  kmsg_read(&kmsg);
  struct text* fields = &answer->fields;
  text_field_u64(fields, "protocol", MARE_GUEST_PROTOCOL_VERSION);
  text_field(fields, "version", MARE_VERSION);
  text_field(fields, "hostname", hostname);
  text_field(fields, "boot_id", boot_id);
  text_field_u64(fields, "uptime_ms", clock_ns(CLOCK_BOOTTIME) / 1000000u);
  text_field_u64(fields, "mono_ns", clock_ns(CLOCK_MONOTONIC));
  text_field_u64(fields, "wall_ns", clock_ns(CLOCK_REALTIME));
  text_field_u64(fields, "mem_total_kib", meminfo_kib("MemTotal:"));
  text_field_u64(fields, "mem_available_kib", meminfo_kib("MemAvailable:"));
  text_field_u64(fields, "mem_free_kib", meminfo_kib("MemFree:"));
  text_field_u64(fields, "taint", strtoull(taint, NULL, 10));
  text_field_u64(fields, "kmsg_watched", kmsg.watched);
  text_field_u64(fields, "kmsg_faults", kmsg.faults);
  if (kmsg.faults > 0) text_field(fields, "kmsg_first", kmsg.first);
}

static bool read_id_and_dir(const struct request* request, const char** id, const char** dir,
                            struct answer* answer) {
  *id = request_get(request, "id");
  *dir = request_get(request, "dir");
  if (!job_id_ok(*id)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST,
                 "id '%.80s' must be 1 to %d letters, digits and -_.:", *id ? *id : "",
                 MARE_GUEST_ID_MAX);
    return false;
  }
  if (!job_dir_ok(*dir)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "dir '%.200s' is not an absolute path",
                 *dir ? *dir : "");
    return false;
  }
  return true;
}

static void write_state(const struct job_state* state, struct answer* answer) {
  struct text* fields = &answer->fields;
  text_field(fields, "state", state->state);
  if (state->pid > 0) text_field_u64(fields, "pid", (uint64_t)state->pid);
  if (!strcmp(state->state, MARE_GUEST_STATE_EXITED)) {
    text_field_u64(fields, state->by_signal ? "signal" : "exit", (uint64_t)state->code);
  }
  text_field_u64(fields, "output_bytes", state->output_bytes);
}

static void status(const struct guestd* guestd, const struct request* request,
                   struct answer* answer) {
  (void)guestd;
  const char* id;
  const char* dir;
  struct job_state state;
  if (!read_id_and_dir(request, &id, &dir, answer)) return;
  if (job_state_read(dir, id, &state, answer)) write_state(&state, answer);
}

static bool make_dir(const char* dir, const struct launch* launch, struct answer* answer) {
  if (mkdir(dir, 0755) == 0) {
    if (launch->has_identity && chown(dir, (uid_t)launch->uid, (gid_t)launch->gid) != 0) {
      answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot give %s to uid %llu: %s", dir,
                   (unsigned long long)launch->uid, strerror(errno));
      return false;
    }
    return true;
  }
  if (errno == EEXIST) return true;
  answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot make %s: %s", dir, strerror(errno));
  return false;
}

static void run(const struct guestd* guestd, const struct request* request, struct answer* answer) {
  const char* id;
  const char* dir;
  struct job_state state;
  struct launch launch = {0};
  if (!read_id_and_dir(request, &id, &dir, answer)) return;
  bool good =
      launch_read(guestd, request, &launch, answer) && job_state_read(dir, id, &state, answer);
  if (good && !strcmp(state.state, MARE_GUEST_STATE_UNKNOWN)) {
    good = make_dir(dir, &launch, answer) && runner_start(id, dir, &launch, answer) &&
           job_state_read(dir, id, &state, answer);
  }
  if (good) write_state(&state, answer);
  launch_free(&launch);
}

static void read_output(const char* dir, int fd, uint64_t offset, uint64_t most,
                        struct answer* answer) {
  struct stat file;
  if (fstat(fd, &file) != 0) {
    answer_error(answer, file_error_code(errno), "cannot read the output: %s", strerror(errno));
    return;
  }
  uint64_t total = (uint64_t)file.st_size;
  (void)job_output_end(dir, &total);
  const uint64_t left = offset < total ? total - offset : 0;
  const size_t size = (size_t)(left < most ? left : most);
  answer->payload = malloc(size + 1);
  ssize_t got = 0;
  while (answer->payload && answer->payload_size < size) {
    got = pread(fd, answer->payload + answer->payload_size, size - answer->payload_size,
                (off_t)(offset + answer->payload_size));
    if (got <= 0 && !(got < 0 && errno == EINTR)) break;
    if (got > 0) answer->payload_size += (size_t)got;
  }
  if (!answer->payload || got < 0) {
    answer_error(answer, file_error_code(errno), "cannot read the output: %s", strerror(errno));
    return;
  }
  answer->has_payload = true;
  text_field_u64(&answer->fields, "offset", offset);
  text_field_u64(&answer->fields, "total", total);
}

static void output(const struct guestd* guestd, const struct request* request,
                   struct answer* answer) {
  (void)guestd;
  const char* dir = request_get(request, "dir");
  uint64_t offset = 0;
  uint64_t most = 0;
  if (!job_dir_ok(dir) || !parse_u64(request_get(request, "offset"), INT64_MAX, &offset) ||
      !parse_u64(request_get(request, "max"), UINT64_MAX, &most)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST,
                 "OUTPUT needs an absolute dir= and numbers offset= and max=");
    return;
  }
  if (most > MARE_GUEST_OUTPUT_MAX) most = MARE_GUEST_OUTPUT_MAX;
  char path[PATH_MAX];
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_OUTPUT);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    read_output(dir, fd, offset, most, answer);
    close(fd);
    return;
  }
  const int error = errno;
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_CLAIM);
  if (error == ENOENT && access(path, F_OK) == 0) {
    answer->has_payload = true;  // Claimed this moment, nothing written yet.
    text_field_u64(&answer->fields, "offset", offset);
    text_field_u64(&answer->fields, "total", 0);
    return;
  }
  answer_error(answer, error == ENOENT ? MARE_GUEST_ERR_NOT_FOUND : file_error_code(error),
               "cannot read %s/%s: %s", dir, MARE_GUEST_FILE_OUTPUT, strerror(error));
}

static int signal_number(const char* name) {
  static const struct {
    const char* name;
    int number;
  } kNames[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},
                {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
                {"TERM", SIGTERM}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}};
  uint64_t number = 0;
  if (parse_u64(name, (uint64_t)SIGRTMAX, &number)) return (int)number;
  for (size_t i = 0; name && i < sizeof kNames / sizeof *kNames; ++i) {
    if (!strcmp(name, kNames[i].name)) return kNames[i].number;
  }
  return 0;
}

static void signal_job(const struct guestd* guestd, const struct request* request,
                       struct answer* answer) {
  (void)guestd;
  const char* dir = request_get(request, "dir");
  const char* id = request_get(request, "id");
  const int number = signal_number(request_get(request, "signal"));
  if (!job_dir_ok(dir) || number <= 0 || (id && !job_id_ok(id))) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST,
                 "SIGNAL needs an absolute dir= and signal= (1 to %d, or a name like TERM)",
                 SIGRTMAX);
    return;
  }
  struct job_state state;
  if (!job_state_read(dir, id, &state, answer)) return;
  if (strcmp(state.state, MARE_GUEST_STATE_RUNNING) != 0) {
    answer_error(answer, MARE_GUEST_ERR_NOT_FOUND, "nothing runs in %s: its state is %s", dir,
                 state.state);
  } else if (state.pid <= 0) {
    answer_error(answer, MARE_GUEST_ERR_BUSY, "the program in %s is just being started: repeat",
                 dir);
  } else if (kill(-state.pid, number) != 0) {
    answer_error(answer, errno == ESRCH ? MARE_GUEST_ERR_NOT_FOUND : MARE_GUEST_ERR_FAILED,
                 "cannot signal process group %ld of %s: %s", (long)state.pid, dir,
                 strerror(errno));
  }
}

static void safe_point(const struct guestd* guestd, const struct request* request,
                       struct answer* answer) {
  (void)guestd;
  const char* id = request_get(request, "id");
  struct safe_points found;
  if (!job_id_ok(id)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "SAFEPOINT needs id=, a job's");
    return;
  }
  if (!safe_points_read(id, &found)) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot look for the pages of %s: %s", id,
                 strerror(errno));
    return;
  }
  text_field_u64(&answer->fields, "ranks", found.ranks);
  text_field_u64(&answer->fields, "inside", found.inside);
  text_field_u64(&answer->fields, "entered", found.entered);
  if (found.inside < found.ranks) {
    text_field_u64(&answer->fields, "outside_ms", (uint64_t)found.outside_ns / 1000000u);
  }
}

static bool permitted(const struct guestd* guestd, const char* verb, struct answer* answer) {
  if (guestd->is_mare_vm) return true;
  answer_error(answer, MARE_GUEST_ERR_DENIED,
               "%s: this machine is no Mare VM (its kernel line has no mare.ip=)", verb);
  return false;
}

static const uint64_t kStoodStill_ns = 500000000u;

static void set_clock(const struct guestd* guestd, const struct request* request,
                      struct answer* answer) {
  uint64_t wall = 0;
  if (!parse_u64(request_get(request, "wall_ns"), INT64_MAX, &wall)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST,
                 "SETCLOCK needs wall_ns=, nanoseconds since 1970");
    return;
  }
  if (!permitted(guestd, MARE_GUEST_VERB_SETCLOCK, answer)) return;
  const struct timespec time = {.tv_sec = (time_t)(wall / 1000000000u),
                                .tv_nsec = (long)(wall % 1000000000u)};
  const uint64_t was = clock_ns(CLOCK_REALTIME);
  if (clock_settime(CLOCK_REALTIME, &time) != 0) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot set the clock: %s", strerror(errno));
    return;
  }
  // Its clock stood still for longer than a move takes as a rule: connections may be lost.
  const bool restored = request_get(request, "restored") != NULL;
  if (restored || wall > was + kStoodStill_ns) nfs_connect_anew(restored);
  text_field_u64(&answer->fields, "was_ns", was);
  text_field_u64(&answer->fields, "wall_ns", wall);
}

static void drop_cache(const struct guestd* guestd, const struct request* request,
                       struct answer* answer) {
  (void)request;
  if (!permitted(guestd, MARE_GUEST_VERB_DROPCACHE, answer)) return;
  uint64_t freed = 0;
  uint64_t zeroed = 0;
  if (!cache_drop(&freed, &zeroed)) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot drop the page cache: %s", strerror(errno));
    return;
  }
  text_field_u64(&answer->fields, "freed_kib", freed);
  text_field_u64(&answer->fields, "zeroed_kib", zeroed);
}

static void* sync_main(void* done) {
  sync();
  (void)!write((int)(intptr_t)done, "d", 1);
  return NULL;
}

void machine_power_off(void) {
  // A vanished NFS server blocks sync() for ever, and must not keep the VM from stopping.
  int done[2];
  if (pipe2(done, O_CLOEXEC) == 0 && thread_start(sync_main, (void*)(intptr_t)done[1])) {
    struct pollfd synced = {.fd = done[0], .events = POLLIN};
    (void)poll(&synced, 1, kSyncTimeoutMs);
  }
  reboot(RB_POWER_OFF);
  guestd_log("cannot power off: %s", strerror(errno));
}

static void power_off(const struct guestd* guestd, const struct request* request,
                      struct answer* answer) {
  (void)request;
  answer->power_off = permitted(guestd, MARE_GUEST_VERB_POWEROFF, answer);
}

struct verb {
  const char* name;
  void (*act)(const struct guestd*, const struct request*, struct answer*);
  const char* keys[10];
};

static const struct verb kVerbs[] = {
    {MARE_GUEST_VERB_HELLO, hello, {NULL}},
    {MARE_GUEST_VERB_RUN, run, {"id", "dir", LAUNCH_KEYS, NULL}},
    {MARE_GUEST_VERB_STATUS, status, {"id", "dir", NULL}},
    {MARE_GUEST_VERB_OUTPUT, output, {"dir", "offset", "max", NULL}},
    {MARE_GUEST_VERB_SIGNAL, signal_job, {"dir", "signal", "id", NULL}},
    {MARE_GUEST_VERB_SAFEPOINT, safe_point, {"id", NULL}},
    {MARE_GUEST_VERB_SETCLOCK, set_clock, {"wall_ns", "restored", NULL}},
    {MARE_GUEST_VERB_DROPCACHE, drop_cache, {NULL}},
    {MARE_GUEST_VERB_POWEROFF, power_off, {NULL}},
};

void verb_answer(const struct guestd* guestd, const struct request* request,
                 struct answer* answer) {
  const struct verb* verb = NULL;
  for (size_t i = 0; i < sizeof kVerbs / sizeof *kVerbs && !verb; ++i) {
    if (!strcmp(kVerbs[i].name, request->verb)) verb = &kVerbs[i];
  }
  if (!verb) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "unknown verb '%.40s'", request->verb);
    return;
  }
  const char* unknown = request_unknown_key(request, verb->keys);
  if (unknown) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "%s: key '%.80s' is unknown or repeated",
                 request->verb, unknown);
    return;
  }
  verb->act(guestd, request, answer);
}
