// The directory of a job, as files. It is on NFS in a VM: every step below is one that NFSv4 does
// atomically (link, rename), and nothing relies on locks, which a migrated or frozen client may
// lose.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "images/guest/guestd.h"

// What is in `claim`: who made it, exactly enough to tell whether that process still lives.
struct claim {
  char id[MARE_GUEST_ID_MAX + 1];
  char host[65];
  char boot_id[40];
  long runner;
  unsigned long long runner_start;  // field 22 of /proc/PID/stat: tells a reused pid
};

bool job_id_ok(const char* id) {
  if (!id || !*id || strlen(id) > MARE_GUEST_ID_MAX) return false;
  for (const char* at = id; *at; ++at) {
    const bool alphanumeric =
        (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z');
    if (!alphanumeric && !strchr("-_.:", *at)) return false;
  }
  return true;
}

bool job_dir_ok(const char* dir) {
  return dir && dir[0] == '/' && strlen(dir) < PATH_MAX - 64;
}

void job_path(char* path, size_t size, const char* dir, const char* name) {
  snprintf(path, size, "%s/%s", dir, name);
}

// A small file as text; -1 with errno.
static ssize_t slurp(const char* path, char* content, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, content, size - 1);
  const int error = errno;
  close(fd);
  errno = error;
  if (got >= 0) content[got] = '\0';
  return got;
}

static void read_boot_id(char* boot_id, size_t size) {
  if (slurp("/proc/sys/kernel/random/boot_id", boot_id, size) <= 0)
    snprintf(boot_id, size, "unknown");
  boot_id[strcspn(boot_id, "\n")] = '\0';
}

static void read_host(char* host, size_t size) {
  if (gethostname(host, size) != 0) snprintf(host, size, "unknown");
  host[size - 1] = '\0';
}

bool process_start(long pid, unsigned long long* start) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  char stat[1024];
  if (slurp(path, stat, sizeof stat) <= 0) return false;
  // The name, in parentheses, may contain anything: count from the last ')'.
  const char* after = strrchr(stat, ')');
  char state = 0;
  if (!after ||
      sscanf(after + 1,
             " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
             &state, start) != 2) {
    return false;
  }
  return state != 'Z' && state != 'X';
}

static bool sync_dir(const char* dir) {
  const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced =
      fsync(fd) == 0 || errno == EINVAL;  // EINVAL: the file system cannot, nor need it.
  const int error = errno;
  close(fd);
  errno = error;
  return synced;
}

// A new file with this content, on disk. False with errno and no file.
static bool write_durably(const char* path, const char* content) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const size_t size = strlen(content);
  const ssize_t written = write(fd, content, size);
  bool good = written == (ssize_t)size && fsync(fd) == 0;
  int error = written >= 0 && written < (ssize_t)size ? ENOSPC : errno;
  if (close(fd) != 0 && good) {
    good = false;
    error = errno;
  }
  if (!good) {
    unlink(path);
    errno = error;
  }
  return good;
}

static void temporary_path(char* path, size_t size, const char* dir, const char* name) {
  char boot_id[40];
  read_boot_id(boot_id, sizeof boot_id);
  // Another VM, or an earlier boot, may have left one behind: the boot and the pid make it ours.
  snprintf(path, size, "%s/.%s.%.8s.%ld", dir, name, boot_id, (long)getpid());
}

bool job_file_write(const char* dir, const char* name, const char* content) {
  char temporary[PATH_MAX];
  char path[PATH_MAX];
  temporary_path(temporary, sizeof temporary, dir, name);
  job_path(path, sizeof path, dir, name);
  if (!write_durably(temporary, content)) return false;
  if (rename(temporary, path) == 0) return sync_dir(dir);
  const int error = errno;
  unlink(temporary);
  errno = error;
  return false;
}

int job_claim(const char* dir, const char* id) {
  unsigned long long start = 0;
  char boot_id[40];
  char host[65];
  read_boot_id(boot_id, sizeof boot_id);
  read_host(host, sizeof host);
  if (!process_start(getpid(), &start)) return -1;
  char content[512];
  snprintf(content, sizeof content, "id %s\nhost %s\nboot %s\nrunner %ld %llu\n", id, host, boot_id,
           (long)getpid(), start);
  char temporary[PATH_MAX];
  char path[PATH_MAX];
  temporary_path(temporary, sizeof temporary, dir, MARE_GUEST_FILE_CLAIM);
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_CLAIM);
  if (!write_durably(temporary, content)) return -1;
  // link() rather than O_EXCL: the claim appears with its content or not at all.
  const int linked = link(temporary, path);
  int error = errno;
  struct stat status;
  // Over NFS an answer can be lost and the repetition told EEXIST: two names prove that the link is
  // ours.
  const bool ours = linked == 0 || (stat(temporary, &status) == 0 && status.st_nlink == 2);
  unlink(temporary);
  if (ours && !sync_dir(dir)) {
    error = errno;
    unlink(path);
    errno = error;
    return -1;
  }
  errno = error;
  if (ours) return 1;
  return error == EEXIST ? 0 : -1;
}

// 1: read; 0: there is none; -1: errno; -2: damaged.
static int parse_claim(const char* dir, struct claim* claim) {
  char path[PATH_MAX];
  char content[512];
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_CLAIM);
  if (slurp(path, content, sizeof content) < 0) return errno == ENOENT ? 0 : -1;
  const int fields = sscanf(content, "id %128s host %64s boot %39s runner %ld %llu", claim->id,
                            claim->host, claim->boot_id, &claim->runner, &claim->runner_start);
  return fields == 5 ? 1 : -2;
}

// 1: read; 0: there is none; -1 with the answer's error set.
static int read_claim(const char* dir, struct claim* claim, struct answer* answer) {
  const int found = parse_claim(dir, claim);
  if (found >= 0) return found;
  const int error = errno;
  char path[PATH_MAX];
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_CLAIM);
  if (found == -1) {
    answer_error(answer, file_error_code(error), "cannot read %s: %s", path, strerror(error));
  } else {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "%s is damaged: remove the directory", path);
  }
  return -1;
}

static bool read_exit(const char* dir, struct job_state* state) {
  char path[PATH_MAX];
  char content[64];
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_EXIT);
  if (slurp(path, content, sizeof content) <= 0) return false;
  state->by_signal = sscanf(content, "signal %d", &state->code) == 1;
  if (!state->by_signal && sscanf(content, "exit %d", &state->code) != 1) return false;
  state->state = MARE_GUEST_STATE_EXITED;
  return true;
}

static void read_sizes(const char* dir, struct job_state* state) {
  char path[PATH_MAX];
  char content[32];
  struct stat status;
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_OUTPUT);
  if (stat(path, &status) == 0) state->output_bytes = (uint64_t)status.st_size;
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_PID);
  if (slurp(path, content, sizeof content) > 0) state->pid = (pid_t)strtol(content, NULL, 10);
}

static bool runner_lives(const struct claim* claim) {
  unsigned long long start = 0;
  return process_start(claim->runner, &start) && start == claim->runner_start;
}

static bool of_this_boot(const struct claim* claim) {
  char boot_id[40];
  read_boot_id(boot_id, sizeof boot_id);
  return !strcmp(boot_id, claim->boot_id);
}

static bool runs_here(const struct claim* claim) {
  return of_this_boot(claim) && runner_lives(claim);
}

// The runner's descriptor of that file, which the program shares; -1: it has none.
static int runner_output(long runner, const struct stat* output) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/fd", runner);
  DIR* all = opendir(path);
  if (!all) return -1;
  int found = -1;
  for (const struct dirent* entry = readdir(all); entry && found < 0; entry = readdir(all)) {
    const long number = strtol(entry->d_name, NULL, 10);
    struct stat target;
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", runner, number);
    if (entry->d_name[0] == '.' || stat(path, &target) != 0) continue;
    if (target.st_dev == output->st_dev && target.st_ino == output->st_ino) found = (int)number;
  }
  closedir(all);
  return found;
}

// Where it stands in the file.
static bool runner_position(long runner, int output, uint64_t* position) {
  char path[64];
  char content[256];
  unsigned long long at = 0;
  snprintf(path, sizeof path, "/proc/%ld/fdinfo/%d", runner, output);
  if (slurp(path, content, sizeof content) <= 0 || sscanf(content, "pos: %llu", &at) != 1) {
    return false;
  }
  *position = at;
  return true;
}

// The job that was last found running here. Nothing of this changes while its runner lives, so how
// it is can be told from /proc alone. By the files it takes a dozen calls of the NFS server, twice
// a second, and they come out of the CPU time of the VM's rank, for which all others wait.
static struct {
  pthread_mutex_t lock;
  char dir[PATH_MAX];  // "": none
  struct claim claim;
  pid_t program;
  int output;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void know(const char* dir, const struct claim* claim, pid_t program, int output) {
  pthread_mutex_lock(&known.lock);
  snprintf(known.dir, sizeof known.dir, "%s", dir);
  known.claim = *claim;
  known.program = program;
  known.output = output;
  pthread_mutex_unlock(&known.lock);
}

// `id` NULL: whoever owns it. False: nothing is known, and the files are to be asked.
static bool read_known(const char* dir, const char* id, struct job_state* state) {
  pthread_mutex_lock(&known.lock);
  const bool good = !strcmp(dir, known.dir) && (!id || !strcmp(id, known.claim.id)) &&
                    runner_lives(&known.claim) &&
                    runner_position(known.claim.runner, known.output, &state->output_bytes);
  if (good) {
    state->state = MARE_GUEST_STATE_RUNNING;
    state->pid = known.program;
  }
  pthread_mutex_unlock(&known.lock);
  return good;
}

// Of a job whose runner lives here: what read_known() can tell next time.
static void read_running(const char* dir, const struct claim* claim, struct job_state* state) {
  char path[PATH_MAX];
  struct stat output;
  state->state = MARE_GUEST_STATE_RUNNING;
  read_sizes(dir, state);
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_OUTPUT);
  if (stat(path, &output) != 0) return;
  const int descriptor = runner_output(claim->runner, &output);
  uint64_t end = 0;
  if (descriptor < 0 || !runner_position(claim->runner, descriptor, &end)) return;
  if (end > (uint64_t)output.st_size) return;
  state->output_bytes = end;
  if (state->pid > 0) know(dir, claim, state->pid, descriptor);
}

bool job_output_end(const char* dir, uint64_t* end) {
  struct job_state state = {0};
  if (read_known(dir, NULL, &state)) {
    *end = state.output_bytes;
    return true;
  }
  struct claim claim;
  if (parse_claim(dir, &claim) != 1 || !runs_here(&claim)) return false;
  read_running(dir, &claim, &state);
  *end = state.output_bytes;
  return true;
}

bool job_state_read(const char* dir, const char* id, struct job_state* state,
                    struct answer* answer) {
  *state = (struct job_state){.state = MARE_GUEST_STATE_UNKNOWN};
  if (read_known(dir, id, state)) return true;
  struct claim claim;
  const int found = read_claim(dir, &claim, answer);
  if (found < 0) return false;
  if (found == 0) return true;
  if (id && strcmp(id, claim.id) != 0) {
    answer_error(answer, MARE_GUEST_ERR_EXISTS,
                 "%s belongs to '%s', not to '%s': use another directory", dir, claim.id, id);
    return false;
  }
  // The runner before the file: it writes the exit file before it goes. And in a VM that was put
  // back to a checkpoint the file may be that of the life that was undone, while the runner lives.
  if (runs_here(&claim)) {
    read_running(dir, &claim, state);
    return true;
  }
  if (read_exit(dir, state)) {
    read_sizes(dir, state);
    return true;
  }
  char host[65];
  read_host(host, sizeof host);
  if (!of_this_boot(&claim) && strcmp(host, claim.host) != 0) {
    answer_error(answer, MARE_GUEST_ERR_EXISTS, "%s is run by guest '%s', this is '%s': ask there",
                 dir, claim.host, host);
    return false;
  }
  state->state = MARE_GUEST_STATE_LOST;
  read_sizes(dir, state);
  return true;
}
