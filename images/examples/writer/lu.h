// What HPL does on one process: LU factorisation with partial pivoting of a dense matrix, the right
// hand side beside it as one more column, by panels of columns whose elimination is then applied to
// all columns behind them (right-looking); back substitution; the scaled residual. Again and again,
// and in small pieces of equal work, so that its pace can be seen.
#ifndef MARE_IMAGES_EXAMPLES_WRITER_LU_H
#define MARE_IMAGES_EXAMPLES_WRITER_LU_H

#include <float.h>
#include <math.h>

#include "../example.h"

enum { kLuPanel = 32 };
/// As of HPL: a residual above it is of a wrong result.
static const double kLuMostResidual = 16;

enum lu_stage { kLuFactor, kLuSolve, kLuCheck };

struct lu {
  size_t n;
  double* matrix;    // n x (n + 1), by columns; its elimination goes on in it
  double* original;  // the same before it
  size_t* pivots;
  enum lu_stage stage;
  size_t panel;      // kLuFactor: its first column
  size_t column;     // the next one behind it that is to be updated; 0: the panel itself is.
                     // kLuSolve: so many are left. kLuCheck: the next one
  double* off;       // kLuCheck, so far: Ax - b,
  double* sums;      // and by rows the sums of |A|
  double owed;       // operations asked for that are not done yet; below 0: done already
  uint64_t written;  // bytes
};

static inline size_t lu_behind(const struct lu* lu) {
  const size_t behind = lu->panel + kLuPanel;
  return behind < lu->n ? behind : lu->n;
}

static inline double lu_element(uint64_t* state) {
  *state = example_xorshift(*state);
  return (double)(*state >> 11) * 0x1p-53 - 0.5;
}

static inline void lu_restart(struct lu* lu) {
  memcpy(lu->matrix, lu->original, lu->n * (lu->n + 1) * sizeof *lu->matrix);
  lu->stage = kLuFactor;
  lu->panel = 0;
  lu->column = 0;
}

/// `memory` has room for `bytes`, which is the matrix's; false: there is none for the rest.
static inline bool lu_init(struct lu* lu, void* memory, size_t bytes, uint64_t seed) {
  size_t n = 1;
  while ((n + 1) * (n + 2) * sizeof(double) <= bytes) ++n;
  *lu = (struct lu){.n = n, .matrix = (double*)memory};
  lu->original = (double*)malloc(n * (n + 1) * sizeof *lu->original);
  lu->pivots = (size_t*)malloc(n * sizeof *lu->pivots);
  lu->off = (double*)malloc(n * sizeof *lu->off);
  lu->sums = (double*)malloc(n * sizeof *lu->sums);
  if (!lu->original || !lu->pivots || !lu->off || !lu->sums) return false;
  for (size_t i = 0; i < n * (n + 1); ++i) lu->original[i] = lu_element(&seed);
  lu_restart(lu);
  return true;
}

static inline void lu_free(struct lu* lu) {
  free(lu->original);
  free(lu->pivots);
  free(lu->off);
  free(lu->sums);
}

static inline void lu_swap(double* column, size_t one, size_t other) {
  const double kept = column[one];
  column[one] = column[other];
  column[other] = kept;
}

/// Eliminates within the panel, below the diagonal.
static inline double lu_factor_panel(struct lu* lu) {
  const size_t end = lu_behind(lu);
  double flops = 0;
  for (size_t k = lu->panel; k < end; ++k) {
    double* column = lu->matrix + k * lu->n;
    size_t pivot = k;
    for (size_t i = k + 1; i < lu->n; ++i) {
      if (fabs(column[i]) > fabs(column[pivot])) pivot = i;
    }
    lu->pivots[k] = pivot;
    for (size_t j = lu->panel; j < end; ++j) lu_swap(lu->matrix + j * lu->n, k, pivot);
    for (size_t i = k + 1; i < lu->n; ++i) column[i] /= column[k];
    for (size_t j = k + 1; j < end; ++j) {
      double* other = lu->matrix + j * lu->n;
      for (size_t i = k + 1; i < lu->n; ++i) other[i] -= other[k] * column[i];
    }
    flops += (double)(lu->n - k) * (1 + 2 * (double)(end - k - 1));
  }
  lu->written += (end - lu->panel) * (lu->n - lu->panel) * sizeof(double);
  return flops;
}

/// What the panel did, to one column behind it.
static inline double lu_update(struct lu* lu, size_t j) {
  const size_t end = lu_behind(lu);
  double* column = lu->matrix + j * lu->n;
  double flops = 0;
  for (size_t k = lu->panel; k < end; ++k) lu_swap(column, k, lu->pivots[k]);
  for (size_t k = lu->panel; k < end; ++k) {
    const double* left = lu->matrix + k * lu->n;
    const double factor = column[k];
    for (size_t i = k + 1; i < lu->n; ++i) column[i] -= factor * left[i];
    flops += 2 * (double)(lu->n - k - 1);
  }
  lu->written += (lu->n - lu->panel) * sizeof(double);
  return flops;
}

/// Back substitution by one column, in place of the right hand side.
static inline double lu_solve(struct lu* lu, size_t k) {
  const double* column = lu->matrix + k * lu->n;
  double* x = lu->matrix + lu->n * lu->n;
  x[k] /= column[k];
  for (size_t i = 0; i < k; ++i) x[i] -= x[k] * column[i];
  return 2 * (double)k + 1;
}

static inline void lu_begin_check(struct lu* lu) {
  const double* b = lu->original + lu->n * lu->n;
  for (size_t i = 0; i < lu->n; ++i) lu->off[i] = -b[i];
  memset(lu->sums, 0, lu->n * sizeof *lu->sums);
}

/// What one column adds to Ax and to the sums. By columns, as all else: by rows an emulated CPU
/// would look up a page for each few numbers, and its pace break.
static inline double lu_check(struct lu* lu, size_t k) {
  const double* column = lu->original + k * lu->n;
  const double x = lu->matrix[lu->n * lu->n + k];
  for (size_t i = 0; i < lu->n; ++i) {
    lu->off[i] += column[i] * x;
    lu->sums[i] += fabs(column[i]);
  }
  return 4 * (double)lu->n;
}

/// max |Ax - b| / (eps (|A| |x| + |b|) n), each the largest of a row; not a number if it can't be
/// solved.
static inline double lu_residual(const struct lu* lu) {
  const size_t n = lu->n;
  double off_most = 0;
  double rows_most = 0;
  double x_most = 0;
  double b_most = 0;
  for (size_t i = 0; i < n; ++i) {
    if (isnan(lu->off[i])) return NAN;
    off_most = fmax(off_most, fabs(lu->off[i]));
    rows_most = fmax(rows_most, lu->sums[i]);
    x_most = fmax(x_most, fabs(lu->matrix[n * n + i]));
    b_most = fmax(b_most, fabs(lu->original[n * n + i]));
  }
  return off_most / (DBL_EPSILON * (rows_most * x_most + b_most) * (double)n);
}

/// The next piece of it. The operations that it took.
static inline double lu_factor(struct lu* lu) {
  double flops = 0;
  if (lu->column == 0) {
    flops = lu_factor_panel(lu);
    lu->column = lu_behind(lu);
    return flops;
  }
  flops = lu_update(lu, lu->column);
  if (lu->column++ < lu->n) return flops;
  lu->panel = lu_behind(lu);
  lu->column = 0;
  if (lu->panel == lu->n) {
    lu->stage = kLuSolve;
    lu->column = lu->n;
  }
  return flops;
}

/// Goes on with so many operations, about: what is done too much is owed less the next time. The
/// number of factorisations that ended wrong.
static inline uint64_t lu_work(struct lu* lu, double flops) {
  uint64_t wrong = 0;
  lu->owed += flops;
  while (lu->owed > 0) {
    switch (lu->stage) {
      case kLuFactor:
        lu->owed -= lu_factor(lu);
        break;
      case kLuSolve:
        lu->owed -= lu_solve(lu, --lu->column);
        if (lu->column > 0) break;
        lu->stage = kLuCheck;
        lu_begin_check(lu);
        break;
      case kLuCheck:
        lu->owed -= lu_check(lu, lu->column++);
        if (lu->column < lu->n) break;
        // Negated, for what is not a number.
        if (!(lu_residual(lu) < kLuMostResidual)) ++wrong;
        lu_restart(lu);
        break;
    }
  }
  return wrong;
}

/// Between two factorisations.
static inline bool lu_is_done(const struct lu* lu) {
  return lu->stage == kLuFactor && lu->panel == 0 && lu->column == 0;
}

#endif
