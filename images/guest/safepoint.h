/* The page that an MPI process shares with mare-guestd when its job announces safe points: whether
 * it is inside a collective. libmare-safepoint.so (images/mpi) writes it, the verb SAFEPOINT reads
 * it. Names and layout only.
 *
 * A page is the file MARE_SAFE_POINT_DIR/MARE_SAFE_POINT_PREFIX JOB "." PID. It is made when
 * MPI_Init has returned, goes when MPI_Finalize has, and is only made where the environment has
 * MARE_SAFE_POINT_VARIABLE=JOB. In a VM it is in memory, so it is part of a checkpoint.
 */
#ifndef MARE_IMAGES_GUEST_SAFEPOINT_H
#define MARE_IMAGES_GUEST_SAFEPOINT_H

#include <stdint.h>

#define MARE_SAFE_POINT_DIR "/dev/shm"
#define MARE_SAFE_POINT_PREFIX "mare-safe-point."
#define MARE_SAFE_POINT_VARIABLE "MARE_SAFE_POINTS"
#define MARE_SAFE_POINT_MAGIC 0x31305053u /* "SP01" */

/* Each field is written and read as one. Times are CLOCK_MONOTONIC_COARSE in ns: some ms coarse,
 * and never a system call. */
struct mare_safe_point {
  uint32_t magic; /* written last */
  int32_t pid;
  uint64_t process_start; /* field 22 of /proc/PID/stat: tells a reused pid */
  uint64_t entered;       /* collectives begun so far */
  uint64_t left;          /* and ended; of one thread it is inside when they differ */
  int64_t entered_ns;
  int64_t left_ns; /* of the last end; before the first one, when MPI_Init returned */
};

#endif
