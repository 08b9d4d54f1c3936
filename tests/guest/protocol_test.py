"""mare-guestd's answers, above all to bad input."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
import unittest

from harness import PATIENCE_S, TOKEN, Guestd, GuestdTest, GuestError, program, wait_until


class Hello(GuestdTest):
    def test_tells_who_it_is(self) -> None:
        hello = self.connect().ask("HELLO")
        self.assertEqual(hello["protocol"], "1")
        self.assertEqual(hello["hostname"], socket.gethostname())
        with open("/proc/sys/kernel/random/boot_id") as boot_id:
            self.assertEqual(hello["boot_id"], boot_id.read().strip())
        self.assertGreater(int(hello["mem_total_kib"]), int(hello["mem_free_kib"]))
        self.assertGreater(int(hello["mem_available_kib"]), 0)
        self.assertAlmostEqual(int(hello["wall_ns"]) / 1e9, time.time(), delta=PATIENCE_S)
        self.assertAlmostEqual(int(hello["mono_ns"]) / 1e9, time.monotonic(), delta=PATIENCE_S)
        self.assertGreaterEqual(int(hello["kmsg_faults"]), 0)

    def test_many_requests_on_one_connection_also_sent_at_once(self) -> None:
        client = self.connect()
        client.socket.sendall(f"MARE1 {TOKEN} HELLO\n".encode() * 100)
        for _ in range(100):
            self.assertIn("boot_id", client.read_answer()[0])

    def test_a_line_in_single_bytes(self) -> None:
        client = self.connect()
        for byte in f"MARE1 {TOKEN} HELLO\n".encode():
            client.socket.sendall(bytes([byte]))
        self.assertIn("boot_id", client.read_answer()[0])


class BadInput(GuestdTest):
    options = ("--line-timeout-ms", "700")

    def assert_still_there(self) -> None:
        self.assertIn("boot_id", self.connect().ask("HELLO"))
        self.assertIsNone(self.guestd.process.poll())

    def test_wrong_tokens(self) -> None:
        for token in ("", "x", "wrong-token-0123456789", TOKEN[:-1], TOKEN + "x", TOKEN[:-1] + "8",
                      "%41" * 30):
            client = self.connect(token)
            self.assert_refused("denied", client, "HELLO")
            self.assertEqual(client.file.read(), b"", "the connection is closed")
        self.assert_still_there()

    def test_a_wrong_token_is_refused_before_the_line_ends(self) -> None:
        client = self.connect()
        client.socket.sendall(b"MARE1 not-the-token-0123456789-and-more")
        with self.assertRaises(GuestError) as caught:
            client.read_answer()
        self.assertEqual(caught.exception.code, "denied")

    def test_not_this_protocol(self) -> None:
        for text in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\n", b"\0\0\0\0\n",
                     b"MARE2 " + TOKEN.encode() + b" HELLO\n",
                     bytes(range(256)) * 4):
            client = self.connect()
            client.socket.sendall(text)
            with self.assertRaises(GuestError) as caught:
                client.read_answer()
            self.assertEqual(caught.exception.code, "denied")
        self.assert_still_there()

    def test_bad_requests_leave_the_connection_open(self) -> None:
        client = self.connect()
        for line in ("NONSENSE", "hello", "", " ", "HELLO  ", "HELLO x", "HELLO =x", "HELLO key=1",
                     "STATUS", "STATUS id=a",
                     "STATUS id=a dir=relative", "STATUS id=a%2Fb dir=/tmp", "STATUS id= dir=/tmp",
                     f"STATUS id={'a' * 129} dir=/tmp", "STATUS id=a id=b dir=/tmp",
                     "STATUS id=a dir=/tmp%00",
                     "STATUS id=a dir=/tmp%4", "STATUS id=a dir=/tmp%zz", "RUN id=a dir=/tmp/x",
                     "RUN id=a dir=/tmp/x arg=",
                     "RUN id=a dir=/tmp/x arg=true env=NOVALUE",
                     "RUN id=a dir=/tmp/x arg=true env=%3Dv",
                     "RUN id=a dir=/tmp/x arg=true uid=root",
                     "RUN id=a dir=/tmp/x arg=true uid=4294967295",
                     "RUN id=a dir=/tmp/x arg=true cwd=here", "OUTPUT dir=/tmp",
                     "OUTPUT dir=/tmp offset=-1 max=1",
                     "OUTPUT dir=/tmp offset=1e3 max=1",
                     "OUTPUT dir=/tmp offset=99999999999999999999 max=1",
                     "SIGNAL dir=/tmp", "SIGNAL dir=/tmp signal=0", "SIGNAL dir=/tmp signal=999",
                     "SIGNAL dir=/tmp signal=WHAT", "SETCLOCK", "SETCLOCK wall_ns=now",
                     "HELLO a=\t"):
            with self.subTest(line=line):
                client.socket.sendall(f"MARE1 {TOKEN} {line}\n".encode())
                with self.assertRaises(GuestError) as caught:
                    client.read_answer()
                self.assertEqual(caught.exception.code, "bad-request")
                self.assertTrue(caught.exception.message)
        self.assertIn("boot_id", client.ask("HELLO"))

    def test_a_giant_line(self) -> None:
        client = self.connect()
        prefix = f"MARE1 {TOKEN} STATUS id=".encode()
        try:
            client.socket.sendall(prefix + b"a" * 1000000)
        except OSError:
            pass  # It may hang up while we still send.
        with self.assertRaises((GuestError, ConnectionError, OSError)) as caught:
            client.read_answer()
        if isinstance(caught.exception, GuestError):
            self.assertEqual(caught.exception.code, "bad-request")
        self.assert_still_there()

    def test_the_longest_line_is_answered(self) -> None:
        client = self.connect()
        prefix = f"MARE1 {TOKEN} STATUS id=".encode()
        client.socket.sendall(prefix + b"a" * (65536 - len(prefix) - 1) + b"\n")
        with self.assertRaises(GuestError) as caught:
            client.read_answer()
        self.assertIn("id", caught.exception.message)
        self.assertIn("boot_id", client.ask("HELLO"))

    def test_half_a_line_then_silence(self) -> None:
        client = self.connect()
        client.socket.sendall(f"MARE1 {TOKEN} HEL".encode())
        with self.assertRaises(GuestError) as caught:
            client.read_answer()
        self.assertIn("in time", caught.exception.message)
        self.assertEqual(client.file.read(), b"")

    def test_silence_from_the_start(self) -> None:
        self.assertEqual(self.connect().file.read(), b"", "closed without a word")

    def test_an_idle_connection_with_the_token_stays(self) -> None:
        client = self.connect()
        client.ask("HELLO")
        client.socket.settimeout(1.5)  # Twice the line's time.
        with self.assertRaises(TimeoutError):
            client.socket.recv(1)

    def test_a_nul_byte(self) -> None:
        client = self.connect()
        client.socket.sendall(f"MARE1 {TOKEN} HELLO\0 x\n".encode())
        with self.assertRaises(GuestError) as caught:
            client.read_answer()
        self.assertEqual(caught.exception.code, "bad-request")

    def test_clock_and_power_are_denied_on_a_machine_that_is_no_vm_of_ours(self) -> None:
        with open("/proc/cmdline") as line:
            if " mare.ip=" in " " + line.read():
                self.skipTest("this is a Mare VM")
        client = self.connect()
        before = time.time()
        self.assertIn("mare.ip", self.assert_refused("denied", client, "SETCLOCK", ("wall_ns", 1)))
        self.assertGreaterEqual(time.time(), before)
        self.assert_refused("denied", client, "POWEROFF")
        self.assert_refused("denied", client, "DROPCACHE")


class Crowd(GuestdTest):
    options = ("--connections", "32")

    def test_two_hundred_silent_strangers_do_not_keep_friends_out(self) -> None:
        strangers = [socket.create_connection((self.guestd.address,
                                               self.guestd.port)) for _ in range(200)]
        try:
            self.assertIn("boot_id", self.connect().ask("HELLO"))
        finally:
            for stranger in strangers:
                stranger.close()

    def test_friends_are_not_thrown_out_by_strangers_or_by_each_other(self) -> None:
        friends = [self.connect() for _ in range(32)]
        for friend in friends:
            friend.ask("HELLO")
        late = self.connect()
        with self.assertRaises(GuestError) as caught:
            late.read_answer()
        self.assertEqual(caught.exception.code, "busy")
        for friend in friends:
            friend.ask("HELLO")
        friends[0].close()

        def admitted() -> bool:
            with self.guestd.connect() as client:
                try:
                    return "boot_id" in client.ask("HELLO")
                except (GuestError, ConnectionError, OSError):
                    return False

        wait_until(admitted, "a freed place is given away")

    def test_two_hundred_one_after_the_other(self) -> None:
        for _ in range(200):
            with self.guestd.connect() as client:
                client.ask("HELLO")
        with open(f"/proc/{self.guestd.process.pid}/stat") as stat:
            self.assertTrue(stat.read())


class Echo(GuestdTest):
    def setUp(self) -> None:
        super().setUp()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.connect((self.guestd.address, self.guestd.port))
        self.udp.settimeout(PATIENCE_S)
        self.addCleanup(self.udp.close)

    def test_answers_with_sequence_and_clocks(self) -> None:
        last = 0
        for number in range(50):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            self.udp.send(b"MAREPING" + struct.pack("<Q", number * 0x0123456789abcdef % (1 << 64)))
            answer = self.udp.recv(100)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            magic, sequence, monotonic, wall = struct.unpack(">8s8sQQ", answer)
            self.assertEqual(magic, b"MAREPONG")
            self.assertEqual(sequence, struct.pack("<Q", number * 0x0123456789abcdef % (1 << 64)))
            self.assertTrue(before <= monotonic <= after, "taken between question and answer")
            self.assertGreater(monotonic, last)
            self.assertAlmostEqual(wall / 1e9, time.time(), delta=PATIENCE_S)
            last = monotonic

    def test_ignores_anything_else(self) -> None:
        for packet in (b"", b"MAREPING", b"MAREPING1234567", b"MAREPING123456789",
                       b"MAREPONG12345678", b"x" * 16, b"y" * 9000):
            self.udp.send(packet)
        self.udp.send(b"MAREPING" + b"the last")
        self.assertEqual(self.udp.recv(100)[8:16], b"the last", "nothing before it was answered")


class Start(unittest.TestCase):
    def run_guestd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program("mare-guestd"), *arguments], capture_output=True, text=True,
                              timeout=PATIENCE_S,
                              check=False)

    def test_a_port_that_is_taken(self) -> None:
        guestd = Guestd()
        self.addCleanup(guestd.stop)
        second = self.run_guestd("--token-file", str(guestd.token_file), "--listen", "127.0.0.1",
                                 "--port", str(guestd.port))
        self.assertEqual(second.returncode, 1)
        self.assertIn(str(guestd.port), second.stderr)
        self.assertIn("in use", second.stderr)

    def test_bad_token_files(self) -> None:
        guestd = Guestd()
        self.addCleanup(guestd.stop)
        for content in ("", "short\n", "has spaces in it\n", "x" * 300, "nul\0nul-nul-nul"):
            path = guestd.folder / "bad"
            path.write_text(content)
            result = self.run_guestd("--token-file", str(path), "--port", "0")
            self.assertEqual(result.returncode, 1, content)
            self.assertIn(str(path), result.stderr)
        self.assertEqual(self.run_guestd("--token-file", "/nonexistent/token").returncode, 1)

    def test_options(self) -> None:
        self.assertEqual(self.run_guestd("--help").returncode, 0)
        self.assertIn("mare-guestd", self.run_guestd("--version").stdout)
        for wrong in (["--port", "x"], ["--port", "65536"], ["--listen", "localhost"],
                      ["--nonsense"], ["argument"],
                      ["--runner"], ["--connections", "0"]):
            self.assertEqual(self.run_guestd(*wrong).returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main()
