// The guest of the contract's real VMs: init of an initramfs that holds nothing else.
//
// It rewrites a part of its memory at a steady rate, checks on every rewrite that what it wrote
// last time is still there, and counts on the console. A lost page is a BUG: line, which the
// drivers count.
//
// A template waits when its memory is written, before it counts; a clone goes on with its own
// words.
//
// Words of the kernel line: wws=BYTES rate=BYTES fault=0|1 mare.template
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/identity.h"

enum { kPage = 4096, kWords = kPage / 8, kLoopMs = 50, kLoopsPerCount = 4, kFaultAt = 4 };

static uint64_t number_after(const char* line, const char* word, uint64_t otherwise) {
  char value[32];
  return line_value(line, word, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

static uint64_t value_of(uint64_t page, uint64_t generation) {
  return (page + 1) * 0x9e3779b97f4a7c15ULL + generation;
}

// Every word is written, so that the page differs from its last self everywhere.
static void write_page(uint64_t* words, uint64_t value) {
  for (int i = 0; i < kWords; ++i) words[i] = value ^ (uint64_t)i;
}

static int is_whole(const uint64_t* words, uint64_t value) {
  for (int i = 0; i < kWords; ++i) {
    if (words[i] != (value ^ (uint64_t)i)) return 0;
  }
  return 1;
}

static void die(const char* what) {
  printf("BUG: contract guest: %s\n", what);
  for (;;) pause();
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  static char line[kKernelLineMax];
  if (mount("proc", "/proc", "proc", 0, NULL) != 0) die("no /proc");
  // A clone's random numbers are seeded through it.
  if (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) != 0) die("no /dev");
  if (!identity_own(line)) die("no kernel line");
  const uint64_t pages = number_after(line, "wws", 4 << 20) / kPage;
  uint64_t* memory =
      mmap(NULL, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("no memory");
  for (uint64_t page = 0; page < pages; ++page) {
    write_page(memory + page * kWords, value_of(page, 0));
  }
  if (!identity_await(line)) die("no identity");
  const uint64_t rate = number_after(line, "rate", 1 << 20) / kPage;
  const int faulty = number_after(line, "fault", 0) != 0;
  uint64_t generation = 0;
  uint64_t page = 0;
  uint64_t due = 0;  // pages, in thousandths
  for (uint64_t loop = 1;; ++loop) {
    for (due += rate * kLoopMs; due >= 1000; due -= 1000) {
      uint64_t* words = memory + page * kWords;
      if (!is_whole(words, value_of(page, generation))) die("its memory is not what it wrote");
      write_page(words, value_of(page, generation + 1));
      if (++page == pages) {
        page = 0;
        ++generation;
      }
    }
    if (loop % kLoopsPerCount == 0) printf("contract count %llu\n", (unsigned long long)loop);
    if (faulty && loop == kFaultAt * kLoopsPerCount) printf("BUG: contract guest: as asked for\n");
    const struct timespec pause_for = {0, kLoopMs * 1000000L};
    nanosleep(&pause_for, NULL);
  }
}
