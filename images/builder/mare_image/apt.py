"""Where packages come from: the machine's own apt sources, whatever form they have.

The guest root is built from the same mirror and suite as the machine, because the programs copied
into it (the examples, linked against Open MPI) were built here and must find the same libraries
there.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mare_image.util import ImageError

TARGET_FORMAT = "$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(BASE_URI)|$(COMPONENT)|$(SOURCESENTRY)"


@dataclass(frozen=True)
class Target:
    """One index that apt knows: a row of `apt-get indextargets`."""

    origin: str
    codename: str
    uri: str
    suite: str
    component: str
    entry: str


def parse_targets(text: str) -> list[Target]:
    targets = []
    for row in text.splitlines():
        fields = row.split("|")
        if len(fields) != 6:
            continue
        origin, codename, uri, base, component, entry = fields
        marker = "/dists/"
        suite = base.split(marker, 1)[1].strip("/") if marker in base else codename
        targets.append(Target(origin, codename, uri, suite, component, entry))
    return targets


def signed_by_of_entry(text: str, line: int) -> str | None:
    """Signed-By of the entry that begins at (or contains) a line of a sources file, if it has one.

    Understands one-line `deb [signed-by=...] ...` and deb822 stanzas; an embedded key comes back as
    its text. apt's line numbers are not exact for deb822, so any stanza position is resolved
    leniently.
    """
    lines = text.splitlines()
    if 1 <= line <= len(lines) and re.match(r"\s*deb(-src)?\s", lines[line - 1]):
        found = re.search(r"\[[^\]]*signed-by=([^\]\s]+)", lines[line - 1], re.IGNORECASE)
        return found.group(1) if found else None
    for first, stanza in _stanzas(lines):
        if first <= line <= first + len(stanza):
            return _field(stanza, "signed-by")
    return None


def _stanzas(lines: list[str]) -> list[tuple[int, list[str]]]:
    stanzas: list[tuple[int, list[str]]] = []
    current: list[str] = []
    for number, row in enumerate([*lines, ""], start=1):
        if row.strip():
            current.append(row)
        elif current:
            stanzas.append((number - len(current), current))
            current = []
    return stanzas


def _field(stanza: list[str], name: str) -> str | None:
    value: list[str] | None = None
    for row in stanza:
        if row.startswith("#"):
            continue
        if value is not None and row[:1] in (" ", "\t"):
            value.append(row.strip())
        elif value is not None:
            break
        elif row.lower().startswith(name + ":"):
            value = [row.split(":", 1)[1].strip()]
    if value is None:
        return None
    return "\n".join(part for part in value if part) or None


def source_lines(targets: list[Target], codename: str,
                 keyring_of: dict[str, str | None]) -> list[str]:
    """One-line sources for mmdebstrap: the release, its updates and its security suite."""
    wanted = {codename, f"{codename}-updates", f"{codename}-security"}
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for target in targets:
        if target.origin != "Debian" or target.suite.split("/")[0] not in wanted:
            continue
        key = (target.uri, target.suite, target.entry)
        components = grouped.setdefault(key, [])
        if target.component not in components:
            components.append(target.component)
    if not any(suite == codename for _, suite, _ in grouped):
        raise ImageError(
            f"this machine's apt sources have no Debian '{codename}': run `apt-get update`, or "
            "name a mirror with --mirror URI --suite NAME")
    lines = []
    for (uri, suite, entry), components in sorted(grouped.items()):
        key = keyring_of.get(entry)
        option = f"[signed-by={key}] " if key else ""
        lines.append(f"deb {option}{uri} {suite} {' '.join(components)}")
    return lines


def host_codename(text: str | None = None) -> str:
    if text is None:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', text, re.MULTILINE)
    if not found:
        raise ImageError("/etc/os-release has no VERSION_CODENAME: name the release with --suite")
    return found.group(1)


def host_sources(codename: str, key_directory: Path) -> list[str]:
    """The machine's sources as lines for mmdebstrap; keys embedded in sources go to key_directory.
    """
    text = _output(["apt-get", "indextargets", "--format", TARGET_FORMAT, "Created-By: Packages"])
    targets = parse_targets(text)
    keyrings: dict[str, str | None] = {}
    for entry in {target.entry for target in targets}:
        name, _, number = entry.rpartition(":")
        try:
            content = Path(name).read_text(encoding="utf-8")
        except OSError:
            keyrings[entry] = None
            continue
        key = signed_by_of_entry(content, int(number) if number.isdigit() else 1)
        if key is not None and "BEGIN PGP" in key:
            path = key_directory / f"embedded-{len(keyrings)}.asc"
            path.write_text(key.replace("\n.\n", "\n\n") + "\n", encoding="utf-8")
            key = str(path)
        keyrings[entry] = key
    return source_lines(targets, codename, keyrings)


def host_options() -> list[str]:
    """The machine's own ways to reach its mirror (proxies, certificates), handed on to the build.
    """
    text = _output(["apt-config", "dump"])
    wanted = re.compile(r"^Acquire::(https?::[^ ]+|Retries|Check-Valid-Until|Check-Date) "
                        r"\"[^\"]+\";$")
    return [row for row in text.splitlines() if wanted.match(row)]


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    depends: str


def candidate(name: str) -> Package | None:
    """What apt would install under this name, or None if its lists do not know it."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", name], text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
    if done.returncode != 0 or not done.stdout.strip():
        return None
    fields: dict[str, str] = {}
    for row in done.stdout.splitlines():
        if not row.strip():
            break
        key, separator, value = row.partition(": ")
        if separator and not row.startswith(" "):
            fields.setdefault(key, value)
    return Package(fields.get("Package", name), fields.get("Version", ""),
                   fields.get("Depends", ""))


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, text=True, check=True, capture_output=True,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ImageError(f"'{argv[0]}' is not there: the builder needs Debian's apt") from None
    except subprocess.CalledProcessError as error:
        raise ImageError(f"`{' '.join(argv)}` failed: {error.stderr.strip()}") from None
    return done.stdout
