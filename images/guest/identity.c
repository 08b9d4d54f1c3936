// How a template becomes somebody. A template is a VM that has booted as far as all its clones have
// in common and has no name, no address and no mount yet; its kernel line has the word
// mare.template. It waits here; the host keeps its memory, and every clone goes on from here. What
// a clone is to be is told as a kernel line would, in a file of fw_cfg, QEMU's own way to hand
// texts to a guest: the same registers answer for the QEMU that runs the guest now. So a clone
// knows who it is before it has ever been on a network.
//
// What was random in the template is the same in all clones: the kernel's random numbers are seeded
// anew before anybody takes one.
#include "images/guest/identity.h"

#include <cpuid.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

// QEMU, docs/specs/fw_cfg.rst and include/standard-headers/linux/qemu_fw_cfg.h.
enum {
  kSelector = 0x510,
  kData = 0x511,
  kKeySignature = 0x00,
  kKeyDirectory = 0x19,
  kFilesMax = 256,
};
struct fw_file {
  uint32_t size;  // big endian, as all numbers of the directory
  uint16_t key;
  uint16_t reserved;
  char name[56];
};

enum {
  kLookMs = 5,
  kSeedWords = 32,
  kRdrandAttempts = 100,  // Intel: ten in a row do not fail on a sane CPU
  kHardwareSeedBytes = 256,
};

static const char kTemplateWord[] = "mare.template";
static const char kFile[] = "opt/mare/line";
// The host waits for this on the console.
static const char kReady[] = "mare: template ready\n";

static void read_on(void* to, size_t size) {
  unsigned char* bytes = to;
  for (size_t i = 0; i < size; ++i) bytes[i] = inb(kData);
}

static void fw_read(uint16_t key, void* to, size_t size) {
  outw(key, kSelector);
  read_on(to, size);
}

static bool fw_is_there(void) {
  char signature[4];
  fw_read(kKeySignature, signature, sizeof signature);
  return memcmp(signature, "QEMU", sizeof signature) == 0;
}

// The line of a clone; false in a template, which has none.
static bool fw_line(char line[kKernelLineMax]) {
  uint32_t count = 0;
  fw_read(kKeyDirectory, &count, sizeof count);
  count = be32toh(count);
  for (uint32_t i = 0; i < count && i < kFilesMax; ++i) {
    struct fw_file file;
    read_on(&file, sizeof file);
    const uint32_t size = be32toh(file.size);
    if (strncmp(file.name, kFile, sizeof file.name) != 0) continue;
    if (size == 0 || size >= kKernelLineMax) return false;
    fw_read(be16toh(file.key), line, size);
    line[size] = '\0';
    return true;
  }
  return false;
}

bool line_has(const char* line, const char* word) {
  const size_t length = strlen(word);
  for (const char* at = line; (at = strstr(at, word)) != NULL; at += length) {
    const bool begins = at == line || at[-1] == ' ';
    const char after = at[length];
    if (begins && (after == '\0' || after == ' ' || after == '=')) return true;
  }
  return false;
}

bool line_value(const char* line, const char* word, char* to, size_t size) {
  const size_t length = strlen(word);
  to[0] = '\0';
  for (const char* at = line; (at = strstr(at, word)) != NULL; at += length) {
    if ((at != line && at[-1] != ' ') || at[length] != '=') continue;
    const char* value = at + length + 1;
    const size_t end = strcspn(value, " ");
    if (end == 0 || end >= size) return false;
    memcpy(to, value, end);
    to[end] = '\0';
    return true;
  }
  return false;
}

__attribute__((target("rdrnd"))) static bool rdrand(unsigned long long* word) {
  for (int i = 0; i < kRdrandAttempts; ++i) {
    if (__builtin_ia32_rdrand64_step(word)) return true;
  }
  return false;
}

// The device's driver reads ahead: its first answer may be of the template's time.
static bool hardware_seed(unsigned char* to, size_t size) {
  const int fd = open("/dev/hwrng", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  unsigned char old[kHardwareSeedBytes];
  size_t got = 0;
  bool good = true;
  while (good && got < sizeof old + size) {
    unsigned char* into = got < sizeof old ? old + got : to + (got - sizeof old);
    const size_t room = got < sizeof old ? sizeof old - got : sizeof old + size - got;
    const ssize_t more = read(fd, into, room);
    good = more > 0;
    if (good) got += (size_t)more;
  }
  close(fd);
  return good;
}

static bool has_rdrand(void) {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_RDRND) != 0;
}

// The line tells one clone from another, but is no secret: only what the CPU or the device gave
// counts as entropy.
static bool reseed(const char* line) {
  static unsigned long long storage[1 + kSeedWords + kKernelLineMax / 8];
  struct rand_pool_info* pool = (struct rand_pool_info*)storage;  // its content begins at word 1
  unsigned long long* words = storage + 1;
  bool good = has_rdrand();
  for (int i = 0; good && i < kSeedWords; ++i) good = rdrand(&words[i]);
  if (!good) good = hardware_seed((unsigned char*)words, kSeedWords * sizeof *words);
  memcpy(words + kSeedWords, line, strlen(line));
  pool->entropy_count = good ? 256 : 0;
  pool->buf_size = (int)(kSeedWords * sizeof *words + strlen(line));
  const int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  // The second makes the generator take it at once, and forget what it had prepared.
  good = ioctl(fd, RNDADDENTROPY, pool) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0 && good;
  close(fd);
  return good;
}

bool identity_own(char line[kKernelLineMax]) {
  const int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : read(fd, line, kKernelLineMax - 1);
  if (fd >= 0) close(fd);
  if (got <= 0) {
    fprintf(stderr, "mare: /proc/cmdline can't be read: %s\n", strerror(errno));
    return false;
  }
  line[got] = '\0';
  line[strcspn(line, "\n")] = '\0';
  return true;
}

bool identity_await(char line[kKernelLineMax]) {
  if (!identity_own(line)) return false;
  if (!line_has(line, kTemplateWord)) return true;
  if (ioperm(kSelector, 2, 1) != 0) {
    fprintf(stderr, "mare: no access to fw_cfg: %s\n", strerror(errno));
    return false;
  }
  if (!fw_is_there()) {
    fputs("mare: the hypervisor has no fw_cfg: no clone could be told who it is\n", stderr);
    return false;
  }
  (void)!write(STDERR_FILENO, kReady, sizeof kReady - 1);
  const struct timespec pause = {.tv_nsec = kLookMs * 1000000L};
  while (!fw_line(line)) nanosleep(&pause, NULL);
  if (reseed(line)) return true;
  // Two clones with the same random numbers are worse than one that does not start.
  fprintf(stderr, "mare: the random numbers can't be seeded: %s\n", strerror(errno));
  return false;
}
