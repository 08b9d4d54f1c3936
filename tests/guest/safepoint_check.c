// Every collective that libmare-safepoint.so wraps, once, each result against what it must be.
// Prints a hash of all that was received on every rank, in rank order.
//
//   safepoint-check [FILE]    rank 0 is late for a last barrier: it waits for FILE to be there
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kMost = 64 };

static int rank;
static int size;
static uint64_t hash = 0xcbf29ce484222325u;
static bool good = true;

static void expect(const char* what, const int* got, const int* wanted, int count) {
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ (uint64_t)(uint32_t)got[i]) * 0x100000001b3u;
    if (got[i] == wanted[i]) continue;
    fprintf(stderr, "rank %d, %s[%d]: %d instead of %d\n", rank, what, i, got[i], wanted[i]);
    good = false;
  }
}

// Blocks of unlike sizes: that of rank r has r + 1 numbers.
static int counts[kMost];
static int at[kMost];
static int all;

static int number(int of, int index) {
  return 1000 * (of + 1) + index;
}

static void from_one_and_to_one(void) {
  int own[kMost];
  int wanted[kMost];
  int got[kMost];
  MPI_Barrier(MPI_COMM_WORLD);
  int told = rank == 0 ? 17 : 0;
  MPI_Bcast(&told, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect("Bcast", &told, &(int){17}, 1);
  for (int i = 0; i < size; ++i) wanted[i] = number(0, i);
  MPI_Scatter(wanted, 1, MPI_INT, got, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect("Scatter", got, wanted + rank, 1);
  for (int i = 0; i < all; ++i) wanted[i] = number(0, i);
  MPI_Scatterv(wanted, counts, at, MPI_INT, got, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
  expect("Scatterv", got, wanted + at[rank], counts[rank]);
  own[0] = number(rank, 0);
  for (int i = 0; i < size; ++i) wanted[i] = number(i, 0);
  MPI_Gather(own, 1, MPI_INT, got, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) expect("Gather", got, wanted, size);
  for (int i = 0; i < counts[rank]; ++i) own[i] = number(rank, i);
  MPI_Gatherv(own, counts[rank], MPI_INT, got, counts, at, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < counts[r]; ++i) wanted[at[r] + i] = number(r, i);
  }
  if (rank == 0) expect("Gatherv", got, wanted, all);
}

static void from_all_to_all(void) {
  int own[kMost];
  int wanted[kMost];
  int got[kMost];
  own[0] = number(rank, 0);
  for (int i = 0; i < size; ++i) wanted[i] = number(i, 0);
  MPI_Allgather(own, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
  expect("Allgather", got, wanted, size);
  for (int i = 0; i < counts[rank]; ++i) own[i] = number(rank, i);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < counts[r]; ++i) wanted[at[r] + i] = number(r, i);
  }
  MPI_Allgatherv(own, counts[rank], MPI_INT, got, counts, at, MPI_INT, MPI_COMM_WORLD);
  expect("Allgatherv", got, wanted, all);
  for (int i = 0; i < size; ++i) {
    own[i] = number(rank, i);
    wanted[i] = number(i, rank);
  }
  MPI_Alltoall(own, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
  expect("Alltoall", got, wanted, size);
  // Rank r gets r + 1 numbers of each.
  int to_get[kMost];
  int get_at[kMost];
  for (int r = 0; r < size; ++r) {
    to_get[r] = rank + 1;
    get_at[r] = r * (rank + 1);
    for (int i = 0; i < counts[r]; ++i) own[at[r] + i] = number(rank, at[r] + i);
    for (int i = 0; i <= rank; ++i) wanted[get_at[r] + i] = number(r, at[rank] + i);
  }
  MPI_Alltoallv(own, counts, at, MPI_INT, got, to_get, get_at, MPI_INT, MPI_COMM_WORLD);
  expect("Alltoallv", got, wanted, size * (rank + 1));
}

static void sums(void) {
  int own[kMost];
  int wanted[kMost];
  int got[kMost];
  for (int i = 0; i < all; ++i) {
    own[i] = number(rank, i);
    wanted[i] = 0;
    for (int r = 0; r < size; ++r) wanted[i] += number(r, i);
  }
  MPI_Reduce(own, got, all, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) expect("Reduce", got, wanted, all);
  MPI_Allreduce(own, got, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("Allreduce", got, wanted, all);
  memcpy(got, own, sizeof got);
  MPI_Allreduce(MPI_IN_PLACE, got, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("Allreduce in place", got, wanted, all);
  MPI_Reduce_scatter(own, got, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("Reduce_scatter", got, wanted + at[rank], counts[rank]);
  MPI_Scan(own, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  wanted[0] = 0;
  for (int r = 0; r <= rank; ++r) wanted[0] += number(r, 0);
  expect("Scan", got, wanted, 1);
}

static void be_late(const char* file) {
  if (rank == 0) {
    printf("late\n");
    fflush(stdout);
    while (access(file, F_OK) != 0) usleep(1000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  if (argc > 1) {
    MPI_Init(&argc, &argv);
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 8) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int r = 0; r < size; ++r) {
    counts[r] = r + 1;
    at[r] = all;
    all += counts[r];
  }
  from_one_and_to_one();
  from_all_to_all();
  sums();
  if (argc > 1) be_late(argv[1]);
  // What a collective answers must come through as well.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  good = good && MPI_Bcast(&all, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS;
  uint64_t hashes[kMost];
  MPI_Gather(&hash, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < size; ++r)
    printf("hash=%016llx\n", (unsigned long long)hashes[r]);
  MPI_Finalize();
  return good ? 0 : 1;
}
