"""The lints themselves: each rule is broken once, in a tree of the test's making."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import common
import include_lint
import words_lint


class Tree(unittest.TestCase):
    """A small tree with the real document of the rooms."""

    def setUp(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="mare-lint-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/architecture.md", (common.ROOT / "docs/architecture.md").read_text())
        self.write("orchestrator/core/clock.h", "#pragma once\n")
        self.write("orchestrator/store/store.h", '#include "orchestrator/core/clock.h"\n')

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def includes(self) -> list[str]:
        return [str(finding) for finding in include_lint.check_tree(self.root)[0]]

    def words(self) -> list[str]:
        return [str(finding) for finding in words_lint.check_tree(self.root)[0]]


class IncludeLintTest(Tree):
    def assert_broken(self, path: str, text: str, expected: str) -> None:
        self.write(path, text)
        found = self.includes()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(path + ":"), found)
        self.assertIn(expected, found[0])

    def test_the_clean_tree_is_clean(self) -> None:
        self.assertEqual(self.includes(), [])

    def test_an_include_against_the_arrows(self) -> None:
        self.assert_broken("orchestrator/policy/p.cpp", '#include <map>\n\n#include "orchestrator/store/store.h"\n',
                           "p.cpp:3: \"orchestrator/store/store.h\": orchestrator/policy may include only core, model")

    def test_core_includes_nothing(self) -> None:
        self.assert_broken("orchestrator/core/x.cpp", '#include "orchestrator/store/store.h"\n', "may include only std")

    def test_siblings_are_blind_to_each_other(self) -> None:
        self.write("hypervisor/sim/sim.h", "")
        self.assert_broken("hypervisor/libvirt/x.cpp", '#include "hypervisor/sim/sim.h"\n',
                           "driver.h, checkpointfile, dirtylog, leases, own C library")

    def test_what_a_permitted_room_may_include_is_permitted(self) -> None:
        self.write("orchestrator/engine/e.cpp", '#include "orchestrator/core/clock.h"\n')
        self.assertEqual(self.includes(), [])

    def test_a_library_in_the_wrong_room(self) -> None:
        self.assert_broken("orchestrator/engine/e.cpp", "#include <sqlite3.h>\n", "may not include sqlite3")

    def test_the_http_library_has_one_file(self) -> None:
        self.write("rest/server/cpprest_server.cpp", "#include <cpprest/http_listener.h>\n")
        self.assertEqual(self.includes(), [])
        self.assert_broken("rest/server/router.cpp", "#include <cpprest/json.h>\n", "only rest/server/cpprest_server.cpp")

    def test_a_library_nobody_knows(self) -> None:
        self.assert_broken("orchestrator/core/x.h", "#include <gsl/gsl>\n", "no library that")

    def test_test_libraries_stay_in_tests(self) -> None:
        self.assert_broken("orchestrator/core/x.h", "#include <gtest/gtest.h>\n", "may not include tests")

    def test_relative_includes(self) -> None:
        self.assert_broken("orchestrator/core/x.cpp", '#include "clock.h"\n', "not written from the repository's root")

    def test_a_folder_that_is_no_room(self) -> None:
        self.assert_broken("orchestrator/misc/x.cpp", '#include "orchestrator/core/clock.h"\n', "belongs to no room")

    def test_a_link_against_the_arrows(self) -> None:
        self.assert_broken("orchestrator/policy/CMakeLists.txt",
                           "add_library(mare_policy p.cpp)\ntarget_link_libraries(mare_policy PUBLIC mare_store)\n",
                           "mare_policy links mare_store")

    def test_a_foreign_library_in_public(self) -> None:
        self.assert_broken("orchestrator/store/CMakeLists.txt",
                           "target_link_libraries(mare_store\n  PUBLIC mare_core SQLite::SQLite3)\n",
                           "linked PRIVATE")

    def test_the_document_and_the_rules_must_agree(self) -> None:
        text = (self.root / "docs/architecture.md").read_text()
        changed = text.replace("| policy, store, driver.h |", "| policy, store, driver.h, curl |")
        self.assertNotEqual(text, changed)
        self.assert_broken("docs/architecture.md", changed, "orchestrator/engine may include")

    def test_a_room_that_the_rules_do_not_know(self) -> None:
        text = (self.root / "docs/architecture.md").read_text()
        row = next(line for line in text.splitlines() if line.startswith("| `orchestrator/store`"))
        more = row.replace("orchestrator/store", "orchestrator/forecast")
        self.assert_broken("docs/architecture.md", text.replace(row, row + "\n" + more), "orchestrator/forecast")


class WordsLintTest(Tree):
    def assert_banned(self, path: str, line: str) -> None:
        self.write(path, "#!/usr/bin/python3\n" + line + "\n")
        found = self.words()
        self.assertEqual([text.split(": ")[0] for text in found], [f"{path}:2"], found)
        (self.root / path).unlink()

    def assert_fine(self, path: str, line: str) -> None:
        self.write(path, "#!/usr/bin/python3\n" + line + "\n")
        self.assertEqual(self.words(), [])
        (self.root / path).unlink()

    def test_time_and_chance(self) -> None:
        for line in ("auto t = std::chrono::steady_clock::now();", "std::this_thread::sleep_for(1s);",
                     "std::random_device r;", "std::mt19937 g(1);", "clock_gettime(CLOCK_MONOTONIC, &t);",
                     "usleep(5);", "long t = time(nullptr);", "std::srand(time(nullptr));", "throw 1;"):
            with self.subTest(line):
                self.assert_banned("orchestrator/engine/x.cpp", line)

    def test_what_looks_like_it_and_is_not(self) -> None:
        for line in ("clock_.sleep_for(pause);", "auto t = clock.now();", "// never steady_clock here",
                     "reader.time(name);", "auto uptime(int);", "nu.rand(1);"):
            with self.subTest(line):
                self.assert_fine("orchestrator/engine/x.cpp", line)
        self.assert_fine("orchestrator/core/clock.cpp", "std::this_thread::sleep_for(duration);")

    def test_tests_do_not_sleep(self) -> None:
        self.assert_banned("tests/unit/x_test.cpp", "std::this_thread::sleep_for(1s);")
        self.assert_banned("tests/lab/x_test.py", "time.sleep(1)")
        self.assert_fine("tests/lab/lib/waiting.py", "time.sleep(0.1)")

    def test_what_the_sanitizers_build_does_not_take(self) -> None:
        for line in ("#include <regex>", 'const std::regex name("a");', "std::sregex_iterator at;"):
            with self.subTest(line):
                self.assert_banned("tests/unit/x_test.cpp", line)

    def test_names_of_one_machine(self) -> None:
        self.assert_banned("docs/x.md", "see /home/mary/mare")
        self.assert_banned("quickstart", 'cd "/root/mare"')
        host = "deb." + "debian" + ".org"
        self.assert_banned("images/builder/x.py", f'MIRROR = "http://{host}/debian"')
        self.assert_fine("docs/x.md", "see /var/lib/mare and root/bin")

    def test_loose_ends(self) -> None:
        self.assert_banned("ui/cli/x.cpp", "// TODO: later")

    def test_long_files_and_lines(self) -> None:
        self.write("ui/cli/x.cpp", "int a;\n" * 801)
        self.assertIn("801 lines", self.words()[0])
        self.write("ui/cli/x.cpp", "int a;\n" * 800 + "")
        self.assertEqual(self.words(), [])
        self.assert_banned("tests/unit/y.py", "x = '" + "y" * 160 + "'")


class FormatLintTest(Tree):
    def run_lint(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(common.ROOT / "tests/lint/format_lint.py"), "--root", str(self.root)],
                              capture_output=True, text=True, check=False)

    def test_a_file_out_of_shape_is_named(self) -> None:
        shutil.copy(common.ROOT / ".clang-format", self.root)
        self.assertEqual(self.run_lint().returncode, 0)
        self.write("ui/cli/x.cpp", "int  main( ){return 0 ;}\n")
        done = self.run_lint()
        self.assertEqual(done.returncode, 1)
        self.assertIn("ui/cli/x.cpp:1: not formatted", done.stdout)


if __name__ == "__main__":
    unittest.main()
