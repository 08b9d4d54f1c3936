"""The order of modules, and the archive that the guest boots from."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import paths
from mare_image import cpio, kernel
from mare_image.util import ImageError

DEPENDS = {"nfsv4": ["nfs", "sunrpc", "dns_resolver"], "nfs": ["sunrpc", "lockd"],
           "lockd": ["sunrpc", "grace"], "sunrpc": [], "grace": [], "dns_resolver": []}


class Order(unittest.TestCase):
    def test_each_module_comes_after_what_it_needs_and_only_once(self) -> None:
        order = kernel.load_order(["nfsv4", "nfs"], DEPENDS, set())
        self.assertEqual(sorted(order), sorted(DEPENDS))
        for name in order:
            for needed in DEPENDS[name]:
                self.assertLess(order.index(needed), order.index(name), f"{needed} for {name}")

    def test_what_is_built_in_is_neither_loaded_nor_missed(self) -> None:
        self.assertEqual(kernel.load_order(["overlay", "nfs"], {"nfs": ["sunrpc"]},
                                           {"overlay", "sunrpc"}), ["nfs"])

    def test_a_missing_module_is_named_with_the_one_that_needs_it(self) -> None:
        with self.assertRaisesRegex(ImageError, "'grace'.*lockd"):
            kernel.load_order(["lockd"], {"lockd": ["grace"]}, set())

    def test_a_circle_ends_with_an_error(self) -> None:
        with self.assertRaisesRegex(ImageError, "circle"):
            kernel.load_order(["a"], {"a": ["b"], "b": ["a"]}, set())

    def test_dependencies_are_read_from_the_modules_information(self) -> None:
        self.assertEqual(kernel.depends_of(b"x\0depends=net-failover,virtio\0retpoline=Y\0"),
                         ["net_failover", "virtio"])
        self.assertEqual(kernel.depends_of(b"x\0depends=\0y"), [])
        self.assertEqual(kernel.depends_of(b"nothing"), [])


class Archive(unittest.TestCase):
    def archive(self) -> bytes:
        return cpio.archive([cpio.directory("bin"), cpio.file("bin/tool", b"#!x\n", 0o755),
                             cpio.symlink("bin/other", "tool"), cpio.file("empty", b"")])

    def test_the_same_inputs_give_the_same_bytes(self) -> None:
        self.assertEqual(self.archive(), self.archive())

    @unittest.skipUnless(shutil.which("cpio"), "cpio is not installed")
    def test_cpio_unpacks_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            subprocess.run(["cpio", "-id", "--quiet"], input=self.archive(), cwd=name, check=True)
            root = Path(name)
            self.assertEqual((root / "bin" / "other").read_bytes(), b"#!x\n")
            self.assertEqual((root / "bin" / "tool").stat().st_mode & 0o777, 0o755)
            self.assertEqual((root / "empty").read_bytes(), b"")


class Scripts(unittest.TestCase):
    INIT = paths.BUILDER / "initramfs" / "init"

    def test_the_first_program_of_the_guest_is_valid_shell(self) -> None:
        done = subprocess.run(["sh", "-n", str(self.INIT)], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_initramfs_has_every_program_that_its_init_calls(self) -> None:
        text = self.INIT.read_text(encoding="utf-8")
        for applet in ("mount", "insmod", "sleep", "rm", "poweroff"):
            self.assertIn(applet + " ", text)
            self.assertIn(applet, kernel.APPLETS)
        self.assertIn("exec mare-init", text)
        self.assertIn("mare-init", kernel.INITRAMFS_PROGRAMS)

    def test_every_word_of_the_kernel_line_that_is_documented_is_read(self) -> None:
        text = (paths.BUILDER.parent / "guest" / "init.c").read_text(encoding="utf-8")
        for word in ("ip", "gw", "host", "nfs", "root", "jobs", "token", "mac", "machine"):
            self.assertIn(f'"mare.{word}"', text)


if __name__ == "__main__":
    unittest.main()
