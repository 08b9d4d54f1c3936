"""mare-init and the kernel line's words. What mare-init does in a VM is tried in the lab."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import program


class WordsTest(unittest.TestCase):
    """line_has() and line_value(), by a small program that is linked with them."""

    LINE = "console=ttyS0 xmare.ip=1 mare.ip=10.0.0.7/16 mare.iphone=2 mare.host= mare.template"

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([os.environ["MARE_IDENTITY_WORDS"], *words], text=True, capture_output=True, check=False)

    def test_a_value_is_of_its_whole_word(self) -> None:
        self.assertEqual(self.ask("value", self.LINE, "mare.ip", "64").stdout, "10.0.0.7/16\n")
        self.assertEqual(self.ask("value", self.LINE, "mare.iphone", "64").stdout, "2\n")
        self.assertEqual(self.ask("value", self.LINE, "console", "64").stdout, "ttyS0\n")
        self.assertEqual(self.ask("value", "mare.ip=8", "mare.ip", "64").stdout, "8\n")

    def test_what_is_missing_empty_or_too_long_is_no_value(self) -> None:
        for word, room in (("mare.gw", "64"), ("mare.host", "64"), ("mare.template", "64"), ("ip", "64"),
                           ("mare.ip", "11")):
            with self.subTest(word=word):
                asked = self.ask("value", self.LINE, word, room)
                self.assertEqual((asked.returncode, asked.stdout), (1, ""))
        self.assertEqual(self.ask("value", self.LINE, "mare.ip", "12").returncode, 0)

    def test_a_word_stands_alone_or_with_a_value(self) -> None:
        for line, there in ((self.LINE, 0), ("mare.template", 0), ("mare.template=1 x", 0), ("xmare.template", 1),
                            ("mare.templates", 1), ("", 1), ("a=mare.template", 1)):
            with self.subTest(line=line):
                self.assertEqual(self.ask("has", line, "mare.template").returncode, there)

    def test_the_line_of_this_boot(self) -> None:
        with open("/proc/cmdline", encoding="utf-8") as line:
            self.assertEqual(self.ask("own").stdout, line.read().rstrip("\n") + "\n")


class InitTest(unittest.TestCase):
    def test_it_touches_nothing_outside_of_a_guest(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            before = sorted(os.listdir("/")), pathlib.Path("/etc/hostname").exists()
            done = subprocess.run([program("mare-init")], text=True, capture_output=True, check=False, cwd=directory,
                                  timeout=30)
            self.assertEqual(done.returncode, 2)
            self.assertIn("first program of a Maré guest", done.stderr)
            self.assertEqual((sorted(os.listdir("/")), pathlib.Path("/etc/hostname").exists()), before)


if __name__ == "__main__":
    unittest.main()
