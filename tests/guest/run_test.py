"""RUN, STATUS, OUTPUT, SIGNAL: a program runs once, and how it ended is known whatever dies."""

from __future__ import annotations

import os
import pathlib
import signal
import tempfile
import threading
import unittest

from harness import Guestd, GuestdTest, GuestError, alive, wait_until


class Ends(GuestdTest):
    def test_exit_codes(self) -> None:
        client = self.connect()
        for code in (0, 1, 7, 255):
            directory = self.directory(f"exit-{code}")
            client.run("job", directory, "sh", "-c", f"exit {code}")
            state = client.wait_exited("job", directory)
            self.assertEqual((state["state"], state["exit"]), ("exited", str(code)))
            self.assertNotIn("signal", state)
            self.assertEqual((directory / "exit").read_text(), f"exit {code}\n")

    def test_death_by_signal(self) -> None:
        client = self.connect()
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            directory = self.directory(f"signal-{number}")
            client.run("job", directory, "sh", "-c", f"kill -{int(number)} $$")
            state = client.wait_exited("job", directory)
            self.assertEqual((state["state"], state["signal"]), ("exited", str(int(number))))
            self.assertEqual((directory / "exit").read_text(), f"signal {int(number)}\n")

    def test_programs_that_cannot_run(self) -> None:
        client = self.connect()
        plain = self.directory("plain")
        plain.write_text("not a program")
        for name, arguments, code in (("missing", ["/nonexistent/program"], "127"),
                                      ("plain-file", [str(plain)], "126"),
                                      ("not-in-path", ["no-such-program-anywhere"], "127")):
            directory = self.directory(name)
            client.run("job", directory, *arguments)
            self.assertEqual(client.wait_exited("job", directory)["exit"], code)
            self.assertIn(arguments[0].encode(), client.output(directory))

    def test_a_missing_working_directory(self) -> None:
        client = self.connect()
        client.run("job", self.directory("a"), "true", cwd="/nonexistent/place")
        self.assertEqual(client.wait_exited("job", self.directory("a"))["exit"], "126")
        self.assertIn(b"working directory", client.output(self.directory("a")))

    def test_a_directory_that_cannot_be_made(self) -> None:
        client = self.connect()
        message = self.assert_refused("failed", client, "RUN", ("id", "j"),
                                      ("dir", "/nonexistent/a/b"), ("arg", "true"))
        self.assertIn("/nonexistent/a/b", message)
        plain = self.directory("plain")
        plain.write_text("a file")
        self.assert_refused("failed", client, "RUN", ("id", "j"), ("dir", plain), ("arg", "true"))


class Surroundings(GuestdTest):
    def test_arguments_environment_directory_and_streams(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        script = ('pwd; printf "%s|" "$@"; echo; echo "$A,$B,$HOME,$MARE_TOKEN_FILE"; '
                  'echo to-stderr >&2; cat; echo end')
        client.ask("RUN", ("id", "j"), ("dir", directory), ("arg", "sh"), ("arg", "-c"),
                   ("arg", script), ("arg", "sh"),
                   ("arg", "two words"), ("arg", "%41\n\u00e9="), ("arg", ""), ("env", "A=x=y z"),
                   ("env", "B="),
                   ("env", "HOME=/elsewhere"))
        client.wait_exited("j", directory)
        lines = client.output(directory).decode().split("\n")
        self.assertEqual(lines[0], str(directory))
        self.assertEqual("\n".join(lines[1:3]), "two words|%41\n\u00e9=||")
        self.assertEqual(lines[3], f"x=y z,,/elsewhere,{self.guestd.token_file}")
        self.assertEqual(lines[4:6], ["to-stderr", "end"], "standard input is empty")

    def test_a_session_and_group_of_its_own_without_foreign_descriptors(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c",
                   "echo $$; cut -d' ' -f5,6 /proc/$$/stat; ls /proc/self/fd | wc -l")
        state = client.wait_exited("j", directory)
        lines = client.output(directory).decode().split("\n")
        self.assertEqual(lines[0], state["pid"])
        self.assertEqual(lines[1], f"{state['pid']} {state['pid']}")
        self.assertEqual(lines[2], "4", "0, 1, 2, and that of ls itself")

    def test_signals_are_not_ignored_in_the_program(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "grep -E 'Sig(Ign|Blk)' /proc/self/status")
        client.wait_exited("j", directory)
        for line in client.output(directory).decode().splitlines():
            self.assertEqual(int(line.split()[1], 16), 0, line)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_another_user(self) -> None:
        os.chmod(self.guestd.folder, 0o755)
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "id -u; id -g; id -G; touch mine", uid=65534,
                   gid=65533)
        state = client.wait_exited("j", directory)
        self.assertEqual(client.output(directory), b"65534\n65533\n65533\n")
        self.assertEqual(state["exit"], "0", "the directory is its own")


class Once(GuestdTest):
    def test_a_second_run_starts_nothing(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        first = client.run("j", directory, "sh", "-c", "echo once; exec sleep 600")
        self.assertEqual(first["state"], "running")
        wait_until(lambda: client.output(directory) == b"once\n", "the program wrote")
        second = client.run("j", directory, "sh", "-c", "echo twice")
        self.assertEqual(second["pid"], first["pid"])
        client.ask("SIGNAL", ("dir", directory), ("signal", "KILL"))
        client.wait_exited("j", directory)
        third = client.run("j", directory, "sh", "-c", "echo thrice")
        self.assertEqual((third["state"], third["signal"]), ("exited", "9"))
        self.assertEqual(client.output(directory), b"once\n")

    def test_a_directory_belongs_to_one_id(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j1", directory, "true")
        for verb, fields in (("RUN", [("id", "j2"), ("dir", directory), ("arg", "true")]),
                             ("STATUS", [("id", "j2"), ("dir", directory)]),
                             ("SIGNAL", [("id", "j2"), ("dir", directory), ("signal", "TERM")])):
            self.assertIn("'j1'", self.assert_refused("exists", client, verb, *fields))

    def test_twenty_at_once_run_it_once(self) -> None:
        directory = self.directory("job")
        states: list[str] = []

        def run() -> None:
            with self.guestd.connect() as client:
                states.append(client.run("j", directory, "sh", "-c",
                                         "echo here >> ran; exec sleep 600")["state"])

        threads = [threading.Thread(target=run) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(states, ["running"] * 20)
        client = self.connect()
        wait_until((directory / "ran").exists, "the program ran")
        client.ask("SIGNAL", ("dir", directory), ("signal", "KILL"))
        client.wait_exited("j", directory)
        self.assertEqual((directory / "ran").read_text(), "here\n")
        names = sorted(path.name for path in directory.iterdir())
        self.assertEqual(names, ["claim", "exit", "output", "pid", "ran"],
                         "no temporary files are left")

    def test_unknown(self) -> None:
        client = self.connect()
        self.assertEqual(client.status("j", self.directory("never"))["state"], "unknown")
        self.assert_refused("not-found", client, "SIGNAL", ("dir", self.directory("never")),
                            ("signal", "TERM"))
        self.assert_refused("not-found", client, "OUTPUT", ("dir", self.directory("never")),
                            ("offset", 0), ("max", 1))


class Output(GuestdTest):
    def test_offsets(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "printf 0123456789")
        self.assertEqual(client.wait_exited("j", directory)["output_bytes"], "10")
        for offset, most, expected in ((0, 100, b"0123456789"), (0, 4, b"0123"), (4, 4, b"4567"),
                                       (8, 4, b"89"),
                                       (10, 4, b""), (1000, 4, b""), (3, 0, b"")):
            client.send_line("OUTPUT", ("dir", directory), ("offset", offset), ("max", most))
            fields, payload = client.read_answer()
            self.assertEqual(payload, expected)
            self.assertEqual((fields["offset"], fields["total"]), (str(offset), "10"))

    def test_a_large_output_comes_in_pieces_of_a_mebibyte(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "yes 0123456789abcde | head -c 3000000")
        client.wait_exited("j", directory)
        data = b""
        while True:
            piece = client.output(directory, len(data), 1 << 40)
            if not piece:
                break
            self.assertLessEqual(len(piece), 1 << 20)
            data += piece
        self.assertEqual(data, (b"0123456789abcde\n" * 200000)[:3000000])

    def test_grows_while_the_program_runs(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c",
                   "echo first; until [ -e go ]; do sleep 0.02; done; echo second")
        wait_until(lambda: client.output(directory) == b"first\n", "the first line")
        (directory / "go").touch()
        wait_until(lambda: client.output(directory, 6) == b"second\n", "the second line")

    def test_how_a_running_program_is_can_be_told_without_its_files(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
        wait_until(lambda: client.status("j", directory)["output_bytes"] == "4", "the first line is counted")
        # Each look at them is a call of the NFS server, out of the rank's CPU time.
        (directory / "claim").rename(directory / "elsewhere")
        self.assertEqual(client.status("j", directory)["state"], "running")
        (directory / "elsewhere").rename(directory / "claim")
        self.assert_refused("exists", client, "STATUS", ("id", "another"), ("dir", directory))
        (directory / "go").touch()
        self.assertEqual(client.wait_exited("j", directory)["output_bytes"], "8")


class PutBack(GuestdTest):
    """In a VM that went back to a checkpoint, the job's files are of a later time than its memory."""

    def test_what_a_life_that_was_undone_left_behind_does_not_count(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c",
                   "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3")
        wait_until(lambda: client.output(directory) == b"one\n", "its first line")
        with open(directory / "output", "ab") as output:
            output.write(b"two, and some more of what is not true any longer\n" * 10)
        (directory / "exit").write_text("exit 1\n")
        state = client.status("j", directory)
        self.assertEqual((state["state"], state["output_bytes"]), ("running", "4"))
        self.assertEqual(client.output(directory), b"one\n", "only what this life has written")
        (directory / "go").touch()
        state = client.wait_exited("j", directory)
        self.assertEqual((state["state"], state["exit"]), ("exited", "3"))
        self.assertEqual(client.output(directory), b"one\ntwo\n")


class Signals(GuestdTest):
    def test_reach_the_whole_group(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c", "sleep 600 & echo $!; wait")
        wait_until(lambda: client.output(directory).endswith(b"\n"), "the child's pid")
        child = int(client.output(directory))
        client.ask("SIGNAL", ("dir", directory), ("signal", "TERM"), ("id", "j"))
        self.assertEqual(client.wait_exited("j", directory)["signal"], "15")
        wait_until(lambda: not alive(child), "the child died")
        self.assert_refused("not-found", client, "SIGNAL", ("dir", directory), ("signal", "TERM"))

    def test_can_be_handled(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sh", "-c",
                   "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.02; done")
        wait_until(lambda: b"ready" in client.output(directory), "the trap is set")
        client.ask("SIGNAL", ("dir", directory), ("signal", int(signal.SIGUSR1)))
        self.assertEqual(client.wait_exited("j", directory)["exit"], "5")
        # In between the shell may tell that its sleep was hit as well.
        self.assertTrue(client.output(directory).endswith(b"caught\n"))


@unittest.skipUnless(os.geteuid() == 0, "only root can mount")
class FullDisk(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mare-full-")
        self.addCleanup(folder.cleanup)
        disk = pathlib.Path(folder.name) / "disk"
        disk.mkdir()
        # A small disk that only this mare-guestd sees; we look at it through its root.
        prefix = ("unshare", "--mount", "--propagation", "unchanged", "sh", "-c",
                  # A chroot's "/" is no mount; then it is the chroot's maker who has made all private.
                  f'mount --make-rprivate / 2>/dev/null; mount -t tmpfs -o size=64k tmpfs {disk} && exec "$@"', "sh")
        self.guestd = Guestd(prefix=prefix, folder=folder.name)
        self.addCleanup(self.guestd.stop)
        self.directory = disk / "job"
        self.seen = pathlib.Path(f"/proc/{self.guestd.process.pid}/root{disk}")
        self.filler = self.seen / "filler"
        self.client = self.guestd.connect()
        self.addCleanup(self.client.close)

    def fill(self) -> None:
        with open(self.filler, "wb", buffering=0) as filler, self.assertRaises(OSError):
            while True:
                filler.write(b"x" * 4096)

    def test_the_end_is_recorded_when_there_is_room_again(self) -> None:
        self.client.run("j", self.directory, "sleep", "600")
        self.fill()
        self.client.ask("SIGNAL", ("dir", self.directory), ("signal", "KILL"))
        program = int(self.client.status("j", self.directory)["pid"])
        wait_until(lambda: not alive(program), "the program died")
        self.assertEqual(self.client.status("j", self.directory)["state"], "running",
                         "not lost: its end is still to be written")
        self.filler.unlink()
        self.assertEqual(self.client.wait_exited("j", self.directory)["signal"], "9")

    def test_no_room_to_begin(self) -> None:
        self.fill()
        with self.assertRaises(GuestError) as caught:
            self.client.run("j", self.directory, "true")
        self.assertEqual(caught.exception.code, "failed")
        self.assertIn("No space left", caught.exception.message)
        self.assertEqual(self.client.status("j", self.directory)["state"], "unknown")
        self.filler.unlink()
        self.client.run("j", self.directory, "true")
        self.assertEqual(self.client.wait_exited("j", self.directory)["exit"], "0")


class Deaths(GuestdTest):
    def runner_of(self, directory: pathlib.Path) -> int:
        return int((directory / "claim").read_text().split("runner ")[1].split()[0])

    def restart(self) -> None:
        """Another mare-guestd, which knows nothing but the files."""
        self.guestd.kill()
        old = self.guestd
        self.guestd = Guestd(folder=str(old.folder))
        self.addCleanup(self.guestd.stop)

    def test_the_daemon_dies_while_the_program_runs(self) -> None:
        directory = self.directory("job")
        client = self.connect()
        started = client.run("j", directory, "sh", "-c",
                             "echo before; until [ -e go ]; do sleep 0.02; done; "
                             "echo after; exit 9")
        self.restart()
        client = self.connect()
        self.assertEqual(client.run("j", directory, "false")["pid"], started["pid"])
        (directory / "go").touch()
        self.assertEqual(client.wait_exited("j", directory)["exit"], "9")
        self.assertEqual(client.output(directory), b"before\nafter\n")

    def test_the_program_ends_while_no_daemon_is_there(self) -> None:
        directory = self.directory("job")
        self.connect().run("j", directory, "sh", "-c",
                           "until [ -e go ]; do sleep 0.02; done; exit 6")
        self.guestd.kill()
        (directory / "go").touch()
        wait_until((directory / "exit").exists, "the runner wrote down the end")
        self.restart()
        # Its runner may live for a moment after it wrote that down.
        self.assertEqual(self.connect().wait_exited("j", directory)["exit"], "6")

    def test_the_runner_is_killed(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        program = int(client.run("j", directory, "sleep", "600")["pid"])
        os.kill(self.runner_of(directory), signal.SIGKILL)
        wait_until(lambda: client.status("j", directory)["state"] == "lost", "the loss is noticed")
        wait_until(lambda: not alive(program), "'lost' means that nothing runs")
        self.assertEqual(client.run("j", directory, "true")["state"], "lost",
                         "and it is not started again")

    def test_the_runner_survives_what_ends_programs(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "sleep", "600")
        runner = self.runner_of(directory)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(runner, number)
        self.assertEqual(client.status("j", directory)["state"], "running")
        client.ask("SIGNAL", ("dir", directory), ("signal", "INT"))
        self.assertEqual(client.wait_exited("j", directory)["signal"], "2")

    def test_another_boot(self) -> None:
        """What a VM finds after it was started anew."""
        client = self.connect()
        directory = self.directory("job")
        client.run("j", directory, "true")
        client.wait_exited("j", directory)
        (directory / "exit").unlink()
        claim = (directory / "claim").read_text()
        boot = claim.split("boot ")[1].split()[0]
        (directory / "claim").write_text(claim.replace(boot,
                                                       "00000000-0000-0000-0000-000000000000"))
        self.assertEqual(client.status("j", directory)["state"], "lost")

    def test_another_guest(self) -> None:
        """The directory is shared by all guests: only the one that runs the program may speak."""
        client = self.connect()
        directory = self.directory("job")
        directory.mkdir()
        (directory / "claim").write_text(
            "id j\nhost other-vm\nboot 11111111-0000-0000-0000-000000000000\nrunner 1 1\n")
        self.assertIn("other-vm", self.assert_refused("exists", client, "STATUS", ("id", "j"),
                                                      ("dir", directory)))
        self.assert_refused("exists", client, "RUN", ("id", "j"), ("dir", directory),
                            ("arg", "true"))

    def test_a_damaged_claim(self) -> None:
        client = self.connect()
        directory = self.directory("job")
        directory.mkdir()
        (directory / "claim").write_text("rubbish")
        self.assertIn("claim", self.assert_refused("failed", client, "STATUS", ("id", "j"),
                                                   ("dir", directory)))
        with self.assertRaises(GuestError):
            client.run("j", directory, "true")


if __name__ == "__main__":
    unittest.main()
