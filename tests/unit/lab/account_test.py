"""What the lab's runner runs once more."""

import contextlib
import io
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree
from pathlib import Path

import paths

sys.path.insert(0, str(paths.ROOT / "tests" / "lab"))

from lib.account import Account  # noqa: E402

TESTS = """
import unittest

class Alone(unittest.TestCase):
    def setUp(self): pass
    def test_right(self): pass
    def test_wrong(self):
        for part in (1, 2):
            with self.subTest(part=part): self.fail()
    def test_wrong_no_more(self): pass

class Chain(unittest.TestCase):
    def test_first(self): pass
    def test_then(self): self.fail()

class Unready(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no lab")
    def setUp(self): pass
    def test_one(self): pass
"""


class AccountOfARun(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        place = tempfile.TemporaryDirectory(prefix="mare-account-test")
        cls.addClassCleanup(place.cleanup)
        (Path(place.name) / "made_up_test.py").write_text(TESTS, encoding="utf-8")
        sys.path.insert(0, place.name)
        cls.addClassCleanup(sys.path.remove, place.name)

    def run_all(self, *names: str) -> Account:
        account = Account()
        with contextlib.redirect_stderr(io.StringIO()):
            unittest.defaultTestLoader.loadTestsFromNames(names).run(account)
        return account

    def test_single_tests_where_each_is_prepared_whole_classes_else(self) -> None:
        account = self.run_all("made_up_test")
        self.assertEqual(account.to_repeat(), ["made_up_test.Alone.test_wrong", "made_up_test.Chain", "made_up_test.Unready"])

    def test_only_what_was_repeated_is_replaced(self) -> None:
        account = self.run_all("made_up_test.Alone")
        again = Account()
        again.cases.append(("made_up_test.Alone.test_wrong", 0.1, "ok", ""))
        account.replace(account.to_repeat(), again)
        self.assertEqual({case[0].rpartition(".")[2]: case[2] for case in account.cases},
                         {"test_right": "ok", "test_wrong": "ok", "test_wrong_no_more": "ok"})

    def test_the_slowest_come_first_compiled_ones_as_well(self) -> None:
        account = Account()
        account.cases += [("short", 0.1, "ok", ""), ("long", 3.0, "FAILED", ""), ("between", 1.0, "ok", "")]
        compiled = [tree.Element("testcase", name="compiled", time="2.5"), tree.Element("testcase", name="not run")]
        self.assertEqual(account.slowest(compiled, 3), [("long", 3.0), ("compiled", 2.5), ("between", 1.0)])

    def test_nothing_is_repeated_where_nothing_failed(self) -> None:
        self.assertEqual(self.run_all("made_up_test.Alone.test_right").to_repeat(), [])


if __name__ == "__main__":
    unittest.main()
