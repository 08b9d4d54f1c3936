// mare-guestd: options, the listening sockets, and the connections. See protocol.h for what it
// answers.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "images/guest/guestd.h"

enum {
  kStackBytes = 256 * 1024,
  kSendTimeoutMs = 30000,
  kEvictionWaitMs = 2000,
  kPortAttempts = 20,  // of finding a number that is free for both TCP and UDP, with --port 0
};

struct connection {
  bool used;
  bool trusted;  // has shown the token
  int fd;
  int64_t since_ms;
};

static struct guestd config = {
    .token_file = "/etc/mare/token",
    .line_timeout_ms = MARE_GUEST_LINE_TIMEOUT_S * 1000,
    .idle_timeout_ms = MARE_GUEST_IDLE_TIMEOUT_S * 1000,
    .connections_max = MARE_GUEST_CONNECTIONS_MAX,
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t slot_freed;
static struct connection* connections;

void guestd_log(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  dprintf(2, "mare-guestd: %s\n", line);  // One write: lines of several threads do not mix.
}

bool thread_start(void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0) return false;
  // Not the usual 8 MiB: mlockall() would take all of it.
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const int error = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  errno = error;
  return error == 0;
}

const char* file_error_code(int error) {
  const bool passes = error == EIO || error == ETIMEDOUT || error == ESTALE;
  return passes ? MARE_GUEST_ERR_BUSY : MARE_GUEST_ERR_FAILED;
}

void answer_error(struct answer* answer, const char* code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(answer->message, sizeof answer->message, format, arguments);
  va_end(arguments);
  answer->error = code;
}

bool send_error(int fd, const char* code, const char* message) {
  struct text line;
  text_init(&line, MARE_GUEST_LINE_MAX);
  text_append(&line, "ERR ");
  text_append(&line, code);
  text_append(&line, " ");
  text_append_encoded(&line, message);
  text_append(&line, "\n");
  const bool sent = !line.failed && send_all(fd, line.data, line.size, kSendTimeoutMs);
  text_free(&line);
  return sent;
}

static bool send_answer(int fd, struct answer* answer) {
  if (answer->has_payload) text_field_u64(&answer->fields, "len", answer->payload_size);
  text_append(&answer->fields, "\n");
  if (!answer->error && answer->fields.failed) {
    answer_error(answer, MARE_GUEST_ERR_FAILED, "out of memory");
  }
  if (answer->error) return send_error(fd, answer->error, answer->message);
  return send_all(fd, answer->fields.data, answer->fields.size, kSendTimeoutMs) &&
         send_all(fd, answer->payload, answer->payload_size, kSendTimeoutMs);
}

// False: the connection is to be closed.
static bool answer_line(struct line_reader* reader, char* line) {
  struct request request;
  const char* wrong = request_parse(line, &request);
  bool go_on = true;
  if (wrong) {
    go_on = send_error(reader->fd, MARE_GUEST_ERR_BAD_REQUEST, wrong);
  } else if (!strcmp(request.verb, MARE_GUEST_VERB_RSH)) {
    rsh_serve(&config, &request, reader);
    go_on = false;
  } else {
    struct answer answer = {0};
    text_init(&answer.fields, MARE_GUEST_LINE_MAX);
    text_append(&answer.fields, "OK");
    verb_answer(&config, &request, &answer);
    go_on = send_answer(reader->fd, &answer);
    if (answer.power_off) machine_power_off();
    text_free(&answer.fields);
    free(answer.payload);
  }
  request_free(&request);
  return go_on;
}

static void trust(struct connection* connection) {
  pthread_mutex_lock(&lock);
  connection->trusted = true;
  pthread_mutex_unlock(&lock);
}

static void serve(struct connection* connection) {
  struct line_reader reader;
  if (!line_reader_init(&reader, connection->fd)) return;
  reader.required_prefix = config.first_words;
  int idle_ms = config.line_timeout_ms;  // A stranger has no time to think.
  for (bool open = true; open;) {
    char* line = NULL;
    const enum line_result got = line_read(&reader, idle_ms, config.line_timeout_ms, &line);
    if (got == kLineRefused) {
      send_error(reader.fd, MARE_GUEST_ERR_DENIED, "wrong token, or not a MARE1 request");
    } else if (got == kLineTooLong) {
      send_error(reader.fd, MARE_GUEST_ERR_BAD_REQUEST, "the line is longer than 65536 bytes");
    } else if (got == kLineMalformed) {
      send_error(reader.fd, MARE_GUEST_ERR_BAD_REQUEST, "a NUL byte in the line");
    } else if (got == kLineTimeout && reader.end > reader.begin) {
      send_error(reader.fd, MARE_GUEST_ERR_BAD_REQUEST, "the line did not end in time");
    }
    if (got != kLineOk) break;
    trust(connection);
    idle_ms = config.idle_timeout_ms;
    open = answer_line(&reader, line + strlen(config.first_words));
  }
  line_reader_free(&reader);
}

// Closing with unread input would reset the connection, and the peer might lose our last words.
static void close_gently(int fd) {
  shutdown(fd, SHUT_WR);
  char rest[4096];
  const int64_t deadline = monotonic_ms() + 500;
  for (int64_t left = 500; left > 0; left = deadline - monotonic_ms()) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, (int)left) <= 0 || recv(fd, rest, sizeof rest, MSG_DONTWAIT) <= 0) break;
  }
}

static void* connection_main(void* argument) {
  struct connection* connection = argument;
  serve(connection);
  close_gently(connection->fd);
  pthread_mutex_lock(&lock);
  close(connection->fd);  // Under the lock: the evicting thread must not shut down a reused number.
  connection->used = false;
  pthread_cond_signal(&slot_freed);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static struct connection* free_slot(void) {
  for (int i = 0; i < config.connections_max; ++i) {
    if (!connections[i].used) return &connections[i];
  }
  return NULL;
}

// With the lock held. A slot, if necessary that of the stranger who has been here longest.
static struct connection* take_slot(void) {
  struct connection* slot = free_slot();
  if (slot) return slot;
  struct connection* oldest = NULL;
  for (int i = 0; i < config.connections_max; ++i) {
    struct connection* candidate = &connections[i];
    if (candidate->trusted) continue;
    if (!oldest || candidate->since_ms < oldest->since_ms) oldest = candidate;
  }
  if (!oldest) return NULL;
  shutdown(oldest->fd, SHUT_RDWR);
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += kEvictionWaitMs / 1000;
  while (!(slot = free_slot())) {
    if (pthread_cond_timedwait(&slot_freed, &lock, &until) != 0) return NULL;
  }
  return slot;
}

static void admit(int fd) {
  const int on = 1;
  const int idle_s = 60;
  // Small answers at once; and a peer that vanished without a word is noticed some time.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  pthread_mutex_lock(&lock);
  struct connection* slot = take_slot();
  bool started = false;
  if (slot) {
    *slot = (struct connection){.used = true, .fd = fd, .since_ms = monotonic_ms()};
    started = thread_start(connection_main, slot);
    slot->used = started;
  }
  pthread_mutex_unlock(&lock);
  if (started) return;
  send_error(fd, MARE_GUEST_ERR_BUSY, "too many connections: try again later");
  close(fd);
}

static _Noreturn void accept_forever(int tcp) {
  for (;;) {
    const int fd = accept4(tcp, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
      admit(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      (void)poll(NULL, 0, 50);  // It passes; do not spin meanwhile.
    }
  }
}

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static socklen_t parse_address(const char* text, uint16_t port, union address* address) {
  memset(address, 0, sizeof *address);
  if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons(port);
    return sizeof address->v4;
  }
  if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1) {
    address->v6.sin6_family = AF_INET6;
    address->v6.sin6_port = htons(port);
    return sizeof address->v6;
  }
  return 0;
}

static uint16_t port_of(const union address* address) {
  return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

static int bound_socket(int type, const union address* address, socklen_t size) {
  const int fd = socket(address->any.sa_family, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  if (type == SOCK_STREAM) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, &address->any, size) == 0 && (type != SOCK_STREAM || listen(fd, 256) == 0))
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Both sockets on one port; 0 is replaced by what was found. False with errno.
static bool open_sockets(const char* listen_on, uint16_t* port, int* tcp, int* udp) {
  const int attempts = *port == 0 ? kPortAttempts : 1;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    union address address;
    socklen_t size = parse_address(listen_on, *port, &address);
    *tcp = bound_socket(SOCK_STREAM, &address, size);
    if (*tcp < 0) return false;
    if (getsockname(*tcp, &address.any, &size) != 0) return false;
    *udp = bound_socket(SOCK_DGRAM, &address, size);
    if (*udp >= 0) {
      *port = port_of(&address);
      return true;
    }
    close(*tcp);
  }
  return false;
}

static bool kernel_line_is_ours(void) {
  char line[4096] = " ";
  const int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, line + 1, sizeof line - 2);
  close(fd);
  line[got > 0 ? got + 1 : 0] = '\0';
  // A clone keeps the line of the template that it came from.
  return strstr(line, " mare.ip=") != NULL || strstr(line, " mare.template") != NULL;
}

static void harden(void) {
  signal(SIGPIPE, SIG_IGN);
  // The guest may be short of memory for a good reason (a job); the way in must stay open.
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "-900", 4);
    close(fd);
  }
}

static const char kHelp[] =
    "Usage: mare-guestd [--token-file FILE] [--listen ADDRESS] [--port N]\n"
    "Maré's daemon inside a VM: starts programs, tells how they ended, answers pings.\n\n"
    "  --token-file FILE     the secret that clients must show (/etc/mare/token)\n"
    "  --listen ADDRESS      numeric IPv4 or IPv6 address to listen on (0.0.0.0)\n"
    "  --port N              TCP and UDP port, 0: any that is free (7411)\n"
    "  --line-timeout-ms N   for a request line to be complete (10000)\n"
    "  --idle-timeout-ms N   for a connection to stay without requests (600000)\n"
    "  --connections N       at a time (128)\n"
    "  --start-on FD         for mare-init: say there when ready, wait, enter /root\n"
    "  --version, --help\n\n"
    "It says 'listening on ADDRESS port N' on standard error when it is ready. Clock and power "
    "are\n"
    "touched only inside a Maré VM, which it knows by mare.ip= on the kernel's command line.\n"
    "Example: mare-guestd --token-file ./token --listen 127.0.0.1 --port 0\n";

static _Noreturn void usage_error(const char* what, const char* value) {
  fprintf(stderr, "mare-guestd: %s '%s'; see mare-guestd --help\n", what, value);
  exit(2);
}

static int number_option(const char* text, int most) {
  uint64_t value = 0;
  if (!parse_u64(text, (uint64_t)most, &value)) usage_error("bad number", text);
  return (int)value;
}

struct options {
  const char* listen_on;
  uint16_t port;
  int start_on;  // -1: at once
};

static void parse_options(int argc, char** argv, struct options* options) {
  static const struct option kLong[] = {{"token-file", required_argument, NULL, 't'},
                                        {"listen", required_argument, NULL, 'l'},
                                        {"port", required_argument, NULL, 'p'},
                                        {"line-timeout-ms", required_argument, NULL, 'L'},
                                        {"idle-timeout-ms", required_argument, NULL, 'I'},
                                        {"connections", required_argument, NULL, 'c'},
                                        {"start-on", required_argument, NULL, 's'},
                                        {"version", no_argument, NULL, 'V'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "h", kLong, NULL)) != -1;) {
    union address unused;
    switch (option) {
      case 't':
        config.token_file = optarg;
        break;
      case 'l':
        if (!parse_address(optarg, 0, &unused)) usage_error("not a numeric address:", optarg);
        options->listen_on = optarg;
        break;
      case 'p':
        options->port = (uint16_t)number_option(optarg, 65535);
        break;
      case 'L':
        config.line_timeout_ms = number_option(optarg, 3600000);
        break;
      case 'I':
        config.idle_timeout_ms = number_option(optarg, INT_MAX);
        break;
      case 'c':
        config.connections_max = number_option(optarg, 100000);
        break;
      case 's':
        options->start_on = number_option(optarg, INT_MAX);
        break;
      case 'V':
        puts("mare-guestd " MARE_VERSION);
        exit(0);
      case 'h':
        fputs(kHelp, stdout);
        exit(0);
      default:
        exit(2);
    }
  }
  if (optind < argc) usage_error("unexpected argument", argv[optind]);
  if (config.connections_max < 1) usage_error("--connections must be at least 1, not", "0");
}

static bool load_token(void) {
  static char absolute[PATH_MAX];
  char token[MARE_GUEST_TOKEN_MAX + 1];
  errno = 0;
  const char* wrong = token_load(config.token_file, token);
  if (wrong) {
    guestd_log("token file %s: %s%s%s", config.token_file, wrong, errno ? ": " : "",
               errno ? strerror(errno) : "");
    return false;
  }
  snprintf(config.first_words, sizeof config.first_words, "%s %s ", MARE_GUEST_MAGIC, token);
  if (realpath(config.token_file, absolute)) config.token_file = absolute;
  return true;
}

static bool initialise_waiting(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  connections = calloc((size_t)config.connections_max, sizeof *connections);
  return connections && pthread_cond_init(&slot_freed, &attributes) == 0;
}

// For mare-init: all is ready but the root and the token, which a template has not. Says so on that
// socket, and goes on when it is told to: "/root" is whole then, and is moved to "/" once this
// process is in it, which it tells by closing the socket.
static bool enter_root(int fd) {
  char word = 'r';
  const bool told = write(fd, &word, 1) == 1 && read(fd, &word, 1) == 1;
  const bool in = told && chroot("/root") == 0 && chdir("/") == 0;
  close(fd);
  return in;
}

// For whoever reads the console.
static void say_ready(void) {
  char name[65] = "";
  (void)gethostname(name, sizeof name - 1);
  dprintf(2, "mare: guest %s ready\n", name);
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "--runner")) return runner_main(argc, argv);
  if (argc > 1 && !strcmp(argv[1], "--session")) return session_main(argc, argv);
  struct options options = {.listen_on = "0.0.0.0", .port = MARE_GUEST_PORT, .start_on = -1};
  parse_options(argc, argv, &options);
  if (options.start_on < 0 && !load_token()) return 1;
  harden();
  config.is_mare_vm = kernel_line_is_ours();
  int tcp = -1;
  int udp = -1;
  if (!open_sockets(options.listen_on, &options.port, &tcp, &udp)) {
    guestd_log("cannot listen on %s port %u (TCP and UDP): %s; is another mare-guestd running?",
               options.listen_on, (unsigned)options.port, strerror(errno));
    return 1;
  }
  if (!initialise_waiting() || !echo_start(udp)) {
    guestd_log("cannot start: %s", strerror(errno));
    return 1;
  }
  kmsg_start();
  // The text of this program comes from NFS: keep it here, for the time when the server is away.
  if (geteuid() == 0) (void)mlockall(MCL_CURRENT);
  if (options.start_on >= 0 && (!enter_root(options.start_on) || !load_token())) return 1;
  guestd_log("listening on %s port %u", options.listen_on, (unsigned)options.port);
  if (config.is_mare_vm) say_ready();
  accept_forever(tcp);
}
