// What RUN and RSH have in common: arguments, environment and identity of a program to start.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "images/guest/guestd.h"

static const char* const kDefaultPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static bool read_identity(const struct request* request, struct launch* launch,
                          struct answer* answer) {
  const char* uid = request_get(request, "uid");
  const char* gid = request_get(request, "gid");
  launch->uid = geteuid();
  launch->gid = getegid();
  launch->has_identity = uid || gid;
  // The two largest values mean "no id" to the kernel.
  const uint64_t most = UINT32_MAX - 2;
  if (uid && !parse_u64(uid, most, &launch->uid)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "uid '%.40s' is not a user id", uid);
    return false;
  }
  if (uid && !gid) launch->gid = launch->uid;
  if (gid && !parse_u64(gid, most, &launch->gid)) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "gid '%.40s' is not a group id", gid);
    return false;
  }
  return true;
}

static bool defines(char* const* environment, size_t count, const char* variable) {
  const size_t name = strcspn(variable, "=") + 1;
  for (size_t i = 0; i < count; ++i) {
    if (!strncmp(environment[i], variable, name)) return true;
  }
  return false;
}

static bool add_default(struct launch* launch, size_t given, size_t* count, size_t* stored,
                        const char* format, const char* value) {
  char variable[4096];
  snprintf(variable, sizeof variable, format, value);
  if (defines(launch->environment, given, variable)) return true;
  char* copy = strdup(variable);
  if (!copy) return false;
  launch->storage[(*stored)++] = copy;
  launch->environment[(*count)++] = copy;
  return true;
}

static bool complete_environment(const struct guestd* guestd, struct launch* launch, size_t given) {
  const size_t room = given + sizeof launch->storage / sizeof *launch->storage + 1;
  char** grown = realloc(launch->environment, room * sizeof *grown);
  if (!grown) return false;
  launch->environment = grown;
  char user[24];
  snprintf(user, sizeof user, "%llu", (unsigned long long)launch->uid);
  const bool root = launch->uid == 0;
  size_t count = given;
  size_t stored = 0;
  const bool added =
      add_default(launch, given, &count, &stored, "%s", kDefaultPath) &&
      add_default(launch, given, &count, &stored, "HOME=%s", root ? "/root" : "/tmp") &&
      add_default(launch, given, &count, &stored, "USER=%s", root ? "root" : user) &&
      add_default(launch, given, &count, &stored, "LOGNAME=%s", root ? "root" : user) &&
      add_default(launch, given, &count, &stored, "SHELL=%s", "/bin/sh") &&
      add_default(launch, given, &count, &stored, "MARE_TOKEN_FILE=%s", guestd->token_file);
  launch->environment[count] = NULL;
  return added;
}

bool launch_read(const struct guestd* guestd, const struct request* request, struct launch* launch,
                 struct answer* answer) {
  *launch = (struct launch){.cwd = request_get(request, "cwd")};
  size_t arguments = 0;
  size_t given = 0;
  launch->arguments = request_all(request, "arg", &arguments);
  launch->environment = request_all(request, "env", &given);
  if (!launch->arguments || !launch->environment) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "out of memory");
    return false;
  }
  if (arguments == 0 || !*launch->arguments[0]) {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "no program: give at least one arg=");
    return false;
  }
  for (size_t i = 0; i < given; ++i) {
    const char* equals = strchr(launch->environment[i], '=');
    if (!equals || equals == launch->environment[i]) {
      answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "env '%.80s' is not NAME=VALUE",
                   launch->environment[i]);
      return false;
    }
  }
  if (launch->cwd && launch->cwd[0] != '/') {
    answer_error(answer, MARE_GUEST_ERR_BAD_REQUEST, "cwd '%.200s' is not absolute", launch->cwd);
    return false;
  }
  if (!read_identity(request, launch, answer)) return false;
  if (!complete_environment(guestd, launch, given)) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "out of memory");
    return false;
  }
  return true;
}

void launch_free(struct launch* launch) {
  for (size_t i = 0; i < sizeof launch->storage / sizeof *launch->storage; ++i) {
    free(launch->storage[i]);
  }
  free(launch->arguments);
  free(launch->environment);
}

void child_reset(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  (void)setpriority(PRIO_PROCESS, 0, 0);
  // guestd asks to be spared by the OOM killer; a job must not inherit that.
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "0", 1);
    close(fd);
  }
}

bool child_identity(char** argv) {
  const uid_t uid = (uid_t)strtoul(argv[kArgUid], NULL, 10);
  const gid_t gid = (gid_t)strtoul(argv[kArgGid], NULL, 10);
  if (argv[kArgHasIdentity][0] != '1' || (uid == geteuid() && gid == getegid())) return true;
  return setgroups(1, &gid) == 0 && setgid(gid) == 0 && setuid(uid) == 0;
}

char** launch_argv(const char* mode, const char* id, const char* dir, const struct launch* launch,
                   struct launch_numbers* numbers) {
  size_t count = 0;
  while (launch->arguments[count]) ++count;
  char** argv = calloc((size_t)kArgProgram + count + 1, sizeof *argv);
  if (!argv) return NULL;
  snprintf(numbers->uid, sizeof numbers->uid, "%llu", (unsigned long long)launch->uid);
  snprintf(numbers->gid, sizeof numbers->gid, "%llu", (unsigned long long)launch->gid);
  numbers->extra[0] = '\0';
  // execve() takes char*, and writes to none of them.
  argv[0] = (char*)"mare-guestd";
  argv[kArgMode] = (char*)mode;
  argv[kArgId] = (char*)id;
  argv[kArgDir] = (char*)dir;
  argv[kArgCwd] = (char*)(launch->cwd ? launch->cwd : dir);
  argv[kArgUid] = numbers->uid;
  argv[kArgGid] = numbers->gid;
  argv[kArgHasIdentity] = (char*)(launch->has_identity ? "1" : "0");
  argv[kArgExtra] = numbers->extra;
  memcpy(argv + kArgProgram, launch->arguments, count * sizeof *argv);
  return argv;
}
