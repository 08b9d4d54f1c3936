"""What the demonstration uses: the `mare` command, and the REST API where a stream is wanted."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from report import Line


class DemoError(Exception):
    """Something did not work; the text says what and where to look."""


def say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


class Mare:
    def __init__(self, program: Path, url: str, token_file: Path) -> None:
        self.program = program
        self.url = url
        self.token_file = token_file
        self.environment = {**os.environ, "MARE_URL": url, "MARE_TOKEN_FILE": str(token_file)}
        for name in ("http_proxy", "HTTP_PROXY", "MARE_TOKEN"):
            self.environment.pop(name, None)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def show(self, *words: str) -> None:
        """Runs a command as the user would, for them to see: its output goes to stderr, as all progress."""
        say(f"  $ mare {shlex.join(words)}")
        done = subprocess.run([self.program, *words], env=self.environment, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            raise DemoError(f"'mare {shlex.join(words)}' ended with status {done.returncode}")

    def ask(self, *words: str) -> Any:
        """The JSON that a command answers."""
        done = subprocess.run([self.program, "-o", "json", *words], env=self.environment, text=True, check=False,
                              capture_output=True)
        if done.returncode != 0:
            raise DemoError(f"'mare {shlex.join(words)}' ended with status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def output(self, job: str) -> str:
        done = subprocess.run([self.program, "job", "output", job], env=self.environment, text=True, check=False,
                              capture_output=True)
        return done.stdout if done.returncode == 0 else f"(no output: {done.stderr.strip()})"

    def exists(self, noun: str, name: str) -> bool:
        done = subprocess.run([self.program, noun, "show", name, "-o", "name"], env=self.environment, check=False,
                              capture_output=True)
        return done.returncode == 0

    def open(self, path: str, timeout: float) -> Any:
        token = self.token_file.read_text(encoding="utf-8").strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        return self._opener.open(request, timeout=timeout)


class Follower:
    """Follows a job's output in a thread of its own and stamps every line with its arrival."""

    def __init__(self, mare: Mare, job: str) -> None:
        self.lines: list[Line] = []
        self.failure: str | None = None
        self._mare = mare
        self._job = job
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._mare.open(f"/api/v1/jobs/{self._job}/output?offset=0&follow=true", timeout=300) as stream:
                for raw in stream:
                    line = Line(time.time(), raw.decode("utf-8", "replace").rstrip("\n"))
                    with self._changed:
                        self.lines.append(line)
                        self._changed.notify_all()
        except (OSError, urllib.error.URLError) as error:
            self.failure = str(error)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_lines(self, prefix: str, count: int, timeout: float) -> bool:
        """Until so many lines begin with `prefix`; False when the output ends, or the time is over, before."""
        with self._changed:
            self._changed.wait_for(lambda: self.count(prefix) >= count or self._ended, timeout)
            return self.count(prefix) >= count

    def count(self, prefix: str) -> int:
        return sum(line.text.startswith(prefix) for line in self.lines)

    def wait_for_end(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()
