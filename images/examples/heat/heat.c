// heat: how warmth spreads over a plate. Explicit finite differences on an nx x ny grid, blocks of
// rows, the neighbours' edge rows exchanged in every step. Fixed-point integers by default. Every
// step computes a point from the last step's values alone, so the result does not depend on the
// number of ranks, to the bit.
#include <getopt.h>

#include "../example.h"

enum { kDownTag = 1, kUpTag = 2, kFractionBits = 20 };

// A temperature: 20 fraction bits, or a double.
typedef union {
  int64_t fixed;
  double real;
} cell;

struct options {
  int nx;
  int ny;
  uint64_t steps;
  uint64_t report_every;
  uint64_t corrupt_at;  // 0: never
  bool doubles;
  bool expect;
};

enum { kPage = 4096, kTlbSets = 64 };  // sets: a multiple of them in TLBs that have more

// A block of whole rows, with one row more above and below for the neighbours' edges.
struct block {
  const struct options* options;
  int rank;
  int ranks;
  int first_row;
  int rows;
  cell* now;
  cell* next;
  void* memory;  // of both
};

static const char kHelp[] =
    "Usage: mpirun ... heat [options]\n"
    "Warmth on a plate with a hot and a cold edge, by finite differences. Prints a checksum that "
    "does not\n"
    "depend on the number of ranks.\n\n"
    "  --nx N             points in a row (256)\n"
    "  --ny N             rows (256)\n"
    "  --steps N          (1000)\n"
    "  --report-every N   a line on standard output every N steps (100)\n"
    "  --double           floating point instead of fixed-point integers\n"
    "  --corrupt-at N     change one point after step N, to see that the checksum tells\n"
    "  --expect           compute serially, without MPI, and print the checksum of a right run\n\n"
    "Example: mpirun -np 3 heat --nx 512 --ny 512 --steps 2000\n";

static void read_options(int argc, char** argv, struct options* options) {
  static const struct option kLong[] = {{"nx", required_argument, NULL, 'x'},
                                        {"ny", required_argument, NULL, 'y'},
                                        {"steps", required_argument, NULL, 's'},
                                        {"report-every", required_argument, NULL, 'r'},
                                        {"corrupt-at", required_argument, NULL, 'c'},
                                        {"double", no_argument, NULL, 'd'},
                                        {"expect", no_argument, NULL, 'e'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *options = (struct options){.nx = 256, .ny = 256, .steps = 1000, .report_every = 100};
  int index = 0;
  for (int option; (option = getopt_long(argc, argv, "h", kLong, &index)) != -1;) {
    const char* name = kLong[index].name;
    switch (option) {
      case 'x':
        options->nx = (int)example_number("heat", name, optarg, 3, 1 << 20);
        break;
      case 'y':
        options->ny = (int)example_number("heat", name, optarg, 1, 1 << 20);
        break;
      case 's':
        options->steps = example_number("heat", name, optarg, 1, 1000000000);
        break;
      case 'r':
        options->report_every = example_number("heat", name, optarg, 1, 1000000000);
        break;
      case 'c':
        options->corrupt_at = example_number("heat", name, optarg, 1, 1000000000);
        break;
      case 'd':
        options->doubles = true;
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
  if (optind < argc) {
    fprintf(stderr, "heat: unexpected argument '%s'; see --help\n", argv[optind]);
    exit(2);
  }
}

static cell degrees(const struct options* options, int value) {
  cell result = {0};
  if (options->doubles) {
    result.real = value;
  } else {
    result.fixed = value * (INT64_C(1) << kFractionBits);
  }
  return result;
}

// Row -1 is the hot edge, row ny the cold one; inside, two warm spots. The outer columns never
// change.
static cell start_value(const struct options* options, int row, int column) {
  if (row < 0) return degrees(options, 1000);
  if (row >= options->ny) return degrees(options, -200);
  const bool first_spot = row == options->ny / 3 && column == options->nx / 4;
  const bool second_spot = row == options->ny / 2 && column == options->nx / 2;
  return degrees(options, first_spot || second_spot ? 5000 : 20);
}

static size_t offset(const struct block* block, int row, int column) {
  return (size_t)(row + 1) * (size_t)block->options->nx + (size_t)column;
}

// From the one plate to the other. A row is read in the one and written in the other at once: half
// of a TLB apart, these pages never push each other out. An emulator has but one place for a page:
// where malloc's ones fell together a rank took twice as long, and all ranks waited for it.
static size_t pages_apart(size_t plate) {
  size_t pages = (plate + kPage - 1) / kPage;
  while (pages % kTlbSets != kTlbSets / 2) ++pages;
  return pages;
}

// False: out of memory.
static bool set_up(struct block* block, const struct options* options, int rank, int ranks) {
  *block = (struct block){.options = options, .rank = rank, .ranks = ranks};
  block->first_row = (int)((int64_t)options->ny * rank / ranks);
  block->rows = (int)((int64_t)options->ny * (rank + 1) / ranks) - block->first_row;
  const size_t cells = (size_t)(block->rows + 2) * (size_t)options->nx;
  const size_t apart = pages_apart(cells * sizeof(cell)) * kPage;
  block->memory = aligned_alloc(kPage, 2 * apart);
  if (!block->memory) {
    fprintf(stderr,
            "heat: rank %d: no memory for %zu points: choose a smaller plate or more ranks\n", rank,
            cells);
    return false;
  }
  block->now = block->memory;
  block->next = (cell*)((char*)block->memory + apart);
  for (int row = -1; row <= block->rows; ++row) {
    for (int column = 0; column < options->nx; ++column) {
      const cell value = start_value(options, block->first_row + row, column);
      block->now[offset(block, row, column)] = value;
      block->next[offset(block, row, column)] = value;
    }
  }
  return true;
}

// Edge rows to the neighbours, theirs into the extra rows.
static void exchange_edges(struct block* block) {
  const int nx = block->options->nx;
  const int above = block->rank > 0 ? block->rank - 1 : MPI_PROC_NULL;
  const int below = block->rank + 1 < block->ranks ? block->rank + 1 : MPI_PROC_NULL;
  MPI_Request requests[4];
  MPI_Irecv(block->now + offset(block, -1, 0), nx, MPI_UINT64_T, above, kDownTag, MPI_COMM_WORLD,
            &requests[0]);
  MPI_Irecv(block->now + offset(block, block->rows, 0), nx, MPI_UINT64_T, below, kUpTag,
            MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(block->now + offset(block, 0, 0), nx, MPI_UINT64_T, above, kUpTag, MPI_COMM_WORLD,
            &requests[2]);
  MPI_Isend(block->now + offset(block, block->rows - 1, 0), nx, MPI_UINT64_T, below, kDownTag,
            MPI_COMM_WORLD, &requests[3]);
  for (int i = 0; i < 4; ++i) example_poll(&requests[i]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);  // All are done: see example.h.
}

// T' = T + (north + south + east + west - 4T) / 8: stable, as 1/8 is not more than 1/4.
static void step(struct block* block) {
  const int nx = block->options->nx;
  for (int row = 0; row < block->rows; ++row) {
    const cell* here = block->now + offset(block, row, 0);
    const cell* north = here - nx;
    const cell* south = here + nx;
    cell* to = block->next + offset(block, row, 0);
    if (block->options->doubles) {
      for (int x = 1; x < nx - 1; ++x) {
        const double sum = north[x].real + south[x].real + here[x - 1].real + here[x + 1].real;
        to[x].real = here[x].real + (sum - 4 * here[x].real) * 0.125;
      }
    } else {
      for (int x = 1; x < nx - 1; ++x) {
        const int64_t sum = north[x].fixed + south[x].fixed + here[x - 1].fixed + here[x + 1].fixed;
        // Division rounds towards zero, the same everywhere; a shift of negative numbers need not.
        to[x].fixed = here[x].fixed + (sum - 4 * here[x].fixed) / 8;
      }
    }
  }
  cell* last = block->now;
  block->now = block->next;
  block->next = last;
}

// A sum over points of (value, place), so that it can be added up over blocks in any order.
static uint64_t checksum_of(const struct block* block) {
  uint64_t sum = 0;
  for (int row = 0; row < block->rows; ++row) {
    for (int column = 0; column < block->options->nx; ++column) {
      uint64_t bits = 0;
      memcpy(&bits, &block->now[offset(block, row, column)], sizeof bits);
      const uint64_t place =
          (uint64_t)(block->first_row + row) * (uint64_t)block->options->nx + (uint64_t)column;
      sum += example_mix(bits ^ example_mix(place));
    }
  }
  return sum;
}

static void corrupt(struct block* block) {
  const size_t middle = offset(block, block->rows / 2, block->options->nx / 2);
  block->now[middle].fixed ^= INT64_C(1) << (kFractionBits + 5);
}

static void run(struct block* block) {
  for (uint64_t done = 1; done <= block->options->steps; ++done) {
    const uint64_t start = example_now_us();
    if (block->ranks > 1) exchange_edges(block);
    step(block);
    if (done == block->options->corrupt_at && block->rank == block->ranks - 1) corrupt(block);
    if (block->rank != 0 || block->options->expect || done % block->options->report_every != 0)
      continue;
    printf("heat: step=%" PRIu64 " duration_us=%" PRIu64 "\n", done, example_now_us() - start);
    fflush(stdout);
  }
}

static int run_serially(const struct options* options) {
  struct block block;
  if (!set_up(&block, options, 0, 1)) return 2;
  run(&block);
  printf("heat: nx=%d ny=%d steps=%" PRIu64 " checksum=%016" PRIx64 "\n", options->nx, options->ny,
         options->steps, checksum_of(&block));
  free(block.memory);
  return 0;
}

static int run_in_parallel(const struct options* options) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > options->ny) {
    if (rank == 0)
      fprintf(stderr, "heat: %d ranks for %d rows: use fewer ranks or a larger --ny\n", ranks,
              options->ny);
    return 2;
  }
  struct block block;
  if (!set_up(&block, options, rank, ranks)) {
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  const uint64_t start = example_now_us();
  run(&block);
  const uint64_t own = checksum_of(&block);
  uint64_t sum = 0;
  MPI_Reduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("heat: ranks=%d nx=%d ny=%d steps=%" PRIu64 " checksum=%016" PRIx64
           " elapsed_us=%" PRIu64 "\n",
           ranks, options->nx, options->ny, options->steps, sum, example_now_us() - start);
    fflush(stdout);
  }
  free(block.memory);
  return 0;
}

int main(int argc, char** argv) {
  struct options options;
  read_options(argc, argv, &options);
  if (options.expect) return run_serially(&options);
  MPI_Init(&argc, &argv);
  const int code = run_in_parallel(&options);
  MPI_Finalize();
  return code;
}
