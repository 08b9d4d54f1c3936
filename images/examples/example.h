// What the examples share: numbers, options, clocks, and waiting for a message without burning a
// CPU.
#ifndef MARE_IMAGES_EXAMPLES_EXAMPLE_H
#define MARE_IMAGES_EXAMPLES_EXAMPLE_H

#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// A well mixed value of 64 bits: the finaliser of splitmix64 (Steele, Lea, Flood 2014).
static inline uint64_t example_mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/// The next of Marsaglia's xorshift64; never 0 if x is not.
static inline uint64_t example_xorshift(uint64_t x) {
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ (x << 17);
}

static inline uint64_t example_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static inline void example_pause_us(uint64_t us) {
  struct timespec left = {.tv_sec = (time_t)(us / 1000000u),
                          .tv_nsec = (long)(us % 1000000u) * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/// A decimal number from least to most, or the end of the program with a message.
static inline uint64_t example_number(const char* program, const char* option, const char* text,
                                      uint64_t least, uint64_t most) {
  char* end = NULL;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-' || value < least || value > most) {
    fprintf(stderr, "%s: --%s '%s' must be a number from %" PRIu64 " to %" PRIu64 "\n", program,
            option, text, least, most);
    exit(2);
  }
  return value;
}

/// Waits for a request. MPI's own waiting spins: with several VMs on a core, the waiting ranks
/// would take the time of those that work, and of the migration.
static inline void example_poll(MPI_Request* request) {
  int done = 0;
  for (int spin = 0; spin < 200 && !done; ++spin) MPI_Test(request, &done, MPI_STATUS_IGNORE);
  while (!done) {
    example_pause_us(200);
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
  }
}

// MPI_Wait below is for readers and checkers: the request is done by then, and it returns at once.
static inline void example_receive(void* buffer, int count, MPI_Datatype type, int from, int tag) {
  MPI_Request request;
  MPI_Irecv(buffer, count, type, from, tag, MPI_COMM_WORLD, &request);
  example_poll(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static inline void example_send(const void* buffer, int count, MPI_Datatype type, int to, int tag) {
  MPI_Request request;
  MPI_Isend(buffer, count, type, to, tag, MPI_COMM_WORLD, &request);
  example_poll(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

#endif
