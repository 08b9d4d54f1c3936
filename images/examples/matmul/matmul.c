// matmul: master and slaves multiply matrices, many times over: B is broadcast, the slaves get rows
// of A and return rows of C (the experiment of Martins and Goncalves, 2005). Integers modulo 2^64
// by default: an emulated CPU is fast at them, and the result is exact. Every product is checked by
// Freivalds' method.
#include <getopt.h>

#include "../example.h"

enum { kRowsTag = 1, kResultTag = 2, kFreivaldsVectors = 8 };

// Doubles hold small whole numbers only, so that they are as exact as the integers.
typedef union {
  uint64_t u;
  double d;
} cell;

struct options {
  int n;
  uint64_t products;
  uint64_t seed;
  uint64_t corrupt_at;  // 0: never
  bool doubles;
  bool expect;
};

static const char kHelp[] =
    "Usage: mpirun ... matmul [options]\n"
    "Multiplies N x N matrices; rank 0 is the master, the others compute (it does if it is "
    "alone).\n"
    "Exit 0 if every product was right, else 1.\n\n"
    "  --n N           size of the matrices (500)\n"
    "  --products K    how many products (200)\n"
    "  --double        floating point instead of integers\n"
    "  --seed X        of the content (1)\n"
    "  --corrupt-at K  change one number of product K, to see that it is found\n"
    "  --expect        only print the checksum of a right run, computed serially\n\n"
    "Example: mpirun -np 4 matmul --n 200 --products 50\n";

static void read_options(int argc, char** argv, struct options* options) {
  static const struct option kLong[] = {{"n", required_argument, NULL, 'n'},
                                        {"products", required_argument, NULL, 'p'},
                                        {"seed", required_argument, NULL, 'x'},
                                        {"double", no_argument, NULL, 'd'},
                                        {"corrupt-at", required_argument, NULL, 'c'},
                                        {"expect", no_argument, NULL, 'e'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *options = (struct options){.n = 500, .products = 200, .seed = 1};
  int index = 0;
  for (int option; (option = getopt_long(argc, argv, "h", kLong, &index)) != -1;) {
    const char* name = kLong[index].name;
    switch (option) {
      // 16000^2 cells are the most that fit in the count of an MPI message with room to spare.
      case 'n':
        options->n = (int)example_number("matmul", name, optarg, 1, 16000);
        break;
      case 'p':
        options->products = example_number("matmul", name, optarg, 1, 1000000000);
        break;
      case 'x':
        options->seed = example_number("matmul", name, optarg, 0, UINT64_MAX);
        break;
      case 'c':
        options->corrupt_at = example_number("matmul", name, optarg, 1, 1000000000);
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
    fprintf(stderr, "matmul: unexpected argument '%s'; see --help\n", argv[optind]);
    exit(2);
  }
}

static size_t area(const struct options* options) {
  return (size_t)options->n * (size_t)options->n;
}

static cell* new_cells(size_t count) {
  cell* cells = calloc(count, sizeof *cells);
  if (!cells) {
    fprintf(stderr, "matmul: no memory for %zu numbers: choose a smaller --n\n", count);
    int running = 0;
    MPI_Initialized(&running);
    if (running) MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
  }
  return cells;
}

static void fill(const struct options* options, cell* matrix, uint64_t product, uint64_t which) {
  uint64_t state = example_mix(options->seed ^ example_mix(product * 2 + which)) | 1;
  for (size_t i = 0; i < area(options); ++i) {
    state = example_xorshift(state);
    // 0 to 15: sums of 16000 products stay far below 2^53.
    if (options->doubles) {
      matrix[i].d = (double)(state >> 60);
    } else {
      matrix[i].u = state;
    }
  }
}

// rows x n of A times n x n of B. The inner loop runs along rows of B and C, which are contiguous.
static void multiply(const struct options* options, const cell* a, const cell* b, cell* c,
                     int rows) {
  const size_t n = (size_t)options->n;
  memset(c, 0, (size_t)rows * n * sizeof *c);
  for (size_t i = 0; i < (size_t)rows; ++i) {
    for (size_t k = 0; k < n; ++k) {
      const cell factor = a[i * n + k];
      const cell* from = b + k * n;
      cell* to = c + i * n;
      if (options->doubles) {
        for (size_t j = 0; j < n; ++j) to[j].d += factor.d * from[j].d;
      } else {
        for (size_t j = 0; j < n; ++j) to[j].u += factor.u * from[j].u;
      }
    }
  }
}

static uint64_t whole(const struct options* options, cell value) {
  return options->doubles ? (uint64_t)value.d : value.u;
}

static void times_vector(const struct options* options, const cell* matrix, const uint64_t* vector,
                         uint64_t* result) {
  const size_t n = (size_t)options->n;
  for (size_t i = 0; i < n; ++i) {
    uint64_t sum = 0;
    for (size_t j = 0; j < n; ++j) sum += whole(options, matrix[i * n + j]) * vector[j];
    result[i] = sum;
  }
}

// Freivalds (1977): A(Bx) = Cx for random x, n^2 work instead of n^3. One vector misses an error
// with probability 1/2 at worst (one that is 2^63 off), so there are several. Whole numbers modulo
// 2^64 in either mode: all values are whole.
static bool product_is_right(const struct options* options, const cell* a, const cell* b,
                             const cell* c, uint64_t product) {
  const size_t n = (size_t)options->n;
  uint64_t* vectors = (uint64_t*)new_cells(4 * n);
  uint64_t* x = vectors;
  uint64_t state = example_mix(product + UINT64_C(0x46726569)) | 1;
  bool right = true;
  for (int vector = 0; vector < kFreivaldsVectors && right; ++vector) {
    for (size_t i = 0; i < n; ++i) x[i] = state = example_xorshift(state);
    times_vector(options, b, x, vectors + n);
    times_vector(options, a, vectors + n, vectors + 2 * n);
    times_vector(options, c, x, vectors + 3 * n);
    right = !memcmp(vectors + 2 * n, vectors + 3 * n, n * sizeof *x);
  }
  free(vectors);
  return right;
}

static uint64_t add_to_checksum(const struct options* options, uint64_t checksum, const cell* c) {
  for (size_t i = 0; i < area(options); ++i) {
    checksum = (checksum ^ whole(options, c[i])) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return example_mix(checksum);
}

// Which rows the worker of that number, from 0, computes.
static int first_row(const struct options* options, int worker, int workers) {
  return (int)((int64_t)options->n * worker / workers);
}

static void send_rows(const struct options* options, const cell* a, int workers) {
  for (int worker = 0; worker < workers; ++worker) {
    const int begin = first_row(options, worker, workers);
    const int rows = first_row(options, worker + 1, workers) - begin;
    example_send(a + (size_t)begin * (size_t)options->n, rows * options->n, MPI_UINT64_T,
                 worker + 1, kRowsTag);
  }
}

static void receive_rows(const struct options* options, cell* c, int workers) {
  for (int worker = 0; worker < workers; ++worker) {
    const int begin = first_row(options, worker, workers);
    const int rows = first_row(options, worker + 1, workers) - begin;
    example_receive(c + (size_t)begin * (size_t)options->n, rows * options->n, MPI_UINT64_T,
                    worker + 1, kResultTag);
  }
}

static void broadcast(const struct options* options, cell* b) {
  MPI_Request request;
  MPI_Ibcast(b, options->n * options->n, MPI_UINT64_T, 0, MPI_COMM_WORLD, &request);
  example_poll(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// One product into c, with the slaves' help if there are any. Fills a and b.
static void master_product(const struct options* options, cell* a, cell* b, cell* c,
                           uint64_t product, int workers) {
  fill(options, a, product, 0);
  fill(options, b, product, 1);
  if (workers == 0) {
    multiply(options, a, b, c, options->n);
    return;
  }
  broadcast(options, b);
  send_rows(options, a, workers);
  receive_rows(options, c, workers);
}

static int master(const struct options* options, int workers, uint64_t* checksum) {
  cell* a = new_cells(area(options));
  cell* b = new_cells(area(options));
  cell* c = new_cells(area(options));
  int wrong = 0;
  for (uint64_t product = 1; product <= options->products; ++product) {
    const uint64_t start = example_now_us();
    master_product(options, a, b, c, product, workers);
    if (product == options->corrupt_at) c[area(options) / 2].u ^= UINT64_C(1) << 62;
    if (!product_is_right(options, a, b, c, product)) {
      fprintf(stderr, "matmul: product %" PRIu64 " is wrong\n", product);
      ++wrong;
    }
    *checksum = add_to_checksum(options, *checksum, c);
    if (options->expect) continue;
    printf("matmul: product=%" PRIu64 " duration_us=%" PRIu64 "\n", product,
           example_now_us() - start);
    fflush(stdout);
  }
  free(a);
  free(b);
  free(c);
  return wrong;
}

static void slave(const struct options* options, int rank, int workers) {
  const int rows = first_row(options, rank, workers) - first_row(options, rank - 1, workers);
  const size_t cells = (size_t)rows * (size_t)options->n;
  cell* a = new_cells(cells + 1);  // Not 0: there may be more slaves than rows.
  cell* b = new_cells(area(options));
  cell* c = new_cells(cells + 1);
  for (uint64_t product = 1; product <= options->products; ++product) {
    broadcast(options, b);
    example_receive(a, rows * options->n, MPI_UINT64_T, 0, kRowsTag);
    multiply(options, a, b, c, rows);
    example_send(c, rows * options->n, MPI_UINT64_T, 0, kResultTag);
  }
  free(a);
  free(b);
  free(c);
}

int main(int argc, char** argv) {
  struct options options;
  read_options(argc, argv, &options);
  uint64_t checksum = 0;
  if (options.expect) {
    const int wrong = master(&options, 0, &checksum);
    printf("matmul: n=%d products=%" PRIu64 " checksum=%016" PRIx64 "\n", options.n,
           options.products, checksum);
    return wrong > 0;
  }
  int rank = 0;
  int ranks = 0;
  int wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const uint64_t start = example_now_us();
  if (rank == 0) {
    wrong = master(&options, ranks - 1, &checksum);
    printf("matmul: ranks=%d n=%d products=%" PRIu64 " checksum=%016" PRIx64
           " verified=%s elapsed_us=%" PRIu64 "\n",
           ranks, options.n, options.products, checksum, wrong ? "no" : "yes",
           example_now_us() - start);
    fflush(stdout);
  } else {
    slave(&options, rank, ranks - 1);
  }
  MPI_Finalize();
  return wrong > 0;
}
