"""What came of each of the lab's tests."""

from __future__ import annotations

import importlib
import pathlib
import re
import sys
import time
import traceback
import unittest
import xml.etree.ElementTree as tree


def stand_alone(name: str) -> bool:
    """Whether the tests of a class (module.Class) are each prepared for by its setUp."""
    module, _, cls = name.partition(".")
    return "setUp" in vars(getattr(importlib.import_module(module), cls))


class Account(unittest.TestResult):
    """Tells about each test as it ends, and keeps it for the report."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: list[tuple[str, float, str, str]] = []  # name, seconds, verdict, text
        self._begun = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._begun = time.monotonic()
        print(f"       {test.id()}", file=sys.stderr, flush=True)

    def _end(self, test: object, verdict: str, text: str = "") -> None:
        name = test.id() if isinstance(test, unittest.TestCase) else str(test)
        seconds = time.monotonic() - self._begun if self._begun else 0.0
        self.cases.append((name, seconds, verdict, text))
        print(f"{verdict:<6} {name} ({seconds:.1f} s)" + (f"\n{text}" if text else ""), file=sys.stderr, flush=True)

    @staticmethod
    def _words(error: object) -> str:
        return "".join(traceback.format_exception(*error))  # type: ignore[misc]

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._end(test, "ok")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, error: object) -> None:
        super().addSubTest(test, subtest, error)  # type: ignore[arg-type]
        if error is not None:
            self._end(subtest, "FAILED", self._words(error))

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)  # type: ignore[arg-type]
        self._end(test, "FAILED", self._words(err))

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)  # type: ignore[arg-type]
        self._end(test, "FAILED", self._words(err))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._end(test, "skip", reason)

    def to_repeat(self) -> list[str]:
        """What failed, as unittest names it: single tests of a class that prepares each of them (setUp), else whole classes, whose tests may
        build on each other. A class's own set-up may have failed, too."""
        failed = []
        for name, _, verdict, _ in self.cases:
            found = re.search(r"(\w+_test\.\w+)(\.test_\w+)?", name)
            if verdict == "FAILED" and found:
                failed.append(found[1] + (found[2] or "") if stand_alone(found[1]) else found[1])
        return [name for name in dict.fromkeys(failed) if name.rpartition(".")[0] not in failed]

    def replace(self, names: list[str], again: Account) -> None:
        """Takes the verdicts of what was run again; the first failures stay in the log alone."""
        repeated = [re.compile(rf"\b{re.escape(name)}(?!\w)") for name in names]
        self.cases = [case for case in self.cases if not any(name.search(case[0]) for name in repeated)] + again.cases

    def slowest(self, compiled: list[tree.Element], most: int) -> list[tuple[str, float]]:
        """Names and seconds, the slowest first; with CTest's own cases."""
        all_of_them = [(name, seconds) for name, seconds, _, _ in self.cases]
        all_of_them += [(case.get("name", ""), float(case.get("time", 0))) for case in compiled]
        return sorted(all_of_them, key=lambda one: -one[1])[:most]

    def write(self, path: pathlib.Path, more: list[tree.Element]) -> None:
        """As JUnit writes it, which CTest does too."""
        suite = tree.Element("testsuite", name="lab")
        for name, seconds, verdict, text in self.cases:
            case = tree.SubElement(suite, "testcase", name=name, time=f"{seconds:.3f}")
            if verdict == "FAILED":
                tree.SubElement(case, "failure", message="failed").text = text
            elif verdict == "skip":
                tree.SubElement(case, "skipped", message=text)
        suite.extend(more)
        tree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
