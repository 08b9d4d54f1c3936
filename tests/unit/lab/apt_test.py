"""Where packages come from: sources in both of apt's forms, and what becomes of them."""

import unittest

import paths  # noqa: F401
from mare_image import apt
from mare_image.util import ImageError, explain

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/a.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""

ONE_LINE = """\
# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/etc/apt/k.gpg] http://mirror.example/debian bookworm main
deb http://mirror.example/debian bookworm-updates main
"""


def row(suite: str, component: str = "main", origin: str = "Debian", uri: str = "http://m/debian/",
        entry: str = "/etc/apt/sources.list.d/debian.sources:1") -> str:
    return f"{origin}|{suite}|{uri}|{uri}dists/{suite}/|{component}|{entry}"


class SignedBy(unittest.TestCase):
    def test_deb822_by_the_stanza_that_a_line_is_in(self) -> None:
        self.assertEqual(apt.signed_by_of_entry(DEB822, 1), "/usr/share/keyrings/a.gpg")

    def test_a_key_that_is_embedded_comes_back_whole(self) -> None:
        key = apt.signed_by_of_entry(DEB822, 8)
        assert key is not None
        self.assertTrue(key.startswith("-----BEGIN PGP"))
        self.assertTrue(key.endswith("END PGP PUBLIC KEY BLOCK-----"))
        self.assertIn("\n.\n", key)

    def test_one_line_entries_with_and_without(self) -> None:
        self.assertEqual(apt.signed_by_of_entry(ONE_LINE, 2), "/etc/apt/k.gpg")
        self.assertIsNone(apt.signed_by_of_entry(ONE_LINE, 3))


class Sources(unittest.TestCase):
    def lines(self, *rows: str, keys: dict[str, str | None] | None = None) -> list[str]:
        return apt.source_lines(apt.parse_targets("\n".join(rows)), "bookworm", keys or {})

    def test_release_updates_and_security_are_taken_backports_and_strangers_are_not(self) -> None:
        self.assertEqual(
            self.lines(row("bookworm"), row("bookworm-updates"), row("bookworm-backports"),
                       row("bookworm-security", uri="http://m/security/"),
                       row("bookworm", origin="Other", uri="http://other/")),
            ["deb http://m/debian/ bookworm main", "deb http://m/debian/ bookworm-updates main",
             "deb http://m/security/ bookworm-security main"])

    def test_components_of_one_suite_share_a_line_and_the_key_goes_with_it(self) -> None:
        entry = "/etc/apt/sources.list.d/debian.sources:1"
        self.assertEqual(
            self.lines(row("bookworm"), row("bookworm", "contrib"), keys={entry: "/k.gpg"}),
            ["deb [signed-by=/k.gpg] http://m/debian/ bookworm main contrib"])

    def test_a_machine_without_the_release_is_told_what_to_do(self) -> None:
        with self.assertRaisesRegex(ImageError, "--mirror"):
            self.lines(row("trixie"))

    def test_the_name_of_the_release(self) -> None:
        self.assertEqual(apt.host_codename('ID=debian\nVERSION_CODENAME=bookworm\n'), "bookworm")
        with self.assertRaises(ImageError):
            apt.host_codename("ID=other\n")


class Explanations(unittest.TestCase):
    def test_an_unknown_package_is_named(self) -> None:
        text = explain("building", ["E: Unable to locate package nonsense"], 100)
        self.assertIn("'nonsense'", text)

    def test_a_full_disk_and_a_silent_mirror_have_their_remedies(self) -> None:
        self.assertIn("--images", explain("x", ["tar: No space left on device"], 2))
        self.assertIn("network", explain("x", ["E: Temporary failure resolving 'm'"], 100))

    def test_otherwise_the_programs_own_errors_are_shown(self) -> None:
        self.assertIn("E: strange", explain("x", ["I: fine", "E: strange", "I: bye"], 1))


if __name__ == "__main__":
    unittest.main()
