"""Tests of the reading of the table of mounts."""

from __future__ import annotations

import tempfile
import unittest

import paths  # noqa: F401
from mare_lab.mounts import Mount, mounts

TABLE = """\
/dev/vda / ext4 rw,relatime 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0
tmpfs /a\\040b\\134c tmpfs rw 0 0
"""


class Mounts(unittest.TestCase):
    def test_points_kinds_and_options(self) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(TABLE)
            file.flush()
            found = mounts(file.name)
        self.assertEqual(found, [Mount("/", "ext4", ("rw", "relatime")), Mount("/sys/fs/cgroup/cpu", "cgroup", ("rw", "cpu", "cpuacct")),
                                 Mount("/a b\\c", "tmpfs", ("rw",))])

    def test_of_this_machine(self) -> None:
        self.assertIn("/proc", [one.point for one in mounts()])


if __name__ == "__main__":
    unittest.main()
