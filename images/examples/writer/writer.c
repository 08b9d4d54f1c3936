// writer: writes memory in a known manner, for measuring what a move costs. Each pattern is a kind
// of program: a still one, a sweep over an array, scattered updates, bursts with pauses between, a
// sort, an LU factorisation. Every page is a function of its number and of how often it was
// written, and is checked before it is written again, and all of them at the end.
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../example.h"
#include "lu.h"

enum { kPageWords = 512, kPageBytes = 4096, kPagesPerMib = 256, kWrongShown = 5 };
enum { kHotShare = 10, kHotWrites = 90 };  // hot: 90% of the writes go to 10% of the pages

enum pattern { kIdle, kSweep, kRandom, kHot, kBurst, kSort, kLu, kPatterns };
static const char* const kNames[kPatterns] = {"idle",  "sweep", "random", "hot",
                                              "burst", "sort",  "lu"};

struct options {
  enum pattern pattern;
  uint64_t pages;
  uint64_t rest_pages;
  uint64_t rate_pages_per_s;
  uint64_t period_ms;
  uint64_t burst_ms;
  uint64_t busy_percent;
  uint64_t seconds;
  uint64_t seed;
  uint64_t corrupt_at;  // 0: never
  bool compressible;
  const char* until;
  const char* sync;
};

static const char kHelp[] =
    "Usage: mpirun ... writer [options]\n"
    "Writes memory in a known manner and checks it. Exit 0 if all was right, else 1.\n\n"
    "  --pattern P      idle, sweep (in order, round and round), random, hot (9 of 10 writes to a "
    "tenth),\n"
    "                   burst (sweeps, then rests), sort (of integers, again and again),\n"
    "                   lu (factors a matrix, as HPL does, again and again; an iteration is as "
    "much\n"
    "                   work as one period had room for at the start) (sweep)\n"
    "  --size-mib S     memory of each rank (32)\n"
    "  --rest-mib Q     besides, of each rank: filled once and checked at the end (0)\n"
    "  --rate-mib R     written a second by each rank; 0: as fast as it can (8)\n"
    "  --burst-ms B     burst: writes so long, then rests as long (4000)\n"
    "  --period-ms M    of an iteration, at whose end the ranks meet (50)\n"
    "  --seconds T      ends after so long (60)\n"
    "  --until FILE     ends when FILE exists\n"
    "  --sync FILE      have FILE, its output say, written to the storage ten times a second: who "
    "reads\n"
    "                   it elsewhere sees each line then, not what the system writes in half a "
    "minute\n"
    "  --compressible   fill a page with one repeated word, not with random ones\n"
    "  --seed X         (1)\n"
    "  --corrupt-at N   flip a bit in iteration N, to see that it is found\n\n"
    "Example: mpirun -np 2 writer --pattern hot --size-mib 64 --rate-mib 16 --seconds 120\n";

struct run {
  struct options options;
  int rank;
  int ranks;
  uint64_t* memory;
  uint64_t* written;  // of each page: how often
  uint64_t next;      // sweep: the next page
  uint64_t chance;    // state of a generator
  uint64_t keys_sum;  // sort: of the keys, which no order changes
  struct lu lu;
  double lu_flops;  // of an iteration
  uint64_t total;   // pages written, or keys sorted / kPageWords
  uint64_t wrong;
};

static enum pattern pattern_of(const char* text) {
  for (int i = 0; i < kPatterns; ++i) {
    if (strcmp(text, kNames[i]) == 0) return (enum pattern)i;
  }
  fprintf(stderr, "writer: --pattern '%s' must be idle, sweep, random, hot, burst, sort or lu\n",
          text);
  exit(2);
}

static void read_options(int argc, char** argv, struct options* options) {
  static const struct option kLong[] = {{"pattern", required_argument, NULL, 'p'},
                                        {"size-mib", required_argument, NULL, 's'},
                                        {"rest-mib", required_argument, NULL, 'q'},
                                        {"rate-mib", required_argument, NULL, 'r'},
                                        {"burst-ms", required_argument, NULL, 'b'},
                                        {"busy-percent", required_argument, NULL, 'w'},
                                        {"period-ms", required_argument, NULL, 'm'},
                                        {"seconds", required_argument, NULL, 't'},
                                        {"until", required_argument, NULL, 'u'},
                                        {"sync", required_argument, NULL, 'y'},
                                        {"compressible", no_argument, NULL, 'c'},
                                        {"corrupt-at", required_argument, NULL, 'e'},
                                        {"seed", required_argument, NULL, 'x'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *options = (struct options){.pattern = kSweep,
                              .pages = 32 * kPagesPerMib,
                              .rate_pages_per_s = 8 * kPagesPerMib,
                              .period_ms = 50,
                              .burst_ms = 4000,
                              .busy_percent = 100,
                              .seconds = 60,
                              .seed = 1};
  int index = 0;
  for (int option; (option = getopt_long(argc, argv, "h", kLong, &index)) != -1;) {
    const char* name = kLong[index].name;
    switch (option) {
      case 'p':
        options->pattern = pattern_of(optarg);
        break;
      case 's':
        options->pages = example_number("writer", name, optarg, 1, 1 << 20) * kPagesPerMib;
        break;
      case 'q':
        options->rest_pages = example_number("writer", name, optarg, 0, 1 << 20) * kPagesPerMib;
        break;
      case 'r':
        options->rate_pages_per_s =
            example_number("writer", name, optarg, 0, 1 << 20) * kPagesPerMib;
        break;
      case 'b':
        options->burst_ms = example_number("writer", name, optarg, 1, 3600000);
        break;
      case 'w':
        options->busy_percent = example_number("writer", name, optarg, 1, 100);
        break;
      case 'm':
        options->period_ms = example_number("writer", name, optarg, 1, 60000);
        break;
      case 't':
        options->seconds = example_number("writer", name, optarg, 1, 1000000);
        break;
      case 'x':
        options->seed = example_number("writer", name, optarg, 0, UINT64_MAX);
        break;
      case 'e':
        options->corrupt_at = example_number("writer", name, optarg, 1, 1000000000);
        break;
      case 'u':
        options->until = optarg;
        break;
      case 'y':
        options->sync = optarg;
        break;
      case 'c':
        options->compressible = true;
        break;
      case 'h':
        fputs(kHelp, stdout);
        exit(0);
      default:
        exit(2);
    }
  }
  if (optind < argc) {
    fputs("writer: unexpected argument; see --help\n", stderr);
    exit(2);
  }
}

static uint64_t stamp_of(const struct run* run, uint64_t page, uint64_t count) {
  const uint64_t owner = example_mix(run->options.seed ^ example_mix((uint64_t)run->rank + 1));
  return example_mix(example_mix(owner + count) + page) | 1;
}

static void note_wrong(struct run* run, const char* what, uint64_t at) {
  if (run->wrong++ >= kWrongShown) return;
  fprintf(stderr, "writer: rank %d: %s %" PRIu64 " is wrong\n", run->rank, what, at);
}

static bool page_is(const struct run* run, uint64_t page, uint64_t stamp) {
  const uint64_t* words = run->memory + page * kPageWords;
  uint64_t difference = 0;
  for (int word = 0; word < kPageWords; ++word) {
    if (!run->options.compressible) stamp = example_xorshift(stamp);
    difference |= words[word] ^ stamp;
  }
  return difference == 0;
}

static void fill_page(struct run* run, uint64_t page, uint64_t stamp) {
  uint64_t* words = run->memory + page * kPageWords;
  for (int word = 0; word < kPageWords; ++word) {
    if (!run->options.compressible) stamp = example_xorshift(stamp);
    words[word] = stamp;
  }
}

static void write_page(struct run* run, uint64_t page) {
  const uint64_t count = run->written[page]++;
  if (!page_is(run, page, stamp_of(run, page, count))) note_wrong(run, "page", page);
  fill_page(run, page, stamp_of(run, page, count + 1));
  ++run->total;
}

static uint64_t chance(struct run* run) {
  return run->chance = example_xorshift(run->chance);
}

static uint64_t next_page(struct run* run) {
  const uint64_t pages = run->options.pages;
  const uint64_t hot = pages * kHotShare / 100 + 1;
  switch (run->options.pattern) {
    case kRandom:
      return chance(run) % pages;
    case kHot:
      return chance(run) % 100 < kHotWrites ? chance(run) % hot : chance(run) % pages;
    default:
      return run->next++ % pages;
  }
}

// Of one byte of each key, from one half of the memory to the other: least significant first.
static void sort_pass(const uint64_t* from, uint64_t* to, uint64_t keys, int shift) {
  uint64_t place[257] = {0};
  for (uint64_t i = 0; i < keys; ++i) ++place[((from[i] >> shift) & 255) + 1];
  for (int i = 0; i < 256; ++i) place[i + 1] += place[i];
  for (uint64_t i = 0; i < keys; ++i) to[place[(from[i] >> shift) & 255]++] = from[i];
}

// Two bytes of the keys are sorted in an iteration; the keys are made anew when they are in order.
static void sort_some(struct run* run) {
  enum { kKeyBits = 48, kStepBits = 16 };
  const uint64_t keys = run->options.pages * kPageWords / 2;
  uint64_t* first = run->memory;
  uint64_t* second = run->memory + keys;
  const int shift = (int)(run->next++ % (kKeyBits / kStepBits)) * kStepBits;
  if (shift == 0) {
    run->keys_sum = 0;
    for (uint64_t i = 0; i < keys; ++i) run->keys_sum += first[i] = chance(run) >> (64 - kKeyBits);
  }
  sort_pass(first, second, keys, shift);
  sort_pass(second, first, keys, shift + 8);
  run->total += 2 * keys / kPageWords;
  if (shift + kStepBits < kKeyBits) return;
  uint64_t sum = first[0];
  for (uint64_t i = 1; i < keys; ++i) {
    if (first[i - 1] > first[i]) return note_wrong(run, "order of key", i);
    sum += first[i];
  }
  if (sum != run->keys_sum) note_wrong(run, "sum of keys", sum);
}

static void factor_some(struct run* run, double flops) {
  for (uint64_t wrong = lu_work(&run->lu, flops); wrong > 0; --wrong) {
    note_wrong(run, "factorisation after bytes", run->lu.written);
  }
  run->total = run->lu.written / kPageBytes;
}

// What has begun is factored to its end, and so checked.
static void factor_rest(struct run* run) {
  run->lu.owed = 0;
  while (!lu_is_done(&run->lu)) factor_some(run, 1);
}

static bool set_up_lu(struct run* run) {
  const double piece = 1e5;
  const uint64_t seed = stamp_of(run, 0, 0);
  if (!lu_init(&run->lu, run->memory, run->options.pages * kPageBytes, seed)) return false;
  const uint64_t begun = example_now_us();
  double flops = 0;
  uint64_t now = begun;
  for (; now < begun + 1000000; now = example_now_us(), flops += piece) factor_some(run, piece);
  const double busy_us = (double)(run->options.period_ms * run->options.busy_percent * 10);
  run->lu_flops = flops * busy_us / (double)(now - begun);
  return true;
}

static bool rests(const struct run* run, uint64_t elapsed_us) {
  if (run->options.pattern == kIdle) return true;
  return run->options.pattern == kBurst && elapsed_us / (run->options.burst_ms * 1000) % 2 == 1;
}

// Writes for one period. The rate is kept over the iteration, not made good after a pause: a
// program that was stopped does not write faster afterwards.
static void write_some(struct run* run, uint64_t elapsed_us) {
  const struct options* options = &run->options;
  if (rests(run, elapsed_us)) return;
  if (options->pattern == kSort) return sort_some(run);
  if (options->pattern == kLu) return factor_some(run, run->lu_flops);
  const uint64_t end = example_now_us() + options->period_ms * 1000;
  if (options->rate_pages_per_s == 0) {
    while (example_now_us() < end) write_page(run, next_page(run));
    return;
  }
  const uint64_t pages = options->rate_pages_per_s * options->period_ms / 1000;
  for (uint64_t i = 0; i < pages; ++i) write_page(run, next_page(run));
}

static uint64_t all_pages(const struct run* run) {
  return run->options.pages + run->options.rest_pages;
}

static bool set_up(struct run* run) {
  const uint64_t pages = all_pages(run);
  run->memory = aligned_alloc(kPageBytes, pages * kPageBytes);
  run->written = calloc(pages, sizeof *run->written);
  if (!run->memory || !run->written) {
    fprintf(stderr, "writer: rank %d: no memory for %" PRIu64 " MiB: choose a smaller --size-mib\n",
            run->rank, pages / kPagesPerMib);
    return false;
  }
  for (uint64_t at = 0; at < pages; ++at) fill_page(run, at, stamp_of(run, at, 0));
  run->chance = stamp_of(run, 0, 0);
  return run->options.pattern != kLu || set_up_lu(run);
}

// Of what is read again: of an LU factorisation the right hand side.
static void flip_a_bit(struct run* run) {
  if (run->options.pattern == kLu) {
    run->lu.matrix[run->lu.n * run->lu.n] += 1;
  } else {
    run->memory[run->options.pages * kPageWords / 3] ^= 1;
  }
}

// The ranks meet; rank 0 says whether this was the last iteration.
static bool meet(struct run* run, uint64_t begun) {
  int last = 0;
  if (run->rank == 0) {
    const struct options* options = &run->options;
    last = example_now_us() - begun > options->seconds * 1000000u ||
           (options->until && access(options->until, F_OK) == 0);
  }
  for (int rank = 1; rank < run->ranks && run->rank == 0; ++rank) {
    int met = 0;
    example_receive(&met, 1, MPI_INT, rank, 1);
  }
  for (int rank = 1; rank < run->ranks && run->rank == 0; ++rank)
    example_send(&last, 1, MPI_INT, rank, 2);
  if (run->rank > 0) {
    example_send(&run->rank, 1, MPI_INT, 0, 1);
    example_receive(&last, 1, MPI_INT, 0, 2);
  }
  return last != 0;
}

// Waits for the next tick of a clock that goes on from `tick`, or from now if that is over: what
// waking takes does not add up, and what was lost is not made good.
static uint64_t wait_for_tick(uint64_t tick, uint64_t period_us) {
  const uint64_t now = example_now_us();
  if (now >= tick + period_us) return now;
  example_pause_us(tick + period_us - now);
  return tick + period_us;
}

static void iterate(struct run* run) {
  const uint64_t period = run->options.period_ms * 1000;
  const bool waits = run->options.pattern != kLu || run->options.busy_percent < 100;
  const uint64_t begun = example_now_us();
  uint64_t tick = begun;
  for (uint64_t iteration = 1;; ++iteration) {
    const uint64_t start = example_now_us();
    write_some(run, start - begun);
    if (iteration == run->options.corrupt_at && run->rank == run->ranks - 1) {
      flip_a_bit(run);
    }
    const bool last = meet(run, begun);
    const uint64_t duration = example_now_us() - start;
    if (run->rank == 0) {
      printf("writer: iteration=%" PRIu64 " start_us=%" PRIu64 " duration_us=%" PRIu64
             " pages=%" PRIu64 "\n",
             iteration, start, duration, run->total);
      fflush(stdout);
    }
    if (last) return;
    if (waits) tick = wait_for_tick(tick, period);
  }
}

static int finish(struct run* run) {
  // What was sorted or factored is checked as that ends.
  const bool is_data = run->options.pattern == kSort || run->options.pattern == kLu;
  const uint64_t first = is_data ? run->options.pages : 0;
  if (run->options.pattern == kLu) factor_rest(run);
  for (uint64_t at = first; at < all_pages(run); ++at) {
    if (!page_is(run, at, stamp_of(run, at, run->written[at]))) note_wrong(run, "page", at);
  }
  uint64_t wrong = 0;
  uint64_t total = 0;
  MPI_Allreduce(&run->wrong, &wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&run->total, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (run->rank == 0) {
    printf("writer: ranks=%d pattern=%s pages=%" PRIu64 " verified=%s\n", run->ranks,
           kNames[run->options.pattern], total, wrong ? "no" : "yes");
    fflush(stdout);
  }
  return wrong > 0;
}

// By a process of its own: storage that does not answer, as during a move, is not to stop the work.
static void keep_in_sync(const char* path) {
  const pid_t work = getpid();
  const pid_t child = fork();
  if (child < 0) {
    perror("writer: --sync");
    exit(2);
  }
  if (child > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (getppid() == work) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
      fdatasync(file);
      close(file);
    }
    example_pause_us(100000);
  }
  _exit(0);
}

int main(int argc, char** argv) {
  struct run run = {0};
  read_options(argc, argv, &run.options);
  if (run.options.sync) keep_in_sync(run.options.sync);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);
  const int ready = set_up(&run);
  int all_ready = 0;
  int code = 2;
  MPI_Allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all_ready) {
    iterate(&run);
    code = finish(&run);
  }
  MPI_Finalize();
  lu_free(&run.lu);
  free(run.memory);
  free(run.written);
  return code;
}
