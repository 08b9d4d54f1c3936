"""mare-rsh and the RSH verb: what mpirun expects of rsh and ssh."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import struct
import subprocess
import unittest

from harness import PATIENCE_S, Guestd, GuestdTest, GuestError, alive, program, wait_until


class RshTest(GuestdTest):
    def rsh(self, *arguments: str, stdin: bytes = b"",
            **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([program("mare-rsh"), *arguments], input=stdin, capture_output=True,
                              timeout=PATIENCE_S,
                              env={**self.guestd.environment(), **environment}, check=False)


class Rsh(RshTest):
    def test_exit_codes(self) -> None:
        for command, code in (("true", 0), ("false", 1), ("exit 42", 42), ("exit 255", 255),
                              ("kill -9 $$", 137),
                              ("kill -TERM $$", 143), ("no-such-command-anywhere", 127)):
            self.assertEqual(self.rsh("127.0.0.1", command).returncode, code, command)

    def test_streams_are_apart(self) -> None:
        result = self.rsh("127.0.0.1", "echo out; echo err >&2; cat", stdin=b"in")
        self.assertEqual((result.stdout, result.stderr), (b"out\nin", b"err\n"))

    def test_much_data_both_ways(self) -> None:
        data = os.urandom(8 << 20)
        result = self.rsh("127.0.0.1", "cat", stdin=data)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout == data)

    def test_a_command_that_does_not_read_its_input(self) -> None:
        result = self.rsh("127.0.0.1", "echo done", stdin=b"x" * (8 << 20))
        self.assertEqual((result.returncode, result.stdout), (0, b"done\n"))

    def test_all_output_arrives_before_the_end(self) -> None:
        result = self.rsh("127.0.0.1",
                          "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 3")
        self.assertEqual((result.returncode, len(result.stdout), len(result.stderr)),
                         (3, 3000000, 2000000))

    def test_words_are_joined_and_given_to_a_shell_as_rsh_does(self) -> None:
        self.assertEqual(self.rsh("127.0.0.1", "echo", "a   b", "$((1+1));", "echo",
                                  "'c   d'").stdout, b"a b 2\nc   d\n")

    def test_options_of_ssh_are_accepted(self) -> None:
        options = ["-x", "-q", "-l", "somebody", "-o", "StrictHostKeyChecking=no",
                   "-oBatchMode=yes", "-T", "-n"]
        self.assertEqual(self.rsh(*options, "user@127.0.0.1", "echo", "-n", "x").stdout, b"x")

    def test_no_input(self) -> None:
        self.assertEqual(self.rsh("-n", "127.0.0.1", "cat; echo end", stdin=b"ignored").stdout,
                         b"end\n")

    def test_a_daemon_that_stays_behind_does_not_hold_it_up(self) -> None:
        result = self.rsh("127.0.0.1", "setsid sleep 600 & echo $!")
        pid = int(result.stdout)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(alive(pid), "daemons in a session of their own live on")
        os.kill(pid, signal.SIGKILL)

    def test_the_other_side_has_no_foreign_descriptors(self) -> None:
        self.assertEqual(self.rsh("127.0.0.1", "ls /proc/self/fd | wc -l").stdout, b"4\n")


class Refusals(RshTest):
    def test_nobody_there(self) -> None:
        self.guestd.kill()
        result = self.rsh("127.0.0.1", "true")
        self.assertEqual(result.returncode, 255)
        self.assertIn(b"127.0.0.1", result.stderr)
        self.assertIn(str(self.guestd.port).encode(), result.stderr)

    def test_a_daemon_that_comes_late(self) -> None:
        """mpirun may be quicker than a guest that restarts its daemon."""
        self.guestd.kill()
        waiting = subprocess.Popen([program("mare-rsh"), "127.0.0.1", "echo here"],
                                   env=self.guestd.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        # Its first attempt is refused: nobody listens yet.
        late = Guestd(folder=str(self.guestd.folder), port=self.guestd.port)
        self.addCleanup(late.stop)
        self.assertEqual(waiting.communicate(timeout=PATIENCE_S)[0], b"here\n")
        self.assertEqual(waiting.returncode, 0)

    def test_wrong_token(self) -> None:
        other = self.guestd.folder / "other"
        other.write_text("another-token-987654")
        result = self.rsh("127.0.0.1", "true", MARE_TOKEN_FILE=str(other))
        self.assertEqual(result.returncode, 255)
        self.assertIn(b"token", result.stderr)

    def test_no_token(self) -> None:
        result = self.rsh("127.0.0.1", "true", MARE_TOKEN_FILE="/nonexistent")
        self.assertEqual(result.returncode, 255)
        self.assertIn(b"/nonexistent", result.stderr)

    def test_unknown_host(self) -> None:
        result = self.rsh("no-such-host.invalid", "true")
        self.assertEqual(result.returncode, 255)
        self.assertIn(b"no-such-host.invalid", result.stderr)

    def test_not_a_guestd(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            process = subprocess.Popen([program("mare-rsh"), "-p", str(port), "127.0.0.1", "true"],
                                       stderr=subprocess.PIPE,
                                       env=self.guestd.environment(), stdin=subprocess.DEVNULL)
            connection, _ = server.accept()
            connection.sendall(b"220 mail.example ready\r\n")
            self.assertIn(b"no mare-guestd", process.communicate(timeout=PATIENCE_S)[1])
            connection.close()
        self.assertEqual(process.returncode, 255)

    def test_no_command(self) -> None:
        for arguments in ([], ["127.0.0.1"], ["-l"], ["-l", "user"]):
            self.assertEqual(self.rsh(*arguments).returncode, 255, arguments)

    def test_a_command_too_long_for_a_line(self) -> None:
        result = self.rsh("127.0.0.1", "true " + "x" * 70000)
        self.assertEqual(result.returncode, 255)
        self.assertIn(b"65536", result.stderr)


class Connection(GuestdTest):
    """The wire itself."""

    def start(self, command: str) -> socket.socket:
        client = self.connect()
        client.send_line("RSH", ("arg", "sh"), ("arg", "-c"), ("arg", command))
        client.read_answer()
        self.file = client.file
        return client.socket

    def read_frame(self) -> tuple[int, bytes]:
        kind, size = struct.unpack(">BI", self.file.read(5))
        return kind, self.file.read(size)

    def start_and_get_pid(self, command: str) -> tuple[socket.socket, int]:
        connection = self.start(command)
        return connection, int(self.read_frame()[1])

    def close(self, connection: socket.socket) -> None:
        self.file.close()
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def test_the_command_gets_a_hangup_when_the_connection_goes(self) -> None:
        mark = self.guestd.folder / "hung-up"
        connection, pid = self.start_and_get_pid(
            f"trap 'touch {mark}; exit' HUP; echo $$; while :; do sleep 0.02; done")
        self.close(connection)
        wait_until(mark.exists, "the command saw the hangup")
        wait_until(lambda: not alive(pid), "it ended")

    def test_a_command_that_ignores_the_hangup_is_killed(self) -> None:
        connection, pid = self.start_and_get_pid(
            "trap '' HUP; echo $$; while :; do sleep 0.02; done")
        self.close(connection)
        wait_until(lambda: not alive(pid), "it was killed")

    def test_the_conversation_outlives_the_daemon(self) -> None:
        """Open MPI's daemons hang on it as long as the job runs."""
        connection = self.start("read line; echo got $line; exit 4")
        self.guestd.kill()
        connection.sendall(struct.pack(">BI", 0, 5) + b"this\n")
        self.assertEqual(self.read_frame(), (1, b"got this\n"))
        self.assertEqual(self.read_frame(), (4, struct.pack(">I", 4)))
        again = Guestd(folder=str(self.guestd.folder), port=self.guestd.port)
        self.addCleanup(again.stop)
        with again.connect() as client:
            self.assertIn("boot_id", client.ask("HELLO"))

    def test_a_new_daemon_can_listen_while_an_old_conversation_goes_on(self) -> None:
        connection, pid = self.start_and_get_pid("echo $$; read line")
        self.guestd.kill()
        again = Guestd(folder=str(self.guestd.folder), port=self.guestd.port)
        self.addCleanup(again.stop)
        with again.connect() as client:
            self.assertIn("boot_id", client.ask("HELLO"))
        self.assertTrue(alive(pid))
        self.close(connection)
        wait_until(lambda: not alive(pid), "it ended with its connection")

    def test_the_command_ends_with_its_session(self) -> None:
        _, pid = self.start_and_get_pid("echo $$; exec sleep 600")
        with open(f"/proc/{pid}/stat") as stat:
            session = int(stat.read().rsplit(")", 1)[1].split()[1])
        os.kill(session, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "it got a hangup")

    def test_a_broken_frame_ends_the_conversation(self) -> None:
        for frame in (struct.pack(">BI", 0, 0xffffffff), struct.pack(">BI", 9, 0),
                      struct.pack(">BI", 1, 1) + b"x"):
            connection, pid = self.start_and_get_pid("echo $$; exec sleep 600")
            connection.sendall(frame)
            self.assertEqual(self.file.read(), b"")
            wait_until(lambda pid=pid: not alive(pid), "it ended")

    def test_frames_in_single_bytes_and_at_once_with_the_request(self) -> None:
        client = self.connect()
        request = f"MARE1 {client.token} RSH arg=cat\n".encode()
        frames = struct.pack(">BI", 0, 5) + b"hello" + struct.pack(">BI", 0, 0) + struct.pack(">BI",
                                                                                              3, 0)
        client.socket.sendall(request + frames)
        client.read_answer()
        self.file = client.file
        self.assertEqual(self.read_frame(), (1, b"hello"))
        self.assertEqual(self.read_frame(), (4, struct.pack(">I", 0)))
        connection = self.start("cat")
        for byte in frames:
            connection.sendall(bytes([byte]))
        self.assertEqual(self.read_frame(), (1, b"hello"))
        self.assertEqual(self.read_frame(), (4, struct.pack(">I", 0)))

    def test_bad_requests(self) -> None:
        for line in ("RSH", "RSH arg=", "RSH arg=true nonsense=1", "RSH arg=true cwd=relative"):
            client = self.connect()
            client.socket.sendall(f"MARE1 {client.token} {line}\n".encode())
            with self.assertRaises(GuestError) as caught:
                client.read_answer()
            self.assertEqual(caught.exception.code, "bad-request")

    def test_working_directory_and_environment(self) -> None:
        client = self.connect()
        folder = str(pathlib.Path(self.guestd.folder).resolve())
        client.send_line("RSH", ("arg", "sh"), ("arg", "-c"), ("arg", "pwd; echo $X"),
                         ("cwd", folder), ("env", "X=a b"))
        client.read_answer()
        self.file = client.file
        output = b""
        while True:
            kind, payload = self.read_frame()
            if kind == 4:
                break
            output += payload
        self.assertEqual(output.decode(), f"{folder}\na b\n")


if __name__ == "__main__":
    unittest.main()
