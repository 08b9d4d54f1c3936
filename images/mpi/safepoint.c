// libmare-safepoint.so, for LD_PRELOAD in MPI programs: it notes in a page that mare-guestd reads
// when the process is inside a collective. Nothing else: every call goes on to MPI as it came, and
// what MPI answers is what the program gets. Without a page (no job in the environment, no room for
// it) it notes into nowhere.
//
// MPI is looked up at the first call instead of linked, so that the library can be loaded into
// programs that have no MPI: mpirun gives it to whatever a job starts, also to shells.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "images/guest/safepoint.h"

#define EXPORTED __attribute__((visibility("default")))

static struct mare_safe_point nowhere;
static struct mare_safe_point* page = &nowhere;
static char page_path[256];
static pid_t page_owner;

// --- The page

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Threads may be in several at a time, so both are counted.
static void enter(void) {
  struct mare_safe_point* here = __atomic_load_n(&page, __ATOMIC_RELAXED);
  __atomic_store_n(&here->entered_ns, now_ns(), __ATOMIC_RELAXED);
  __atomic_fetch_add(&here->entered, 1, __ATOMIC_RELEASE);
}

static void leave(void) {
  struct mare_safe_point* here = __atomic_load_n(&page, __ATOMIC_RELAXED);
  __atomic_store_n(&here->left_ns, now_ns(), __ATOMIC_RELAXED);
  __atomic_fetch_add(&here->left, 1, __ATOMIC_RELEASE);
}

// Field 22 of /proc/self/stat; 0: not known.
static uint64_t process_start(void) {
  char stat[1024];
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, stat, sizeof stat - 1);
  close(fd);
  if (got <= 0) return 0;
  stat[got] = '\0';
  // The name, in parentheses, may contain anything: count from the last ')', which ends field 2.
  char* at = strrchr(stat, ')');
  for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');
  return at ? strtoull(at, NULL, 10) : 0;
}

// NULL when there can be no page; leaves no file then.
static struct mare_safe_point* make_page(void) {
  const int fd =
      open(page_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return NULL;
  struct mare_safe_point* made = MAP_FAILED;
  // Its memory is taken now: a write into a hole of a full file system is a SIGBUS.
  if (posix_fallocate(fd, 0, (off_t)sizeof *made) == 0) {
    made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (made != MAP_FAILED) return made;
  unlink(page_path);
  return NULL;
}

static void open_page(void) {
  const char* job = getenv(MARE_SAFE_POINT_VARIABLE);
  if (!job || !*job || strchr(job, '/') || page_path[0]) return;
  const int length = snprintf(page_path, sizeof page_path, "%s/%s%s.%ld", MARE_SAFE_POINT_DIR,
                              MARE_SAFE_POINT_PREFIX, job, (long)getpid());
  if (length < 0 || (size_t)length >= sizeof page_path) {
    page_path[0] = '\0';
    return;
  }
  unlink(page_path);  // Of a process that had our number and was killed.
  struct mare_safe_point* made = make_page();
  if (!made) {
    page_path[0] = '\0';
    return;
  }
  page_owner = getpid();
  made->pid = (int32_t)page_owner;
  made->process_start = process_start();
  made->left_ns = now_ns();
  __atomic_store_n(&made->magic, MARE_SAFE_POINT_MAGIC, __ATOMIC_RELEASE);
  __atomic_store_n(&page, made, __ATOMIC_RELEASE);
}

// The mapping stays, for threads that write at this moment.
static void close_page(void) {
  __atomic_store_n(&page, &nowhere, __ATOMIC_RELAXED);
  if (page_path[0] && page_owner == getpid()) unlink(page_path);
}

// --- MPI's own entry points

static void* find(void** found, const char* name, const char* library) {
  void* entry = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (entry) return entry;
  entry = dlsym(RTLD_NEXT, name);
  if (!entry) {
    // Loaded by dlopen() of an interpreter, say, and in the scope of that alone.
    void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded) entry = dlsym(loaded, name);
  }
  if (!entry) {
    // Whoever called us was linked with MPI, so this is a broken installation.
    fprintf(stderr, "libmare-safepoint: %s is not in this program\n", name);
    abort();
  }
  __atomic_store_n(found, entry, __ATOMIC_RELAXED);
  return entry;
}

#define IN_C "libmpi.so.40"
#define IN_FORTRAN "libmpi_mpifh.so.40"
#define IN_FORTRAN_2008 "libmpi_usempif08.so.40"

// As MPI calls it, with `before` and `after` around it.
#define IN_C_WITH(name, parameters, arguments, before, after)                                    \
  EXPORTED int MPI_##name parameters {                                                           \
    static void* found;                                                                          \
    __typeof__(&PMPI_##name) real = (__typeof__(&PMPI_##name))find(&found, "PMPI_" #name, IN_C); \
    before;                                                                                      \
    const int result = real arguments;                                                           \
    after;                                                                                       \
    return result;                                                                               \
  }

// Fortran has entries of its own in Open MPI, which call PMPI_X and so pass ours by: one under four
// names, for the ways in which compilers write them, and another for the module mpi_f08. All
// arguments are addresses, the last one that of the error, which the module may leave out (NULL).
// NOLINTBEGIN(bugprone-macro-parentheses): a parameter list is one already
#define FORTRAN_ENTRY(function, real_name, library, parameters, arguments, before, after) \
  EXPORTED void function parameters;                                                      \
  EXPORTED void function parameters {                                                     \
    static void* found;                                                                   \
    void(*real) parameters = (void(*) parameters)find(&found, real_name, library);        \
    before;                                                                               \
    real arguments;                                                                       \
    after;                                                                                \
  }
// NOLINTEND(bugprone-macro-parentheses)
#define SAME_AS(function, alias_name, parameters) \
  EXPORTED void alias_name parameters __attribute__((alias(#function)))
#define IN_FORTRAN_WITH(lower, upper, parameters, arguments, before, after)                    \
  FORTRAN_ENTRY(mpi_##lower##_, "pmpi_" #lower "_", IN_FORTRAN, parameters, arguments, before, \
                after)                                                                         \
  SAME_AS(mpi_##lower##_, mpi_##lower##__, parameters);                                        \
  SAME_AS(mpi_##lower##_, mpi_##lower, parameters);                                            \
  SAME_AS(mpi_##lower##_, MPI_##upper, parameters);                                            \
  FORTRAN_ENTRY(mpi_##lower##_f08_, "pmpi_" #lower "_f08_", IN_FORTRAN_2008, parameters,       \
                arguments, before, after)

// --- Beginning and end

IN_C_WITH(Init, (int* argc, char*** argv), (argc, argv), , open_page())
IN_C_WITH(Init_thread, (int* argc, char*** argv, int required, int* provided),
          (argc, argv, required, provided), , open_page())
IN_C_WITH(Finalize, (void), (), enter(), close_page())

IN_FORTRAN_WITH(init, INIT, (void* a), (a), , open_page())
IN_FORTRAN_WITH(init_thread, INIT_THREAD, (void* a, void* b, void* c), (a, b, c), , open_page())
IN_FORTRAN_WITH(finalize, FINALIZE, (void* a), (a), enter(), close_page())

// --- Collectives

#define C(name, parameters, arguments) IN_C_WITH(name, parameters, arguments, enter(), leave())
#define F(lower, upper, parameters, arguments) \
  IN_FORTRAN_WITH(lower, upper, parameters, arguments, enter(), leave())

// clang-format off
#define FROM const void *from, int from_count, MPI_Datatype from_type
#define FROM_V const void *from, const int *from_counts, const int *from_at, MPI_Datatype from_type
#define TO void *to, int to_count, MPI_Datatype to_type
#define TO_V void *to, const int *to_counts, const int *to_at, MPI_Datatype to_type
C(Barrier, (MPI_Comm comm), (comm))
C(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm), (data, count, type, root, comm))
C(Scatter, (FROM, TO, int root, MPI_Comm comm), (from, from_count, from_type, to, to_count, to_type, root, comm))
C(Scatterv, (FROM_V, TO, int root, MPI_Comm comm),
  (from, from_counts, from_at, from_type, to, to_count, to_type, root, comm))
C(Gather, (FROM, TO, int root, MPI_Comm comm), (from, from_count, from_type, to, to_count, to_type, root, comm))
C(Gatherv, (FROM, TO_V, int root, MPI_Comm comm),
  (from, from_count, from_type, to, to_counts, to_at, to_type, root, comm))
C(Allgather, (FROM, TO, MPI_Comm comm), (from, from_count, from_type, to, to_count, to_type, comm))
C(Allgatherv, (FROM, TO_V, MPI_Comm comm), (from, from_count, from_type, to, to_counts, to_at, to_type, comm))
C(Alltoall, (FROM, TO, MPI_Comm comm), (from, from_count, from_type, to, to_count, to_type, comm))
C(Alltoallv, (FROM_V, TO_V, MPI_Comm comm),
  (from, from_counts, from_at, from_type, to, to_counts, to_at, to_type, comm))
C(Reduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
  (from, to, count, type, op, root, comm))
C(Allreduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
  (from, to, count, type, op, comm))
C(Reduce_scatter, (const void* from, void* to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
  (from, to, counts, type, op, comm))
C(Scan, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
  (from, to, count, type, op, comm))

#define P6 void *a, void *b, void *c, void *d, void *e, void *f
F(barrier, BARRIER, (void* a, void* b), (a, b))
F(bcast, BCAST, (P6), (a, b, c, d, e, f))
F(allreduce, ALLREDUCE, (P6, void* g), (a, b, c, d, e, f, g))
F(reduce_scatter, REDUCE_SCATTER, (P6, void* g), (a, b, c, d, e, f, g))
F(scan, SCAN, (P6, void* g), (a, b, c, d, e, f, g))
F(reduce, REDUCE, (P6, void* g, void* h), (a, b, c, d, e, f, g, h))
F(allgather, ALLGATHER, (P6, void* g, void* h), (a, b, c, d, e, f, g, h))
F(alltoall, ALLTOALL, (P6, void* g, void* h), (a, b, c, d, e, f, g, h))
F(scatter, SCATTER, (P6, void* g, void* h, void* i), (a, b, c, d, e, f, g, h, i))
F(gather, GATHER, (P6, void* g, void* h, void* i), (a, b, c, d, e, f, g, h, i))
F(allgatherv, ALLGATHERV, (P6, void* g, void* h, void* i), (a, b, c, d, e, f, g, h, i))
F(scatterv, SCATTERV, (P6, void* g, void* h, void* i, void* j), (a, b, c, d, e, f, g, h, i, j))
F(gatherv, GATHERV, (P6, void* g, void* h, void* i, void* j), (a, b, c, d, e, f, g, h, i, j))
F(alltoallv, ALLTOALLV, (P6, void* g, void* h, void* i, void* j), (a, b, c, d, e, f, g, h, i, j))
// clang-format on
