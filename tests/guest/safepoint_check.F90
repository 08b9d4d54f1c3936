! The same in Fortran, through the module mpi, or mpi_f08 where MODERN is defined: every wrapped
! collective once, each result against what it must be; rank 0 is late for a last barrier if a file
! is named.
program safepoint_check
#ifdef MODERN
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, size, ierr, provided, i, r, all, seed
  integer :: counts(0:7), at(0:7), to_get(0:7), get_at(0:7), own(0:63), wanted(0:63), got(0:63)
  integer(8) :: hash
  logical :: good, there
  character(len=512) :: file

  good = .true.
  hash = 5381
  call get_command_argument(1, file)
  if (len_trim(file) > 0) then
    call MPI_Init(ierr)
  else
    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  end if
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  all = 0
  do r = 0, size - 1
    counts(r) = r + 1
    at(r) = all
    all = all + counts(r)
  end do
  own = [(number(rank, i), i = 0, 63)]

  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  seed = merge(17, 0, rank == 0)
  call MPI_Bcast(seed, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call expect('bcast', [seed], [17], 1)
  wanted = [(number(0, i), i = 0, 63)]
  call MPI_Scatter(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call expect('scatter', got, wanted(rank:), 1)
  call MPI_Scatterv(own, counts, at, MPI_INTEGER, got, counts(rank), MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call expect('scatterv', got, wanted(at(rank):), counts(rank))
  do r = 0, size - 1
    wanted(r) = number(r, 0)
  end do
  call MPI_Gather(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) call expect('gather', got, wanted, size)
  call MPI_Allgather(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call expect('allgather', got, wanted, size)
  do r = 0, size - 1
    do i = 0, counts(r) - 1
      wanted(at(r) + i) = number(r, i)
    end do
  end do
  call MPI_Gatherv(own, counts(rank), MPI_INTEGER, got, counts, at, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) call expect('gatherv', got, wanted, all)
  call MPI_Allgatherv(own, counts(rank), MPI_INTEGER, got, counts, at, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call expect('allgatherv', got, wanted, all)
  do r = 0, size - 1
    wanted(r) = number(r, rank)
  end do
  call MPI_Alltoall(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call expect('alltoall', got, wanted, size)
  do r = 0, size - 1
    to_get(r) = rank + 1
    get_at(r) = r * (rank + 1)
    do i = 0, rank
      wanted(get_at(r) + i) = number(r, at(rank) + i)
    end do
  end do
  call MPI_Alltoallv(own, counts, at, MPI_INTEGER, got, to_get, get_at, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call expect('alltoallv', got, wanted, size * (rank + 1))
  wanted = 0
  do r = 0, size - 1
    wanted = wanted + [(number(r, i), i = 0, 63)]
  end do
  call MPI_Reduce(own, got, all, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) call expect('reduce', got, wanted, all)
  call MPI_Allreduce(own, got, all, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call expect('allreduce', got, wanted, all)
  got = own
  call MPI_Allreduce(MPI_IN_PLACE, got, all, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call expect('allreduce in place', got, wanted, all)
  call MPI_Reduce_scatter(own, got, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call expect('reduce_scatter', got, wanted(at(rank):), counts(rank))
  wanted(0) = 0
  do r = 0, rank
    wanted(0) = wanted(0) + number(r, 0)
  end do
#ifdef MODERN
  call MPI_Scan(own, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
#else
  call MPI_Scan(own, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
#endif
  call expect('scan', got, wanted, 1)

  if (len_trim(file) > 0) then
    if (rank == 0) then
      print '(a)', 'late'
      flush (6)
      there = .false.
      do while (.not. there)
        inquire (file=trim(file), exist=there)
      end do
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end if
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Bcast(seed, 1, MPI_INTEGER, size, MPI_COMM_WORLD, ierr)
  good = good .and. ierr /= MPI_SUCCESS
  call sum_up()
  call MPI_Finalize(ierr)
  if (.not. good) stop 1

contains

  integer function number(of, at_index)
    integer, intent(in) :: of, at_index
    number = 1000 * (of + 1) + at_index
  end function number

  subroutine expect(what, have, must, count)
    character(len=*), intent(in) :: what
    integer, intent(in) :: have(0:), must(0:), count
    integer :: k
    do k = 0, count - 1
      hash = mod(hash * 33 + have(k), 1000000007_8)
      if (have(k) == must(k)) cycle
      write (0, *) 'rank', rank, what, k, have(k), 'instead of', must(k)
      good = .false.
    end do
  end subroutine expect

  subroutine sum_up()
    integer :: hashes(0:7), own_hash, k
    own_hash = int(hash)
    call MPI_Gather(own_hash, 1, MPI_INTEGER, hashes, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    if (rank /= 0) return
    do k = 0, size - 1
      print '(a,i0)', 'hash=', hashes(k)
    end do
  end subroutine sum_up
end program safepoint_check
