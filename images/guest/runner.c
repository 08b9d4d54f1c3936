// The runner: a small process between mare-guestd and a job's program. It claims the directory,
// starts the program, waits for it and writes down how it ended, whatever becomes of mare-guestd
// meanwhile. It is mare-guestd's own binary executed anew, so that it shares no memory and no
// thread with the daemon.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum {
  kReportFd = 3,             // where the runner tells mare-guestd how the start went
  kReportTimeoutMs = 30000,  // a claim is some NFS calls; a server that is away blocks them
  kExitRetries = 600,        // of a full disk, a second apart
};

static void report(const char* text) {
  (void)!write(kReportFd, text, strlen(text));
}

static void report_error(const char* what, const char* object) {
  char text[PATH_MAX + 256];
  snprintf(text, sizeof text, "error %s %s: %s", what, object, strerror(errno));
  report(text);
}

// The program's process, from fork to exec. Never returns.
static _Noreturn void become_program(char** argv, int go, int output, int failed) {
  char ready = 0;
  const pid_t runner = getppid();
  setsid();
  // Not before the pid file is written: whoever sees the program's effects can also signal it.
  if (read(go, &ready, 1) != 1) _exit(126);
  child_reset();
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(126);
  const char* what = "change to user of";
  bool good = child_identity(argv);
  if (good) {
    what = "enter the working directory of";
    good = chdir(argv[kArgCwd]) == 0;
  }
  // Without its runner nobody would learn how the program ends: "lost" must mean that nothing runs.
  // Set after the change of user, which clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != runner) _exit(126);
  if (good) {
    what = "run";
    execvp(argv[kArgProgram], argv + kArgProgram);
  }
  const int error = errno;
  dprintf(2, "mare-guestd: cannot %s '%s': %s\n", what, argv[kArgProgram], strerror(error));
  (void)!write(failed, "x", 1);
  _exit(good && error == ENOENT ? 127 : 126);
}

static void record_exit(const char* dir, int status) {
  char content[32];
  if (WIFSIGNALED(status)) {
    snprintf(content, sizeof content, "signal %d\n", WTERMSIG(status));
  } else {
    snprintf(content, sizeof content, "exit %d\n", WEXITSTATUS(status));
  }
  for (int attempt = 0; attempt < kExitRetries; ++attempt) {
    if (job_file_write(dir, MARE_GUEST_FILE_EXIT, content)) return;
    if (errno == ENOENT) return;  // The directory was removed: nobody wants to know.
    // A full disk may get room again; while the runner lives the job counts as running.
    if (attempt == 0) {
      guestd_log("cannot write %s/%s: %s; trying again for %d s", dir, MARE_GUEST_FILE_EXIT,
                 strerror(errno), kExitRetries);
    }
    (void)poll(NULL, 0, 1000);
  }
}

static void wait_and_record(const char* dir, pid_t program, int output) {
  siginfo_t ended;
  // The zombie is kept until the record is written: its pid cannot be given to somebody else
  // meanwhile.
  while (waitid(P_PID, (id_t)program, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
  int status = 0;
  if (ended.si_code == CLD_EXITED) {
    status = (ended.si_status & 0xff) << 8;
  } else {
    status = ended.si_status & 0x7f;
  }
  // What lies beyond our own end is of a life that was undone: the VM went back to a checkpoint.
  const off_t end = lseek(output, 0, SEEK_CUR);
  if (end >= 0) (void)!ftruncate(output, end);
  // Who sees the exit file must find all of the output, also from the NFS server's side.
  (void)fsync(output);
  record_exit(dir, status);
  (void)waitpid(program, &status, 0);
}

static int open_output(const char* dir, char** argv) {
  char path[PATH_MAX];
  job_path(path, sizeof path, dir, MARE_GUEST_FILE_OUTPUT);
  // Not to append: the place to write is in the guest's memory, so a VM that is put back to a
  // checkpoint writes over what it had written after it, instead of once more.
  const int output = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (output >= 0 && argv[kArgHasIdentity][0] == '1') {
    (void)!fchown(output, (uid_t)strtoul(argv[kArgUid], NULL, 10),
                  (gid_t)strtoul(argv[kArgGid], NULL, 10));
  }
  return output;
}

// Everything after the claim: a failure here is the job's end, and is recorded as such.
static int run_claimed(const char* dir, char** argv) {
  int go[2];
  int failed[2];
  const int output = open_output(dir, argv);
  if (output < 0 || pipe2(go, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0) {
    report_error("cannot prepare", dir);
    record_exit(dir, 126 << 8);
    return 1;
  }
  const pid_t program = fork();
  if (program < 0) {
    report_error("cannot fork in", dir);
    record_exit(dir, 126 << 8);
    return 1;
  }
  if (program == 0) {
    close(kReportFd);
    close(go[1]);
    become_program(argv, go[0], output, failed[1]);
  }
  close(go[0]);
  close(failed[1]);
  char content[24];
  snprintf(content, sizeof content, "%ld\n", (long)program);
  if (!job_file_write(dir, MARE_GUEST_FILE_PID, content)) {
    report_error("cannot write the pid file in", dir);
    close(go[1]);  // The program ends without having begun.
    wait_and_record(dir, program, output);
    return 1;
  }
  (void)!write(go[1], "g", 1);
  close(go[1]);
  char sign = 0;
  (void)!read(failed[0], &sign, 1);  // EOF: executed. The state says it all in either case.
  report("ok");
  close(kReportFd);
  wait_and_record(dir, program, output);
  return 0;
}

int runner_main(int argc, char** argv) {
  if (argc <= kArgProgram) {
    fprintf(stderr, "mare-guestd: --runner is for mare-guestd itself\n");
    return 2;
  }
  const char* dir = argv[kArgDir];
  umask(022);
  (void)fcntl(kReportFd, F_SETFD, FD_CLOEXEC);
  // A runner ends when its program has: who wants the job to end signals the program.
  const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; ++i) signal(ignored[i], SIG_IGN);
  const int claimed = job_claim(dir, argv[kArgId]);
  if (claimed < 0) {
    report_error("cannot claim", dir);
    return 1;
  }
  if (claimed == 0) {
    report("ok");  // Somebody else runs it: the state is the answer.
    return 0;
  }
  return run_claimed(dir, argv);
}

// In the child of mare-guestd, which has threads: only calls that are safe there.
static _Noreturn void exec_runner(char** argv, char** environment, int report_to) {
  setsid();
  // Twice forked, so that init reaps the runner and not a mare-guestd that may be a later one.
  const pid_t runner = fork();
  if (runner != 0) _exit(runner < 0 ? 1 : 0);
  child_reset();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  // 2 stays: the console, for the runner's own complaints.
  if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0) _exit(1);
  if (report_to == kReportFd) {
    (void)fcntl(kReportFd, F_SETFD, 0);
  } else if (dup2(report_to, kReportFd) < 0) {
    _exit(1);
  }
  execve("/proc/self/exe", argv, environment);
  _exit(1);
}

// What the runner said: "ok", "error ..." or nothing at all.
static bool read_report(int fd, const char* dir, struct answer* answer) {
  char text[PATH_MAX + 256];
  size_t size = 0;
  const int64_t deadline = monotonic_ms() + kReportTimeoutMs;
  for (;;) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    const int64_t left = deadline - monotonic_ms();
    const int polled = poll(&ready, 1, left > 0 ? (int)left : 0);
    if (polled == 0) {
      answer_error(answer, MARE_GUEST_ERR_BUSY, "%s does not answer yet: ask again", dir);
      return false;
    }
    const ssize_t got = polled < 0 ? -1 : read(fd, text + size, sizeof text - 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += (size_t)got;
  }
  text[size] = '\0';
  if (!strcmp(text, "ok")) return true;
  answer_error(answer, MARE_GUEST_ERR_FAILED, "%s",
               size > 6 ? text + 6 : "the runner died before it started the program");
  return false;
}

bool runner_start(const char* id, const char* dir, const struct launch* launch,
                  struct answer* answer) {
  struct launch_numbers numbers;
  int channel[2];
  if (pipe2(channel, O_CLOEXEC) != 0) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot start a runner: %s", strerror(errno));
    return false;
  }
  char** argv = launch_argv("--runner", id, dir, launch, &numbers);
  const pid_t child = argv ? fork() : -1;
  if (child == 0) exec_runner(argv, launch->environment, channel[1]);
  const int error = errno;
  close(channel[1]);
  free(argv);
  bool started = child > 0;
  if (started) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    started = read_report(channel[0], dir, answer);
  } else {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "cannot start a runner: %s", strerror(error));
  }
  close(channel[0]);
  return started;
}
