// RSH: one command, its three streams as frames on the connection. mpirun starts its daemons with
// it, so it behaves like rsh and sshd where mpirun looks: exit status, end of file, and a hangup
// when the caller goes.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum {
  kFrameBytes = MARE_GUEST_FRAME_HEADER + MARE_GUEST_FRAME_MAX,
  kChunk = 16 * 1024,
  kHangupGraceMs = 5000,
  kLastSendMs = 30000,
  // More than a pipe holds: what the command itself wrote before its end is always delivered.
  kDrainBytes = 256 * 1024,
};

struct session {
  int socket;
  int in;   // the command's standard input, -1 when closed
  int out;  // standard output
  int err;  // standard error
  int pidfd;
  pid_t pid;
  bool exited;
  int64_t quiet_since;     // after the exit: of the last output
  size_t read_after_exit;  // bytes
  unsigned char* from;     // frames from the client, as they come
  size_t from_size;
  size_t stdin_done;  // bytes of the first frame's payload already given to the command
  unsigned char* to;  // frames to the client
  size_t to_size;
};

struct pipes {
  int in[2], out[2], err[2];
};

static bool open_pipes(struct pipes* pipes) {
  memset(pipes, 0xff, sizeof *pipes);
  return pipe2(pipes->in, O_CLOEXEC) == 0 && pipe2(pipes->out, O_CLOEXEC) == 0 &&
         pipe2(pipes->err, O_CLOEXEC) == 0;
}

static void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void close_pipes(struct pipes* pipes) {
  for (int end = 0; end < 2; ++end) {
    close_fd(&pipes->in[end]);
    close_fd(&pipes->out[end]);
    close_fd(&pipes->err[end]);
  }
}

static _Noreturn void become_command(char** argv, const struct pipes* pipes) {
  const pid_t session = getppid();
  setsid();
  child_reset();
  if (dup2(pipes->in[0], 0) < 0 || dup2(pipes->out[1], 1) < 0 || dup2(pipes->err[1], 2) < 0) {
    _exit(255);
  }
  if (!child_identity(argv)) {
    dprintf(2, "mare-guestd: cannot change to uid %s: %s\n", argv[kArgUid], strerror(errno));
    _exit(255);
  }
  const char* home = getenv("HOME");
  if (argv[kArgCwd][0]) {
    if (chdir(argv[kArgCwd]) != 0) {
      dprintf(2, "mare-guestd: cannot enter '%s': %s\n", argv[kArgCwd], strerror(errno));
      _exit(255);
    }
  } else if (!home || chdir(home) != 0) {
    (void)!chdir("/");
  }
  // As in a lost connection, should the session's process be killed. After the change of user,
  // which would clear it.
  prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (getppid() != session) _exit(255);
  execvp(argv[kArgProgram], argv + kArgProgram);
  const int error = errno;
  dprintf(2, "mare-guestd: cannot run '%s': %s\n", argv[kArgProgram], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

static void nonblocking(int fd) {
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// False with errno.
static bool start(struct session* session, char** argv) {
  struct pipes pipes;
  const bool piped = open_pipes(&pipes);
  session->pid = piped ? fork() : -1;
  if (session->pid == 0) become_command(argv, &pipes);
  if (session->pid > 0) session->pidfd = (int)syscall(SYS_pidfd_open, session->pid, 0);
  if (session->pid < 0 || session->pidfd < 0) {
    const int error = errno;
    if (session->pid > 0) {
      kill(session->pid, SIGKILL);
      waitpid(session->pid, NULL, 0);
    }
    errno = error;
    return false;
  }
  session->in = pipes.in[1];
  session->out = pipes.out[0];
  session->err = pipes.err[0];
  pipes.in[1] = pipes.out[0] = pipes.err[0] = -1;
  close_pipes(&pipes);
  nonblocking(session->in);
  nonblocking(session->out);
  nonblocking(session->err);
  return true;
}

static void drop_frame(struct session* session, size_t size) {
  memmove(session->from, session->from + size, session->from_size - size);
  session->from_size -= size;
  session->stdin_done = 0;
}

// Gives complete and half-done stdin frames to the command. False: the client does not follow the
// protocol.
static bool feed_stdin(struct session* session) {
  while (session->from_size >= MARE_GUEST_FRAME_HEADER) {
    const unsigned char type = session->from[0];
    const size_t size = get_be32(session->from + 1);
    if (size > MARE_GUEST_FRAME_MAX) return false;
    if (type != MARE_GUEST_FRAME_STDIN && type != MARE_GUEST_FRAME_STDIN_EOF) return false;
    if (session->from_size < MARE_GUEST_FRAME_HEADER + size) return true;
    if (type == MARE_GUEST_FRAME_STDIN_EOF) close_fd(&session->in);
    while (session->in >= 0 && session->stdin_done < size) {
      const ssize_t written =
          write(session->in, session->from + MARE_GUEST_FRAME_HEADER + session->stdin_done,
                size - session->stdin_done);
      if (written > 0) session->stdin_done += (size_t)written;
      if (written < 0 && errno == EAGAIN) return true;
      // The command does not read any more: the rest of its input is of no use to anybody.
      if (written < 0 && errno != EINTR) close_fd(&session->in);
    }
    drop_frame(session, MARE_GUEST_FRAME_HEADER + size);
  }
  return true;
}

static bool stdin_blocked(const struct session* session) {
  return session->in >= 0 && session->from_size >= MARE_GUEST_FRAME_HEADER &&
         session->from_size >= MARE_GUEST_FRAME_HEADER + get_be32(session->from + 1);
}

static void add_frame(struct session* session, unsigned char type, size_t size) {
  unsigned char* at = session->to + session->to_size;
  at[0] = type;
  put_be32(at + 1, (uint32_t)size);
  session->to_size += MARE_GUEST_FRAME_HEADER + size;
}

static bool room_for_output(const struct session* session) {
  return session->to_size + MARE_GUEST_FRAME_HEADER + kChunk <= (size_t)kFrameBytes;
}

static void take_output(struct session* session, int* fd, unsigned char type) {
  if (!room_for_output(session)) return;
  unsigned char* at = session->to + session->to_size + MARE_GUEST_FRAME_HEADER;
  const ssize_t got = read(*fd, at, kChunk);
  if (got > 0) {
    add_frame(session, type, (size_t)got);
    session->quiet_since = monotonic_ms();
    if (session->exited) session->read_after_exit += (size_t)got;
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    close_fd(fd);
  }
}

// False: the connection is gone.
static bool flush(struct session* session) {
  const ssize_t sent =
      send(session->socket, session->to, session->to_size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  memmove(session->to, session->to + sent, session->to_size - (size_t)sent);
  session->to_size -= (size_t)sent;
  return true;
}

static bool take_frames(struct session* session) {
  const size_t room = (size_t)kFrameBytes - session->from_size;
  const ssize_t got = recv(session->socket, session->from + session->from_size, room, MSG_DONTWAIT);
  if (got > 0) session->from_size += (size_t)got;
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool finished(const struct session* session) {
  if (!session->exited || session->to_size > 0) return false;
  if (session->out < 0 && session->err < 0) return true;
  return session->read_after_exit >= kDrainBytes ||
         monotonic_ms() - session->quiet_since >= MARE_GUEST_RSH_DRAIN_MS;
}

enum { kSocket, kIn, kOut, kErr, kExit, kWatched };

// One wait and what came of it. False: the connection is gone.
static bool turn(struct session* session) {
  const bool blocked = stdin_blocked(session);
  const bool room = room_for_output(session);
  struct pollfd watch[kWatched] = {
      [kSocket] = {.fd = session->socket,
                   .events = (short)(POLLRDHUP | (blocked ? 0 : POLLIN) |
                                     (session->to_size > 0 ? POLLOUT : 0))},
      [kIn] = {.fd = blocked ? session->in : -1, .events = POLLOUT},
      [kOut] = {.fd = room ? session->out : -1, .events = POLLIN},
      [kErr] = {.fd = room ? session->err : -1, .events = POLLIN},
      [kExit] = {.fd = session->exited ? -1 : session->pidfd, .events = POLLIN},
  };
  const int polled = poll(watch, kWatched, session->exited ? 50 : -1);
  if (polled < 0) return errno == EINTR;
  if (watch[kSocket].revents & (POLLRDHUP | POLLHUP | POLLERR)) return false;
  if ((watch[kSocket].revents & POLLIN) && !take_frames(session)) return false;
  if (!feed_stdin(session)) return false;
  if (watch[kOut].revents) take_output(session, &session->out, MARE_GUEST_FRAME_STDOUT);
  if (watch[kErr].revents) take_output(session, &session->err, MARE_GUEST_FRAME_STDERR);
  if (watch[kExit].revents) {
    session->exited = true;
    session->quiet_since = monotonic_ms();
    close_fd(&session->in);
  }
  return session->to_size == 0 || flush(session);
}

static void hang_up(struct session* session) {
  kill(-session->pid, SIGHUP);
  kill(-session->pid, SIGCONT);  // A stopped process would never see the hangup.
  struct pollfd ended = {.fd = session->pidfd, .events = POLLIN};
  const int64_t deadline = monotonic_ms() + kHangupGraceMs;
  for (;;) {
    const int64_t left = deadline - monotonic_ms();
    const int polled = left > 0 ? poll(&ended, 1, (int)left) : 0;
    if (polled > 0) return;
    if (polled == 0) break;
  }
  kill(-session->pid, SIGKILL);
}

static void converse(struct session* session) {
  bool connected = feed_stdin(session);
  while (connected && !finished(session)) connected = turn(session);
  if (!connected && !session->exited) hang_up(session);
  int status = 0;
  while (waitpid(session->pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!connected) return;
  unsigned char last[MARE_GUEST_FRAME_HEADER + 4] = {MARE_GUEST_FRAME_EXIT};
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  put_be32(last + 1, 4);
  put_be32(last + MARE_GUEST_FRAME_HEADER, (uint32_t)code);
  (void)send_all(session->socket, last, sizeof last, kLastSendMs);
}

// Frames that came together with the request wait in a file in memory.
static bool take_early_frames(struct session* session, int early) {
  for (;;) {
    const ssize_t got =
        read(early, session->from + session->from_size, (size_t)kFrameBytes - session->from_size);
    if (got == 0) break;
    if (got < 0 && errno != EINTR) return false;
    if (got > 0) session->from_size += (size_t)got;
  }
  close(early);
  return true;
}

// 0 when the conversation was held, to whatever end.
static int hold(struct session* session, char** argv, int early) {
  if (!session->from || !session->to || !take_early_frames(session, early) ||
      !start(session, argv)) {
    char message[256];
    snprintf(message, sizeof message, "cannot start a command: %s", strerror(errno));
    (void)send_error(session->socket, MARE_GUEST_ERR_FAILED, message);
    return 1;
  }
  if (send_all(session->socket, "OK\n", 3, kLastSendMs)) {
    converse(session);
  } else {
    hang_up(session);
  }
  return 0;
}

int session_main(int argc, char** argv) {
  struct session session = {.in = -1, .out = -1, .err = -1, .pidfd = -1};
  int early = -1;
  if (argc <= kArgProgram || sscanf(argv[kArgExtra], "%d,%d", &session.socket, &early) != 2) {
    fprintf(stderr, "mare-guestd: --session is for mare-guestd itself\n");
    return 2;
  }
  (void)fcntl(session.socket, F_SETFD, FD_CLOEXEC);
  (void)fcntl(early, F_SETFD, FD_CLOEXEC);
  signal(SIGPIPE, SIG_IGN);
  session.from = malloc(kFrameBytes);
  session.to = malloc(kFrameBytes);
  const int code = hold(&session, argv, early);
  free(session.from);
  free(session.to);
  return code;
}

// The frames that the line reader has read too far; a descriptor to read them from, or -1.
static int early_frames(const struct line_reader* reader) {
  const int early = memfd_create("mare-rsh", MFD_CLOEXEC);
  if (early < 0) return -1;
  const size_t size = reader->end - reader->begin;
  if (write(early, reader->data + reader->begin, size) == (ssize_t)size &&
      lseek(early, 0, SEEK_SET) == 0) {
    return early;
  }
  close(early);
  return -1;
}

// In the child of mare-guestd, which has threads: only calls that are safe there.
static _Noreturn void exec_session(char** argv, char** environment, int socket, int early) {
  setsid();
  (void)fcntl(socket, F_SETFD, 0);
  (void)fcntl(early, F_SETFD, 0);
  execve("/proc/self/exe", argv, environment);
  _exit(1);
}

static bool run_session(const struct launch* launch, const struct line_reader* reader) {
  struct launch_numbers numbers;
  char** argv = launch_argv("--session", "", "", launch, &numbers);
  const int early = early_frames(reader);
  pid_t child = -1;
  if (argv && early >= 0) {
    snprintf(numbers.extra, sizeof numbers.extra, "%d,%d", reader->fd, early);
    child = fork();
    if (child == 0) exec_session(argv, launch->environment, reader->fd, early);
  }
  const int error = errno;
  free(argv);
  if (early >= 0) close(early);
  // Waiting keeps the place among the connections taken: their limit holds for sessions, too.
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  errno = error;
  return child > 0;
}

void rsh_serve(const struct guestd* guestd, const struct request* request,
               struct line_reader* reader) {
  static const char* const kKeys[] = {LAUNCH_KEYS, NULL};
  struct answer answer = {0};
  struct launch launch = {0};
  const char* unknown = request_unknown_key(request, kKeys);
  if (unknown) {
    answer_error(&answer, MARE_GUEST_ERR_BAD_REQUEST, "RSH: key '%.80s' is unknown or repeated",
                 unknown);
  } else if (launch_read(guestd, request, &launch, &answer) && !run_session(&launch, reader)) {
    answer_error(&answer, MARE_GUEST_ERR_FAILED, "cannot start a session: %s", strerror(errno));
  }
  if (answer.error) (void)send_error(reader->fd, answer.error, answer.message);
  launch_free(&launch);
}
