// migtest: does a program notice that its VM moves? After MigTest of Neves (2009): every rank holds
// some memory and rewrites a part of it each iteration (the writable working set), then a token
// goes round the ranks. Every value is a function of seed, rank, iteration and place, and is
// checked before it is overwritten: a page that a migration lost, or brought in an old version, is
// found.
#include <getopt.h>
#include <unistd.h>

#include "../example.h"

enum { kPageWords = 512, kPageBytes = 4096, kPagesPerMib = 256, kTokenTag = 1, kWrongShown = 5 };

struct options {
  uint64_t size_pages;
  uint64_t wws_pages;
  uint64_t iterations;
  uint64_t interval_ms;
  uint64_t seed;
  uint64_t work;
  uint64_t corrupt_at;  // 0: never
  const char* log;
  bool incompressible;
  bool barrier;
  bool expect;
  int ranks;
};

static const char kHelp[] =
    "Usage: mpirun ... migtest [options]\n"
    "Rewrites memory, passes a token round the ranks, checks everything. Exit 0 if all was right, "
    "else 1.\n\n"
    "  --size-mib S       memory of each rank (32)\n"
    "  --wws-mib W        of it rewritten in each iteration (8)\n"
    "  --iterations N     (20)\n"
    "  --interval-ms M    begin an iteration at most every M ms (0)\n"
    "  --work K           and compute K million steps of a generator in each (0)\n"
    "  --barrier          end each iteration with a barrier, a collective of MPI\n"
    "  --incompressible   fill pages with random words, not with one repeated word\n"
    "  --seed X           of all content (1)\n"
    "  --log FILE         each rank writes its iterations to FILE.RANK: index, start and duration "
    "in us\n"
    "  --corrupt-at N     flip a bit in iteration N, to see that it is found\n"
    "  --expect           only print the checksum of a right run, without MPI; with\n"
    "  --ranks R          so many ranks\n\n"
    "Example: mpirun -np 3 migtest --size-mib 64 --wws-mib 16 --iterations 100 --log times\n";

static void read_options(int argc, char** argv, struct options* options) {
  static const struct option kLong[] = {{"size-mib", required_argument, NULL, 's'},
                                        {"wws-mib", required_argument, NULL, 'w'},
                                        {"iterations", required_argument, NULL, 'n'},
                                        {"interval-ms", required_argument, NULL, 'm'},
                                        {"work", required_argument, NULL, 'k'},
                                        {"incompressible", no_argument, NULL, 'i'},
                                        {"barrier", no_argument, NULL, 'b'},
                                        {"seed", required_argument, NULL, 'x'},
                                        {"log", required_argument, NULL, 'l'},
                                        {"corrupt-at", required_argument, NULL, 'c'},
                                        {"expect", no_argument, NULL, 'e'},
                                        {"ranks", required_argument, NULL, 'r'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *options = (struct options){.iterations = 20, .seed = 1, .ranks = 1};
  uint64_t size_mib = 32;
  uint64_t wws_mib = 8;
  int index = 0;
  for (int option; (option = getopt_long(argc, argv, "h", kLong, &index)) != -1;) {
    const char* name = kLong[index].name;
    switch (option) {
      case 's':
        size_mib = example_number("migtest", name, optarg, 1, 1 << 20);
        break;
      case 'w':
        wws_mib = example_number("migtest", name, optarg, 0, 1 << 20);
        break;
      case 'n':
        options->iterations = example_number("migtest", name, optarg, 1, 1000000000);
        break;
      case 'm':
        options->interval_ms = example_number("migtest", name, optarg, 0, 3600000);
        break;
      case 'k':
        options->work = example_number("migtest", name, optarg, 0, 1000000);
        break;
      case 'x':
        options->seed = example_number("migtest", name, optarg, 0, UINT64_MAX);
        break;
      case 'c':
        options->corrupt_at = example_number("migtest", name, optarg, 1, 1000000000);
        break;
      case 'r':
        options->ranks = (int)example_number("migtest", name, optarg, 1, 1000000);
        break;
      case 'l':
        options->log = optarg;
        break;
      case 'i':
        options->incompressible = true;
        break;
      case 'b':
        options->barrier = true;
        break;
      case 'e':
        options->expect = true;
        break;
      case 'h':
        fputs(kHelp, stdout);
        exit(0);
      default:
        exit(2);
    }
  }
  if (optind < argc || wws_mib > size_mib) {
    fputs(optind < argc ? "migtest: unexpected argument; see --help\n"
                        : "migtest: --wws-mib must not be more than --size-mib\n",
          stderr);
    exit(2);
  }
  options->size_pages = size_mib * kPagesPerMib;
  options->wws_pages = wws_mib * kPagesPerMib;
}

// What a page's words are made from. Never 0, which xorshift could not leave.
static uint64_t stamp_of(const struct options* options, int rank, uint64_t iteration,
                         uint64_t page) {
  const uint64_t owner = example_mix(options->seed ^ example_mix((uint64_t)rank + 1));
  return example_mix(example_mix(owner + iteration) + page) | 1;
}

static void fill_page(uint64_t* page, uint64_t stamp, bool incompressible) {
  for (int word = 0; word < kPageWords; ++word) {
    if (incompressible) stamp = example_xorshift(stamp);
    page[word] = stamp;
  }
}

// Checks a page against one stamp while filling it from the next. 0 if it was right.
static uint64_t exchange_page(uint64_t* page, uint64_t old, uint64_t next, bool incompressible) {
  uint64_t difference = 0;
  if (incompressible) {
    for (int word = 0; word < kPageWords; ++word) {
      old = example_xorshift(old);
      next = example_xorshift(next);
      difference |= page[word] ^ old;
      page[word] = next;
    }
  } else {
    for (int word = 0; word < kPageWords; ++word) {
      difference |= page[word] ^ old;
      page[word] = next;
    }
  }
  return difference;
}

static uint64_t hash_page(uint64_t hash, const uint64_t* page) {
  for (int word = 0; word < kPageWords; ++word) {
    hash = (hash ^ page[word]) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return hash;
}

static uint64_t work_step(const struct options* options, uint64_t state) {
  for (uint64_t step = 0; step < options->work * 1000000u; ++step) state = example_xorshift(state);
  return state;
}

static uint64_t token_step(uint64_t token, int rank, uint64_t iteration) {
  return example_mix(token ^ example_mix(iteration * 1000003u + (uint64_t)rank));
}

// The parts of the checksum that are not memory.
static uint64_t combine(int rank, uint64_t memory, uint64_t work) {
  return example_mix(memory ^ example_mix(work + (uint64_t)rank));
}

static uint64_t expected_checksum(const struct options* options) {
  uint64_t sum = 0;
  uint64_t token = options->seed;
  uint64_t page[kPageWords];
  for (uint64_t iteration = 1; iteration <= options->iterations; ++iteration) {
    for (int rank = 0; rank < options->ranks; ++rank) token = token_step(token, rank, iteration);
  }
  for (int rank = 0; rank < options->ranks; ++rank) {
    uint64_t hash = 0;
    for (uint64_t at = 0; at < options->size_pages; ++at) {
      const uint64_t iteration = at < options->wws_pages ? options->iterations : 0;
      fill_page(page, stamp_of(options, rank, iteration, at), options->incompressible);
      hash = hash_page(hash, page);
    }
    uint64_t work = stamp_of(options, rank, 0, 0);
    for (uint64_t i = 0; i < options->iterations; ++i) work = work_step(options, work);
    sum += combine(rank, hash, work);
  }
  return sum + token;
}

struct run {
  struct options options;
  int rank;
  int ranks;
  uint64_t* memory;
  FILE* log;
  bool log_failed;
  uint64_t token;
  uint64_t work;
  uint64_t longest_us;
  uint64_t wrong;  // pages and tokens that were not what they must be
};

// Tells, and goes on: that the other ranks end in good order is worth more than an early end.
// (mpirun of Open MPI 4.1 at times crashes itself after an MPI_Abort, and its exit status is lost.)
static void note_wrong(struct run* run, uint64_t iteration, const char* what, uint64_t at) {
  if (run->wrong++ >= kWrongShown) return;
  fprintf(stderr, "migtest: rank %d: iteration %" PRIu64 ": %s %" PRIu64 " is wrong\n", run->rank,
          iteration, what, at);
}

// False: this rank cannot take part.
static bool set_up(struct run* run) {
  const struct options* options = &run->options;
  run->memory = aligned_alloc(kPageBytes, options->size_pages * kPageBytes);
  if (!run->memory) {
    fprintf(stderr,
            "migtest: rank %d: no memory for %" PRIu64 " MiB: choose a smaller --size-mib\n",
            run->rank, options->size_pages / kPagesPerMib);
    return false;
  }
  for (uint64_t at = 0; at < options->size_pages; ++at) {
    fill_page(run->memory + at * kPageWords, stamp_of(options, run->rank, 0, at),
              options->incompressible);
  }
  run->token = options->seed;
  run->work = stamp_of(options, run->rank, 0, 0);
  if (!options->log) return true;
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", options->log, run->rank);
  run->log = fopen(path, "w");
  if (!run->log) {
    fprintf(stderr, "migtest: rank %d: cannot write %s: %s\n", run->rank, path, strerror(errno));
    return false;
  }
  char host[65] = "unknown";
  gethostname(host, sizeof host - 1);
  fprintf(run->log, "# rank %d of %d on %s: iteration start_us duration_us (CLOCK_MONOTONIC)\n",
          run->rank, run->ranks, host);
  fflush(run->log);
  return true;
}

static void rewrite_working_set(struct run* run, uint64_t iteration) {
  const struct options* options = &run->options;
  for (uint64_t at = 0; at < options->wws_pages; ++at) {
    const uint64_t old = stamp_of(options, run->rank, iteration - 1, at);
    const uint64_t next = stamp_of(options, run->rank, iteration, at);
    if (exchange_page(run->memory + at * kPageWords, old, next, options->incompressible) != 0) {
      note_wrong(run, iteration, "content of page", at);
    }
  }
  if (iteration == options->corrupt_at && run->rank == run->ranks - 1) {
    const uint64_t pages = options->wws_pages > 0 ? options->wws_pages : options->size_pages;
    run->memory[pages * kPageWords / 3] ^= 1;
  }
}

static void pass_token(struct run* run, uint64_t iteration) {
  const int next = (run->rank + 1) % run->ranks;
  const int previous = (run->rank + run->ranks - 1) % run->ranks;
  uint64_t token = run->token;
  if (run->rank > 0) example_receive(&token, 1, MPI_UINT64_T, previous, kTokenTag);
  token = token_step(token, run->rank, iteration);
  if (run->ranks > 1) example_send(&token, 1, MPI_UINT64_T, next, kTokenTag);
  if (run->rank == 0 && run->ranks > 1) {
    example_receive(&token, 1, MPI_UINT64_T, previous, kTokenTag);
  }
  // Rank 0 knows what it must have become on its way.
  uint64_t right = run->token;
  for (int rank = 0; rank < run->ranks; ++rank) right = token_step(right, rank, iteration);
  if (run->rank == 0 && token != right) note_wrong(run, iteration, "token", token);
  run->token = right;
}

static void iterate(struct run* run, uint64_t iteration) {
  const uint64_t start = example_now_us();
  rewrite_working_set(run, iteration);
  run->work = work_step(&run->options, run->work);
  pass_token(run, iteration);
  if (run->options.barrier) MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t duration = example_now_us() - start;
  if (duration > run->longest_us) run->longest_us = duration;
  if (run->log) {
    fprintf(run->log, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", iteration, start, duration);
    if (fflush(run->log) != 0) run->log_failed = true;
  }
  if (run->rank != 0) return;  // The others wait for the token anyway.
  printf("migtest: iteration=%" PRIu64 " start_us=%" PRIu64 " duration_us=%" PRIu64 "\n", iteration,
         start, duration);
  fflush(stdout);
  const uint64_t period = run->options.interval_ms * 1000;
  if (duration < period) example_pause_us(period - duration);
}

static uint64_t verify_all(struct run* run) {
  const struct options* options = &run->options;
  uint64_t hash = 0;
  uint64_t right[kPageWords];
  for (uint64_t at = 0; at < options->size_pages; ++at) {
    const uint64_t iteration = at < options->wws_pages ? options->iterations : 0;
    const uint64_t* page = run->memory + at * kPageWords;
    fill_page(right, stamp_of(options, run->rank, iteration, at), options->incompressible);
    if (memcmp(page, right, sizeof right) != 0)
      note_wrong(run, options->iterations, "content of page", at);
    hash = hash_page(hash, page);
  }
  return hash;
}

// A full disk shows up when closing at the latest: a log with holes must not pass for a complete
// one.
static void close_log(struct run* run) {
  if (!run->log || (fclose(run->log) == 0 && !run->log_failed)) return;
  fprintf(stderr, "migtest: rank %d: the log is incomplete: is the disk full?\n", run->rank);
  ++run->wrong;
}

static int finish(struct run* run) {
  const uint64_t own = combine(run->rank, verify_all(run), run->work);
  close_log(run);
  uint64_t sum = 0;
  uint64_t longest = 0;
  uint64_t wrong = 0;
  MPI_Reduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&run->longest_us, &longest, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Allreduce(&run->wrong, &wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (run->rank == 0) {
    printf("migtest: ranks=%d iterations=%" PRIu64 " checksum=%016" PRIx64
           " verified=%s max_iteration_us=%" PRIu64 "\n",
           run->ranks, run->options.iterations, sum + run->token, wrong ? "no" : "yes", longest);
    fflush(stdout);
  }
  return wrong > 0;
}

int main(int argc, char** argv) {
  struct run run = {0};
  read_options(argc, argv, &run.options);
  if (run.options.expect) {
    printf("migtest: ranks=%d iterations=%" PRIu64 " checksum=%016" PRIx64 "\n", run.options.ranks,
           run.options.iterations, expected_checksum(&run.options));
    return 0;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);
  const int ready = set_up(&run);
  int all_ready = 0;
  int code = 2;
  MPI_Allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all_ready) {
    for (uint64_t i = 1; i <= run.options.iterations; ++i) iterate(&run, i);
    code = finish(&run);
  }
  MPI_Finalize();
  free(run.memory);
  return code;
}
