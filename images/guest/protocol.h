/* The guest protocol: what mared and mare-rsh say to mare-guestd inside a VM.
 *
 * This header is the contract. It is plain C so that the guest side needs nothing but libc, and C++
 * may include it as it is. It holds names and limits only, no code.
 *
 * Transport: TCP, port MARE_GUEST_PORT, in the clear: it belongs on the pool's own network. The
 * token keeps other tenants' mistakes out, it does not protect from somebody who reads the wire.
 *
 * Request:  MARE1 TOKEN VERB key=value key=value...\n
 * Answer:   OK key=value...\n             followed by N bytes when a key len=N is present
 *           ERR code message\n            the message is percent-encoded like a value
 *
 * - Fields are separated by one space. Values are percent-encoded: every byte below 0x21, 0x7f and
 *   above, and '%' itself must be sent as %XX; any other byte may be. %00 is refused. A value may
 *   be empty ("cwd="). '=' needs no encoding: the first one ends the key.
 * - Keys may repeat where the verb says so (arg, env); order is kept. Unknown or missing keys and
 *   bad numbers are bad-request. Receivers of answers must ignore keys they do not know.
 * - A line, its newline included, is at most MARE_GUEST_LINE_MAX bytes.
 * - Requests on one connection are answered in order. After an ERR the connection stays open,
 *   except after denied (token) and after a line that is too long or does not start with MARE1.
 * - The first line must be complete within MARE_GUEST_LINE_TIMEOUT_S; every later line within the
 *   same time from its first byte. An idle connection is closed after MARE_GUEST_IDLE_TIMEOUT_S:
 *   reconnect then.
 * - Every verb is idempotent except RSH: after a lost answer, repeat the request on a new
 *   connection.
 *
 * Verbs (keys in [] are optional):
 *
 * HELLO
 *   -> protocol=1 version= hostname= boot_id= uptime_ms= mono_ns= wall_ns= mem_total_kib=
 *      mem_available_kib= mem_free_kib= taint= kmsg_watched=0|1 kmsg_faults= [kmsg_first=]
 *   kmsg_faults counts the kernel log's lines since boot that contain one of MARE_GUEST_KMSG_FAULTS
 *   or begin with MARE_GUEST_KMSG_FAULT_START (within a line it is in harmless notes about CPU
 *   mitigations); kmsg_first is the first such line. kmsg_watched=0: /dev/kmsg cannot be read, so
 *   the count says nothing. mono_ns is CLOCK_MONOTONIC (it stops while the VM is paused under most
 *   hypervisors), wall_ns is CLOCK_REALTIME. taint is /proc/sys/kernel/tainted.
 *
 * RUN id= dir= arg= [arg=...] [env=NAME=VALUE...] [cwd=] [uid=] [gid=]
 *   -> the keys of STATUS
 *   Starts a program once, in a session and process group of its own, and outlives mare-guestd. dir
 *   is an absolute path on storage that both sides see; its last component is made if missing.
 *   Files in dir:
 *     claim   made with its whole content, at most once ever: which id owns the directory
 *     pid     process (and process group) of the program
 *     output  standard output and standard error, appended
 *     exit    "exit N\n" or "signal N\n", renamed into place and synced after the program's end
 *   A second RUN with the same id and dir starts nothing and answers the state. Another id: ERR
 *   exists. A program that cannot be executed ends with state=exited exit=127 (not found) or 126,
 *   reason in output. cwd defaults to dir. The environment is PATH, HOME, USER, LOGNAME, SHELL,
 *   MARE_TOKEN_FILE and the given env. uid/gid default to those of mare-guestd; gid defaults to uid
 *   when only uid is given.
 *
 * STATUS id= dir=
 *   -> state=unknown|running|exited|lost [pid=] [exit= | signal=] output_bytes=
 *   unknown: nobody ever started id in dir. lost: it was started, it does not run any more, and how
 *   it ended was not recorded (the VM was restarted, or its runner was killed). ERR exists: dir
 *   belongs to another id, or its program runs in another guest. Of a program that was found
 *   running before it is told without dir's files: asking often costs its rank little.
 *
 * OUTPUT dir= offset= max=
 *   -> offset= total= len= + payload
 *   max is capped to MARE_GUEST_OUTPUT_MAX. An offset at or past the end answers len=0. No output
 *   file yet: len=0 total=0 when the directory has a claim, else ERR not-found. This is always up
 *   to date; who reads the file on the NFS server's side lags behind while the program runs, and
 *   finds all of it once the exit file is there.
 *
 * SIGNAL dir= signal= [id=]
 *   -> (nothing)
 *   To the program's process group. signal is a number or HUP INT QUIT KILL USR1 USR2 TERM CONT
 *   STOP. ERR not-found when nothing runs there (any more); busy when it is just being started.
 *
 * SAFEPOINT id=
 *   -> ranks= inside= entered= [outside_ms=]
 *   Where this guest's processes of the job are that announce safe points
 * (images/guest/safepoint.h): how many they are, how many of them are in a collective, how many
 * collectives all have begun so far, and, if any is in none, the longest that one has been outside,
 * to some ms. ranks=0: none announces any: not begun yet, ended, started without the library, or no
 * MPI program.
 *
 * SETCLOCK wall_ns= [restored=yes]
 *   -> was_ns= wall_ns=.  Sets CLOCK_REALTIME. Only inside a Mare VM (kernel line has mare.ip=),
 *      else denied. restored: this VM goes on from a checkpoint; its NFS servers, which remember
 *      the life that is undone, are told so, and its connections to them are made anew.
 *
 * DROPCACHE
 *   -> freed_kib= zeroed_kib=
 *   Gives back the clean page cache, then leaves zeros in most of what is free, so that a migration
 *   has next to nothing to send of it. Takes MARE_GUEST_ZERO_TIMEOUT_MS and a bit at most; what is
 *   not done by then stays as it is. Only in a Mare VM.
 *
 * RSH arg= [arg=...] [env=...] [cwd=] [uid=] [gid=]
 *   -> (nothing), and from then on the connection carries frames in both directions until it
 *      closes: type (1 byte), length (4 bytes, big endian, at most MARE_GUEST_FRAME_MAX), payload.
 *   The command runs in a session of its own. Type 4 ends the conversation: 4 bytes, big endian,
 *   the exit status, or 128 + signal. If the connection goes before, the command's process group
 *   gets SIGHUP, and SIGKILL some seconds later. After the command's end, output of processes it
 *   left behind is awaited for MARE_GUEST_RSH_DRAIN_MS at most, so that a daemon which keeps stdout
 *   open cannot hold mpirun up. The conversation outlives mare-guestd.
 *
 * POWEROFF
 *   -> (nothing).  The answer comes first, then sync (some seconds at most) and power off. Only in
 *      a Mare VM.
 *
 * UDP echo, same port: request MARE_GUEST_PING_MAGIC + 8 bytes of the sender's choice; the answer
 * is MARE_GUEST_PONG_MAGIC + the same 8 bytes + CLOCK_MONOTONIC_RAW ns (8, big endian) +
 * CLOCK_REALTIME ns (8, big endian). It carries no token and does nothing else; other datagrams are
 * dropped. It is answered by a thread of high priority, so a silence of T ms is the network's or
 * the VM's, to about a millisecond.
 */
#ifndef MARE_IMAGES_GUEST_PROTOCOL_H
#define MARE_IMAGES_GUEST_PROTOCOL_H

#define MARE_GUEST_PROTOCOL_VERSION 1
#define MARE_GUEST_MAGIC "MARE1"
#define MARE_GUEST_PORT 7411
/* Guests mount NFS 4.x. */
#define MARE_GUEST_NFS_MINOR_VERSION 2

#define MARE_GUEST_LINE_MAX (64 * 1024)
#define MARE_GUEST_OUTPUT_MAX (1024 * 1024)
#define MARE_GUEST_FRAME_MAX (64 * 1024)
/* Letters, digits and -_.:+/= only: a token needs no encoding on a kernel or request line. */
#define MARE_GUEST_TOKEN_MIN 8
#define MARE_GUEST_TOKEN_MAX 256
#define MARE_GUEST_ID_MAX 128
/* At a time. One more: the oldest that has not shown the token is closed; if all have, the newcomer
 * gets ERR busy. */
#define MARE_GUEST_CONNECTIONS_MAX 128

#define MARE_GUEST_LINE_TIMEOUT_S 10
#define MARE_GUEST_IDLE_TIMEOUT_S 600
#define MARE_GUEST_RSH_DRAIN_MS 1000
#define MARE_GUEST_ZERO_TIMEOUT_MS 2000

#define MARE_GUEST_VERB_HELLO "HELLO"
#define MARE_GUEST_VERB_RUN "RUN"
#define MARE_GUEST_VERB_STATUS "STATUS"
#define MARE_GUEST_VERB_OUTPUT "OUTPUT"
#define MARE_GUEST_VERB_SIGNAL "SIGNAL"
#define MARE_GUEST_VERB_SAFEPOINT "SAFEPOINT"
#define MARE_GUEST_VERB_SETCLOCK "SETCLOCK"
#define MARE_GUEST_VERB_DROPCACHE "DROPCACHE"
#define MARE_GUEST_VERB_RSH "RSH"
#define MARE_GUEST_VERB_POWEROFF "POWEROFF"

#define MARE_GUEST_ERR_BAD_REQUEST "bad-request" /* The request is wrong: do not repeat it. */
#define MARE_GUEST_ERR_DENIED "denied"       /* Wrong token, or not permitted on this machine. */
#define MARE_GUEST_ERR_NOT_FOUND "not-found" /* No such directory, output or running program. */
#define MARE_GUEST_ERR_EXISTS "exists"       /* The directory belongs to another id. */
#define MARE_GUEST_ERR_FAILED "failed"       /* The operating system refused; the text says what. */
/* Too many connections, or the job file system does not answer: try again later. */
#define MARE_GUEST_ERR_BUSY "busy"

#define MARE_GUEST_STATE_UNKNOWN "unknown"
#define MARE_GUEST_STATE_RUNNING "running"
#define MARE_GUEST_STATE_EXITED "exited"
#define MARE_GUEST_STATE_LOST "lost"

#define MARE_GUEST_FILE_CLAIM "claim"
#define MARE_GUEST_FILE_PID "pid"
#define MARE_GUEST_FILE_OUTPUT "output"
#define MARE_GUEST_FILE_EXIT "exit"

#define MARE_GUEST_FRAME_STDIN 0     /* client to guest */
#define MARE_GUEST_FRAME_STDOUT 1    /* guest to client */
#define MARE_GUEST_FRAME_STDERR 2    /* guest to client */
#define MARE_GUEST_FRAME_STDIN_EOF 3 /* client to guest, no payload */
#define MARE_GUEST_FRAME_EXIT 4      /* guest to client, 4 bytes big endian, the last frame */
#define MARE_GUEST_FRAME_HEADER 5

#define MARE_GUEST_PING_MAGIC "MAREPING"
#define MARE_GUEST_PONG_MAGIC "MAREPONG"
#define MARE_GUEST_PING_BYTES 16
#define MARE_GUEST_PONG_BYTES 32

#define MARE_GUEST_KMSG_FAULTS \
  { "BUG:", "Oops", "general protection", "Call Trace", "Kernel panic" }
#define MARE_GUEST_KMSG_FAULT_START "WARNING:"

#endif
