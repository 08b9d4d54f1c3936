"""Versions of images: which is current, what is deleted, what an interrupted build leaves."""

import json
import tempfile
import unittest
from pathlib import Path

import paths  # noqa: F401
from mare_image import build, layout
from mare_image.util import ImageError, digest_tree


class Images(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.images = Path(self._directory.name).resolve()
        self.addCleanup(self._directory.cleanup)

    def version(self, name: str, version: str, created: str) -> Path:
        directory = self.images / name / version
        (directory / "root").mkdir(parents=True)
        manifest = {"name": name, "version": version, "created": created}
        (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return directory

    def names(self) -> list[str]:
        return [f"{v.name}/{v.version}" for v in layout.versions(self.images)]

    def test_versions_are_listed_by_age_and_the_current_one_is_marked(self) -> None:
        self.version("base", "bb", "2026-01-01T00:00:00Z")
        self.version("base", "aa", "2026-01-02T00:00:00Z")
        layout.set_current(self.images, "base", "bb")
        self.assertEqual(self.names(), ["base/bb", "base/aa"])
        self.assertEqual([v.current for v in layout.versions(self.images)], [True, False])

    def test_half_a_version_is_not_one_and_is_cleared_away(self) -> None:
        self.version("base", "aa.partial", "2026-01-01T00:00:00Z")
        (self.images / "base" / "bb").mkdir()
        (self.images / ".cache").mkdir()
        (self.images / ".cache" / "scratch.1.partial").mkdir()
        self.assertEqual(self.names(), [])
        layout.clean_up(self.images)
        self.assertEqual(sorted(p.name for p in self.images.glob("*/*")), ["bb"])

    def test_the_current_version_is_not_deleted_by_itself(self) -> None:
        self.version("base", "aa", "2026-01-01T00:00:00Z")
        layout.set_current(self.images, "base", "aa")
        with self.assertRaisesRegex(ImageError, "current"):
            layout.delete(self.images, "base", "aa", force=False)
        self.assertEqual(self.names(), ["base/aa"])
        layout.delete(self.images, "base", None, force=False)
        self.assertFalse((self.images / "base").exists())

    def test_what_is_not_there_cannot_be_deleted(self) -> None:
        with self.assertRaisesRegex(ImageError, "base/zz"):
            layout.delete(self.images, "base", "zz", force=False)

    def test_keep_spares_the_newest_and_the_current(self) -> None:
        for number in range(1, 6):
            self.version("base", f"v{number}", f"2026-01-0{number}T00:00:00Z")
        layout.set_current(self.images, "base", "v1")
        self.assertEqual(layout.keep_newest(self.images, "base", 2), ["v2", "v3"])
        self.assertEqual(self.names(), ["base/v1", "base/v4", "base/v5"])

    def test_bad_names_are_refused(self) -> None:
        for name in ("", "..", "a/b", "Upper", "x.partial", "current", "-x", "a" * 64):
            with self.subTest(name), self.assertRaises(ImageError):
                layout.check_name(name)
        self.assertEqual(layout.check_name("my-image_2.1"), "my-image_2.1")


class CopyOver(unittest.TestCase):
    def test_files_land_behind_the_links_of_a_merged_usr(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            source, root = Path(name) / "source", Path(name) / "root"
            (source / "sbin").mkdir(parents=True)
            (source / "sbin" / "tool").write_text("new", encoding="utf-8")
            (root / "usr" / "sbin").mkdir(parents=True)
            (root / "sbin").symlink_to("usr/sbin")
            (root / "usr" / "sbin" / "tool").write_text("old", encoding="utf-8")
            build.copy_over(source, root)
            self.assertTrue((root / "sbin").is_symlink())
            self.assertEqual((root / "usr" / "sbin" / "tool").read_text(encoding="utf-8"), "new")

    def test_a_file_in_the_place_of_a_directory_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            source, root = Path(name) / "source", Path(name) / "root"
            source.mkdir()
            (source / "etc").write_text("x", encoding="utf-8")
            (root / "etc").mkdir(parents=True)
            with self.assertRaisesRegex(ImageError, "directory"):
                build.copy_over(source, root)


class Digest(unittest.TestCase):
    def test_contents_names_and_permissions_count_and_times_do_not(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            file = root / "a"
            file.write_text("one", encoding="utf-8")
            first = digest_tree(root)
            import os
            os.utime(file, (1, 1))
            self.assertEqual(digest_tree(root), first)
            file.chmod(0o755)
            second = digest_tree(root)
            file.write_text("two", encoding="utf-8")
            third = digest_tree(root)
            file.rename(root / "b")
            self.assertEqual(len({first, second, third, digest_tree(root)}), 4)


if __name__ == "__main__":
    unittest.main()
