// mare-init: PID 1 of a Maré guest, from the loaded modules on: a name and an address, the
// read-only NFS root with an overlay in memory, the jobs directory, the few files that differ from
// guest to guest; then mare-guestd, which it starts again if it ends, and a clean way down.
//
// It is of one piece and calls no other program, because all that comes after identity_await() is
// what a clone takes to be ready: under emulation each fork and exec costs milliseconds and memory.
// It and mare-guestd are started from the initramfs, so a file server that is away keeps neither
// from working.
//
// Whatever goes wrong is said on the console and the guest powers off: a guest that hangs in
// silence looks exactly like a slow one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/identity.h"
#include "images/guest/init.h"
#include "images/guest/protocol.h"

enum { kServerPort = 2049, kServerWaitS = 60, kSayEveryS = 5, kTermWaitMs = 300, kSyncWaitS = 10 };

static const char kQuestionsForAPeer[] = "150";

static const char* step = "starting";
static int guestd_fd = -1;    // the program, also when the initramfs's files are gone
static int guestd_told = -1;  // the first one waits for a word on it
static pid_t guestd = -1;
static bool is_clone;
static volatile sig_atomic_t told_to_end;

struct guest {
  char address[64];  // with the prefix's length
  char gateway[32], name[65], server[64], root[512], jobs[512];
  char token[300], mac[32], machine[64];
};

static void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  dprintf(2, "mare: %s\n", line);
}

static void pause_ms(long ms) {
  const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  nanosleep(&span, NULL);
}

static _Noreturn void fail(const char* what) {
  say("boot failed while %s: %s", step, what);
  // The serial line is drained by the host; give it a moment, else the reason is cut off.
  pause_ms(1000);
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

static _Noreturn void fail_errno(const char* what) {
  char text[600];
  snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
  fail(text);
}

static void mounted(const char* what, const char* where, const char* type, unsigned long flags,
                    const char* options) {
  if (mount(what, where, type, flags, options) != 0) fail_errno(where);
}

static void make_directory(const char* path) {
  if (mkdir(path, 0755) != 0 && errno != EEXIST) fail_errno(path);
}

static void write_file(const char* path, mode_t mode, const char* text) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  const ssize_t size = (ssize_t)strlen(text);
  if (fd < 0 || write(fd, text, (size_t)size) != size) fail_errno(path);
  close(fd);
}

// What needs no name: before a template stands still, so that its clones find it done.
static void prepare(void) {
  step = "getting ready";
  guestd_fd = open("/bin/mare-guestd", O_RDONLY | O_CLOEXEC);
  if (guestd_fd < 0) fail_errno("/bin/mare-guestd");
  static const char* const kDirectories[] = {"/ro", "/rw", "/root", "/tmp", "/run"};
  for (size_t i = 0; i < sizeof kDirectories / sizeof *kDirectories; ++i) {
    make_directory(kDirectories[i]);
  }
  mounted("tmpfs", "/rw", "tmpfs", 0, "mode=0755");
  mounted("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
  mounted("tmpfs", "/run", "tmpfs", 0, "mode=0755");
  make_directory("/dev/pts");
  make_directory("/dev/shm");
  mounted("devpts", "/dev/pts", "devpts", 0, "gid=5,mode=620");
  mounted("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
  if (symlink("/proc/self/fd", "/dev/fd") != 0 && errno != EEXIST) fail_errno("/dev/fd");
  static const char* const kOverlay[] = {"/rw/upper", "/rw/work", "/rw/upper/etc",
                                         "/rw/upper/etc/mare"};
  for (size_t i = 0; i < sizeof kOverlay / sizeof *kOverlay; ++i) make_directory(kOverlay[i]);
  if (!net_loopback_up()) fail_errno("lo");
}

static pid_t start_guestd(int start_on) {
  char number[16];
  snprintf(number, sizeof number, "%d", start_on);
  char* const early[] = {"mare-guestd", "--token-file", "/etc/mare/token",
                         "--start-on",  number,         NULL};
  char* const late[] = {"mare-guestd", "--token-file", "/etc/mare/token", NULL};
  static char* const kEnvironment[] = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
      "LANG=C.UTF-8", NULL};
  const pid_t child = fork();
  if (child != 0) return child;
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, 0);
  if (start_on >= 0) fcntl(start_on, F_SETFD, 0);
  syscall(SYS_execveat, guestd_fd, "", start_on < 0 ? late : early, kEnvironment, AT_EMPTY_PATH);
  say("mare-guestd can't be started: %s", strerror(errno));
  _exit(127);
}

// A clone finds it running: to start a program is most of what it would have to do.
static void prepare_guestd(void) {
  step = "starting mare-guestd";
  int ends[2];
  char word;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno("socketpair");
  guestd = start_guestd(ends[1]);
  close(ends[1]);
  guestd_told = ends[0];
  if (read(guestd_told, &word, 1) != 1) fail("it ended at once");
}

static void need(const char* line, const char* word, char* to, size_t size, const char* shape) {
  if (line_value(line, word, to, size)) return;
  char text[200];
  snprintf(text, sizeof text, "the kernel line has no %s=%s", word, shape);
  fail(text);
}

// Firmware's tables in memory are the template's, so a clone is told its machine's id.
static void find_machine(const char* line, char* to, size_t size) {
  char text[64] = "";
  if (!line_value(line, "mare.machine", text, sizeof text)) {
    const int fd = open("/sys/class/dmi/id/product_uuid", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = '\0';
  }
  // machine-id(5): 32 digits in lower case.
  size_t length = 0;
  for (const char* at = text; *at != '\0' && length + 2 < size; ++at) {
    if (strchr("0123456789abcdef", *at)) to[length++] = *at;
    if (strchr("ABCDEF", *at)) to[length++] = (char)(*at - 'A' + 'a');
  }
  to[length] = '\n';
  to[length + 1] = '\0';
}

static void become(struct guest* guest) {
  static char line[kKernelLineMax];
  step = "becoming somebody";
  if (!identity_await(line)) fail("no identity");
  is_clone = line_has(line, "mare.machine");
  need(line, "mare.ip", guest->address, sizeof guest->address, "ADDRESS/PREFIX");
  need(line, "mare.host", guest->name, sizeof guest->name, "NAME");
  need(line, "mare.nfs", guest->server, sizeof guest->server, "ADDRESS");
  need(line, "mare.root", guest->root, sizeof guest->root, "PATH");
  (void)line_value(line, "mare.gw", guest->gateway, sizeof guest->gateway);
  (void)line_value(line, "mare.jobs", guest->jobs, sizeof guest->jobs);
  (void)line_value(line, "mare.token", guest->token, sizeof guest->token);
  (void)line_value(line, "mare.mac", guest->mac, sizeof guest->mac);
  find_machine(line, guest->machine, sizeof guest->machine);
  // NFSv4 tells clients apart by host name and this: both must be right before the first mount,
  // else every guest would claim to be the same client and they would end each other's sessions.
  if (sethostname(guest->name, strlen(guest->name)) != 0) fail_errno("host name");
  char unique[80];
  snprintf(unique, sizeof unique, "mare-%.*s", (int)strcspn(guest->address, "/"), guest->address);
  write_file("/sys/module/nfs/parameters/nfs4_unique_id", 0600, unique);
}

static void bring_up(const struct guest* guest) {
  step = "bringing up eth0";
  // A clone's card still says the template's address. It has never been up: nobody has seen that.
  if (guest->mac[0] && !net_set_mac("eth0", guest->mac)) fail_errno(guest->mac);
  // Whoever asks for it already hears of it now, not when he asks again, a second later.
  write_file("/proc/sys/net/ipv4/conf/all/arp_notify", 0644, "1");
  // One that stands still on its way answers nobody. Three questions are asked usually, one a
  // second, and then a rank that connects to it is told that there is no such host, which ends most
  // programs; TCP itself goes on for 127 s.
  write_file("/proc/sys/net/ipv4/neigh/eth0/mcast_solicit", 0644, kQuestionsForAPeer);
  write_file("/proc/sys/net/ipv4/neigh/eth0/mcast_resolicit", 0644, kQuestionsForAPeer);
  if (!net_up("eth0", guest->address)) fail_errno(guest->address);
  if (guest->gateway[0] && !net_gateway(guest->gateway)) fail_errno(guest->gateway);
}

static int64_t seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void await_server(const struct guest* guest, int64_t deadline) {
  static char waiting[128];
  snprintf(waiting, sizeof waiting, "waiting for the NFS server %s", guest->server);
  step = waiting;
  int64_t said = 0;
  while (!net_answers(guest->server, kServerPort)) {
    const int64_t now = seconds();
    if (now >= deadline) {
      fail("no answer on port 2049 for 60 s: does it run, and is this guest in its network?");
    }
    if (now >= said) {
      say("%s (up to %lld s more)", waiting, (long long)(deadline - now));
      said = now + kSayEveryS;
    }
    pause_ms(300);
  }
}

static void mount_nfs(const struct guest* guest, const char* path, const char* where,
                      unsigned long flags, const char* more, int64_t deadline) {
  char source[600];
  char options[600];
  snprintf(source, sizeof source, "%s:%s", guest->server, path);
  snprintf(options, sizeof options, "%s,vers=4.%d,nolock,hard,addr=%s,clientaddr=%.*s", more,
           MARE_GUEST_NFS_MINOR_VERSION, guest->server, (int)strcspn(guest->address, "/"),
           guest->address);
  static char mounting[700];
  snprintf(mounting, sizeof mounting, "mounting %s", source);
  step = mounting;
  while (mount(source, where, "nfs4", flags, options) != 0) {
    if (seconds() >= deadline) fail_errno("does the server export it to this guest?");
    say("cannot mount %s yet: %s", source, strerror(errno));
    pause_ms(1000);
  }
}

static void own_files(const struct guest* guest) {
  step = "writing this guest's own files";
  char text[400];
  // Into the overlay's upper half before it is one: nothing has to be asked of the server.
  snprintf(text, sizeof text, "%s\n", guest->name);
  write_file("/rw/upper/etc/hostname", 0644, text);
  snprintf(text, sizeof text, "127.0.0.1 localhost\n%.*s %s\n", (int)strcspn(guest->address, "/"),
           guest->address, guest->name);
  write_file("/rw/upper/etc/hosts", 0644, text);
  write_file("/rw/upper/etc/machine-id", 0444, guest->machine);
  snprintf(text, sizeof text, "%s\n", guest->token);
  write_file("/rw/upper/etc/mare/token", 0600, text);
}

static void mount_root(const struct guest* guest) {
  const int64_t deadline = seconds() + kServerWaitS;
  // Whoever clones has just seen the server serve others. One that is away makes a clone hang
  // here, and then it is booted instead.
  if (!is_clone) await_server(guest, deadline);
  // The published version never changes, so attributes are kept for an hour and opens are not
  // checked again: that is most of the traffic of a boot.
  mount_nfs(guest, guest->root, "/ro", MS_RDONLY, "nocto,actimeo=3600", deadline);
  own_files(guest);
  step = "building the overlay";
  mounted("overlay", "/root", "overlay", 0, "lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work");
  // Files made by one guest are opened by another a moment later: absent names are not remembered.
  if (guest->jobs[0]) {
    mount_nfs(guest, guest->jobs, "/root/jobs", 0, "lookupcache=positive", deadline);
  }
  step = "moving to the root";
  static const char* const kMoved[] = {"/proc", "/sys", "/dev", "/tmp", "/run"};
  for (size_t i = 0; i < sizeof kMoved / sizeof *kMoved; ++i) {
    char target[32];
    snprintf(target, sizeof target, "/root%s", kMoved[i]);
    mounted(kMoved[i], target, NULL, MS_MOVE, NULL);
  }
}

static void remove_files(const char* directory) {
  DIR* entries = opendir(directory);
  if (!entries) return;
  for (struct dirent* entry; (entry = readdir(entries)) != NULL;) {
    (void)unlinkat(dirfd(entries), entry->d_name, 0);
  }
  closedir(entries);
}

static void enter_root(void) {
  char word;
  // If mare-guestd is gone, it will be started again.
  if (write(guestd_told, "g", 1) != 1 || read(guestd_told, &word, 1) != 0) {
    say("mare-guestd does not answer");
  }
  close(guestd_told);
  if (chdir("/root") != 0) fail_errno("/root");
  mounted(".", "/", NULL, MS_MOVE, NULL);
  if (chroot(".") != 0 || chdir("/") != 0) fail_errno("the new root");
}

static void on_signal(int number) {
  (void)number;
  told_to_end = 1;
}

static _Noreturn void power_off(const char* name) {
  say("guest %s powering off", name);
  (void)kill(-1, SIGTERM);
  pause_ms(kTermWaitMs);
  (void)kill(-1, SIGKILL);
  // A file server that is gone must not keep the guest up: neither sync nor umount may hang.
  const pid_t child = fork();
  if (child == 0) {
    sync();
    _exit(0);
  }
  for (int waited = 0; child > 0 && waited < kSyncWaitS * 20; ++waited) {
    if (waitpid(child, NULL, WNOHANG) == child) break;
    pause_ms(50);
  }
  (void)umount2("/jobs", MNT_DETACH);
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

// Reaps every orphan, too: they are children of PID 1.
static _Noreturn void supervise(const char* name) {
  static const int kEndings[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
  const struct sigaction action = {.sa_handler = on_signal};  // without SA_RESTART: wait() returns
  for (size_t i = 0; i < sizeof kEndings / sizeof *kEndings; ++i) {
    sigaction(kEndings[i], &action, NULL);
  }
  while (!told_to_end) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (told_to_end) break;
    if (ended < 0) pause_ms(1000);  // fork failed: there is no child at all
    if (ended != guestd && ended >= 0) continue;
    say("mare-guestd ended with status %d, starting it again", status);
    pause_ms(1000);
    if (!told_to_end) guestd = start_guestd(-1);
  }
  power_off(name);
}

// It removes what it finds in "/": only an initramfs may be that.
static bool in_initramfs(void) {
  struct statfs root;
  const bool in_memory =
      statfs("/", &root) == 0 && (root.f_type == RAMFS_MAGIC || root.f_type == TMPFS_MAGIC);
  return getpid() == 1 && in_memory && access("/init", F_OK) == 0;
}

int main(void) {
  static struct guest guest;
  if (!in_initramfs()) {
    fputs("mare-init: is the first program of a Maré guest, and nothing else\n", stderr);
    return 2;
  }
  prepare();
  prepare_guestd();
  // The initramfs lives in memory: what is not needed any more is given back.
  remove_files("/bin");
  remove_files("/");
  become(&guest);
  bring_up(&guest);
  mount_root(&guest);
  enter_root();
  supervise(guest.name);
}
