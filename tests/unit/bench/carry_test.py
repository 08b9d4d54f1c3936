"""A file over a connection on this machine's loopback: what arrives, and what is said when it does not."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import paths

PROGRAM = str(paths.BENCH / "carry.py")


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


class Carry(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sent, self.got = Path(folder.name, "sent"), Path(folder.name, "got")
        self.receiver = start("receive", "127.0.0.1", str(self.got))
        self.addCleanup(self._end, self.receiver)
        assert self.receiver.stdout
        word, self.port = self.receiver.stdout.readline().split()
        self.assertEqual(word, "ready")

    @staticmethod
    def _end(process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.communicate()

    def test_all_of_it_arrives(self) -> None:
        for_certain = random.Random(1).randbytes(3_000_017)  # no multiple of any buffer
        self.sent.write_bytes(for_certain)
        sender = start("send", "127.0.0.1", self.port, str(self.sent))
        assert sender.stdout
        self.assertEqual(sender.stdout.readline(), "ready\n")
        self.assertFalse(self.got.exists(), "it waits for a word")
        told, wrong = sender.communicate("go\n", timeout=60)
        self.assertEqual((sender.returncode, wrong), (0, ""))
        self.assertGreater(float(told.split()[-1]), 0)
        self.assertEqual(self.receiver.wait(60), 0)
        self.assertEqual(self.got.read_bytes(), for_certain)

    def test_an_end_that_is_gone_is_a_failure(self) -> None:
        self.sent.write_bytes(b"x")
        self._end(self.receiver)
        sender = start("send", "127.0.0.1", self.port, str(self.sent))
        _, wrong = sender.communicate("go\n", timeout=60)
        self.assertEqual(sender.returncode, 1)
        self.assertIn("carry.py: ", wrong)

    def test_wrong_words(self) -> None:
        process = start("send", "here")
        self.assertIn("usage", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    unittest.main()
