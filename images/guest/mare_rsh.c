// mare-rsh: runs a command in another guest, as rsh and ssh do, through its mare-guestd. Made for
// mpirun's plm_rsh_agent: a connection costs some milliseconds where ssh needs seconds on an
// emulated CPU.
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "images/guest/wire.h"

enum {
  kFailed = 255,  // as rsh and ssh: the command was not run, or its end is not known
  kConnectTotalMs = 10000,
  kConnectOnceMs = 3000,
  kRetryPauseMs = 200,
  kAnswerTimeoutMs = 60000,  // the other guest may be paused by a migration meanwhile
};

struct call {
  const char* host;
  const char* port;
  char* command;
  bool no_stdin;
};

static _Noreturn void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("mare-rsh: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(kFailed);
}

static const char kHelp[] =
    "Usage: mare-rsh [-n] [-p PORT] [OPTIONS OF SSH] [USER@]HOST COMMAND...\n"
    "Runs COMMAND by 'sh -c' on HOST through its mare-guestd, with standard input, output and "
    "error, and\n"
    "ends with its exit status (128 + signal; 255 when it could not be run or the connection "
    "broke).\n\n"
    "  -n          standard input is /dev/null\n"
    "  -p PORT     of mare-guestd ($MARE_GUEST_PORT, 7411)\n"
    "  -l USER and other options of rsh and ssh are accepted and ignored: the user stays the "
    "same.\n\n"
    "The token is read from the file named by $MARE_TOKEN_FILE, or from /etc/mare/token.\n"
    "Example: mpirun --mca plm_rsh_agent mare-rsh --host vm-1,vm-2 ./program\n";

static char* join(char** words, int count) {
  size_t size = 1;
  for (int i = 0; i < count; ++i) size += strlen(words[i]) + 1;
  char* joined = calloc(size, 1);
  if (!joined) fail("out of memory");
  char* end = joined;
  for (int i = 0; i < count; ++i) {
    if (i > 0) *end++ = ' ';
    end = stpcpy(end, words[i]);
  }
  return joined;
}

// By hand: getopt knows no "every other letter", and the command's own options must stay untouched.
static struct call parse(int argc, char** argv) {
  static const char kWithValue[] = "bBcDeEFiIJLlmoOpQRSwW";
  struct call call = {.port = getenv("MARE_GUEST_PORT")};
  int at = 1;
  for (; at < argc && argv[at][0] == '-' && argv[at][1]; ++at) {
    if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (!strcmp(argv[at], "--version") || !strcmp(argv[at], "-V")) {
      puts("mare-rsh " MARE_VERSION);
      exit(0);
    }
    if (!strcmp(argv[at], "--")) {
      ++at;
      break;
    }
    const char letter = argv[at][1];
    if (letter == 'n') call.no_stdin = true;
    if (!strchr(kWithValue, letter)) continue;
    const char* value = argv[at][2] ? argv[at] + 2 : argv[++at];
    if (!value) fail("option -%c needs a value; see mare-rsh --help", letter);
    if (letter == 'p') call.port = value;
  }
  if (argc - at < 2) fail("give a host and a command; see mare-rsh --help");
  const char* user_end = strrchr(argv[at], '@');
  call.host = user_end ? user_end + 1 : argv[at];
  call.command = join(argv + at + 1, argc - at - 1);
  if (!call.port || !*call.port) call.port = "7411";
  return call;
}

static int connect_once(const struct addrinfo* address) {
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int error = 0;
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof error;
    if (errno != EINPROGRESS) {
      error = errno;
    } else if (poll(&ready, 1, kConnectOnceMs) <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

// mpirun starts as soon as the VMs are said to be up; a daemon that restarts or a busy guest gets
// some time.
static int connect_with_patience(const struct call* call) {
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
  struct addrinfo* addresses = NULL;
  const int resolved = getaddrinfo(call->host, call->port, &hints, &addresses);
  if (resolved != 0) fail("cannot resolve host '%s': %s", call->host, gai_strerror(resolved));
  const int64_t deadline = monotonic_ms() + kConnectTotalMs;
  int fd = -1;
  int error = 0;
  for (;;) {
    for (const struct addrinfo* at = addresses; at && fd < 0; at = at->ai_next) {
      fd = connect_once(at);
      error = errno;
    }
    if (fd >= 0 || monotonic_ms() >= deadline) break;
    (void)poll(NULL, 0, kRetryPauseMs);
  }
  freeaddrinfo(addresses);
  if (fd < 0) {
    fail("cannot connect to mare-guestd on %s port %s within %d s: %s; is the VM up?", call->host,
         call->port, kConnectTotalMs / 1000, strerror(error));
  }
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return fd;
}

static void send_request(int fd, const struct call* call) {
  const char* file = getenv("MARE_TOKEN_FILE");
  if (!file || !*file) file = "/etc/mare/token";
  char token[MARE_GUEST_TOKEN_MAX + 1];
  errno = 0;
  const char* wrong = token_load(file, token);
  if (wrong)
    fail("token file %s: %s%s%s", file, wrong, errno ? ": " : "", errno ? strerror(errno) : "");
  struct text line;
  text_init(&line, MARE_GUEST_LINE_MAX + 1);
  text_append(&line, MARE_GUEST_MAGIC " ");
  text_append(&line, token);
  text_append(&line, " " MARE_GUEST_VERB_RSH);
  text_field(&line, "arg", "sh");
  text_field(&line, "arg", "-c");
  text_field(&line, "arg", call->command);
  if (geteuid() != 0) {
    text_field_u64(&line, "uid", geteuid());
    text_field_u64(&line, "gid", getegid());
  }
  text_append(&line, "\n");
  if (line.failed)
    fail("the command is longer than the %d bytes that a request may have", MARE_GUEST_LINE_MAX);
  if (!send_all(fd, line.data, line.size, kAnswerTimeoutMs)) {
    fail("cannot send to %s: %s", call->host, strerror(errno));
  }
  text_free(&line);
}

static void check_answer(const struct call* call, char* line) {
  if (!strcmp(line, "OK") || !strncmp(line, "OK ", 3)) return;
  char* rest = line;
  strsep(&rest, " ");
  const char* code = rest ? strsep(&rest, " ") : NULL;
  if (strcmp(line, "ERR") != 0 || !code)
    fail("%s port %s is no mare-guestd", call->host, call->port);
  if (rest && !percent_decode(rest)) rest = NULL;
  fail("mare-guestd on %s refuses (%s): %s", call->host, code, rest ? rest : "");
}

struct stream {
  const struct call* call;
  int fd;
  bool stdin_open;
  unsigned char out[MARE_GUEST_FRAME_HEADER + 16384];  // one stdin frame on its way
  size_t out_begin, out_end;
  unsigned char in[MARE_GUEST_FRAME_HEADER + MARE_GUEST_FRAME_MAX];
  size_t in_size;
};

static void queue_stdin(struct stream* stream) {
  ssize_t got = stream->call->no_stdin ? 0
                                       : read(0, stream->out + MARE_GUEST_FRAME_HEADER,
                                              sizeof stream->out - MARE_GUEST_FRAME_HEADER);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    stream->stdin_open = false;
    got = 0;
  }
  stream->out[0] = got > 0 ? MARE_GUEST_FRAME_STDIN : MARE_GUEST_FRAME_STDIN_EOF;
  put_be32(stream->out + 1, (uint32_t)got);
  stream->out_begin = 0;
  stream->out_end = MARE_GUEST_FRAME_HEADER + (size_t)got;
}

static void flush_stdin(struct stream* stream) {
  const ssize_t sent = send(stream->fd, stream->out + stream->out_begin,
                            stream->out_end - stream->out_begin, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) stream->out_begin += (size_t)sent;
  // An error shows up when reading, together with what the command said last.
}

static void write_out(int fd, const unsigned char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, bytes, size);
    if (written < 0 && errno == EAGAIN) {
      struct pollfd ready = {.fd = fd, .events = POLLOUT};
      (void)poll(&ready, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      fail("cannot write to %s: %s", fd == 1 ? "standard output" : "standard error",
           strerror(errno));
    } else if (written > 0) {
      bytes += written;
      size -= (size_t)written;
    }
  }
}

// Whole frames that have arrived. Ends the program with the exit frame.
static void handle_frames(struct stream* stream) {
  size_t at = 0;
  while (stream->in_size - at >= MARE_GUEST_FRAME_HEADER) {
    const unsigned char* frame = stream->in + at;
    const size_t size = get_be32(frame + 1);
    if (size > MARE_GUEST_FRAME_MAX) fail("%s sent a frame of %zu bytes", stream->call->host, size);
    if (stream->in_size - at < MARE_GUEST_FRAME_HEADER + size) break;
    const unsigned char* payload = frame + MARE_GUEST_FRAME_HEADER;
    if (frame[0] == MARE_GUEST_FRAME_EXIT && size == 4) exit((int)get_be32(payload));
    if (frame[0] == MARE_GUEST_FRAME_STDOUT) write_out(1, payload, size);
    if (frame[0] == MARE_GUEST_FRAME_STDERR) write_out(2, payload, size);
    at += MARE_GUEST_FRAME_HEADER + size;
  }
  memmove(stream->in, stream->in + at, stream->in_size - at);
  stream->in_size -= at;
}

static void receive(struct stream* stream) {
  const ssize_t got = recv(stream->fd, stream->in + stream->in_size,
                           sizeof stream->in - stream->in_size, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    fail("the connection to %s broke before the command ended%s%s", stream->call->host,
         got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
  }
  stream->in_size += (size_t)got;
}

static _Noreturn void relay(struct stream* stream) {
  for (;;) {
    handle_frames(stream);
    const bool sending = stream->out_begin < stream->out_end;
    struct pollfd watch[2] = {
        {.fd = stream->fd, .events = (short)(POLLIN | (sending ? POLLOUT : 0))},
        {.fd = stream->stdin_open && !sending ? 0 : -1, .events = POLLIN},
    };
    if (poll(watch, 2, -1) < 0) continue;
    if (watch[1].revents) queue_stdin(stream);
    if (stream->out_begin < stream->out_end) flush_stdin(stream);
    if (watch[0].revents & (POLLIN | POLLHUP | POLLERR)) receive(stream);
  }
}

int main(int argc, char** argv) {
  const struct call call = parse(argc, argv);
  // A closed 0, 1 or 2 would become our socket's number.
  for (int fd; (fd = open("/dev/null", O_RDWR)) <= 2;) {
    if (fd < 0) fail("cannot open /dev/null: %s", strerror(errno));
  }
  const int fd = connect_with_patience(&call);
  send_request(fd, &call);
  struct line_reader reader;
  char* line = NULL;
  if (!line_reader_init(&reader, fd)) fail("out of memory");
  const enum line_result got = line_read(&reader, kAnswerTimeoutMs, kAnswerTimeoutMs, &line);
  if (got == kLineTimeout) fail("mare-guestd on %s does not answer", call.host);
  if (got != kLineOk)
    fail("%s port %s closed the connection without an answer", call.host, call.port);
  check_answer(&call, line);
  static struct stream stream;
  stream = (struct stream){.call = &call, .fd = fd, .stdin_open = true};
  stream.in_size = reader.end - reader.begin;
  memcpy(stream.in, reader.data + reader.begin, stream.in_size);
  relay(&stream);
}
