"""The lab's own certificate authority: one certificate for each host's agent and one for mared.

Elliptic keys, 365 days, keys readable by root alone. `up` renews what ends within 30 days or was
made for other addresses.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mare_lab import config
from mare_lab.plan import Plan
from mare_lab.util import find_program, run, write_atomically

DAYS = 365
RENEW_SECONDS = 30 * 24 * 3600


def ensure(plan: Plan) -> list[str]:
    """Make what is missing or about to end. Returns the names of the certificates made."""
    directory = plan.directory / "pki"
    directory.mkdir(parents=True, exist_ok=True)
    os.chmod(directory, 0o700)
    made = []
    if not _good(directory / "ca.pem", directory / "ca.key", None):
        _make_authority(directory, plan.name)
        made.append("ca")
    local = "IP:127.0.0.1,DNS:controller,DNS:localhost"
    subjects = {"controller": f"IP:{plan.control_address},{local}"}
    for host in plan.host_names():
        # QEMU and libvirt check the address that they connect to.
        addresses = dict.fromkeys((plan.host_address(host), plan.migration_address(host)))
        subjects[host] = ",".join(f"IP:{address}" for address in addresses) + f",DNS:{host}"
    for name, alternatives in subjects.items():
        if "ca" in made or not _good(directory / f"{name}.pem", directory / f"{name}.key",
                                     alternatives):
            _make_certificate(directory, name, alternatives)
            made.append(name)
    if plan.migration_tls:
        for host in plan.host_names():
            _link_for_qemu(Path(config.qemu_pki(plan, host)), config.qemu_pki_links(host))
    return made


def _link_for_qemu(directory: Path, links: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        link = directory / name
        if link.is_symlink() and os.readlink(link) == target:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _good(certificate: Path, key: Path, alternatives: str | None) -> bool:
    if not (certificate.exists() and key.exists()):
        return False
    if alternatives is not None:
        record = certificate.with_suffix(".san")
        if not record.exists() or record.read_text(encoding="utf-8").strip() != alternatives:
            return False
    done = subprocess.run([find_program("openssl") or "openssl", "x509", "-in", str(certificate),
                           "-noout",
                           "-checkend", str(RENEW_SECONDS)], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    return done.returncode == 0


def _new_key(path: Path) -> None:
    text = run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
               f"making the key {path.name}")
    write_atomically(path, text, 0o600)


def _make_authority(directory: Path, name: str) -> None:
    _new_key(directory / "ca.key")
    text = run(["openssl", "req", "-x509", "-new", "-key", str(directory / "ca.key"), "-days",
                str(DAYS), "-sha256",
                "-subj", f"/O=Mare lab/CN={name} lab CA",
                "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
               "making the lab's certificate authority")
    write_atomically(directory / "ca.pem", text)


def _make_certificate(directory: Path, name: str, alternatives: str) -> None:
    _new_key(directory / f"{name}.key")
    request = run(["openssl", "req", "-new", "-key", str(directory / f"{name}.key"), "-subj",
                   f"/O=Mare lab/CN={name}"],
                  f"requesting a certificate for {name}")
    extensions = directory / f"{name}.ext"
    # QEMU refuses a certificate that is not for key encipherment.
    write_atomically(extensions, "basicConstraints=critical,CA:FALSE\n"
                                 "keyUsage=critical,digitalSignature,keyEncipherment\n"
                                 "extendedKeyUsage=serverAuth,clientAuth\n"
                                 f"subjectAltName={alternatives}\n")
    text = run(["openssl", "x509", "-req", "-CA", str(directory / "ca.pem"), "-CAkey",
                str(directory / "ca.key"),
                "-set_serial", "0x" + os.urandom(16).hex(), "-days", str(DAYS), "-sha256",
                "-extfile", str(extensions)], f"signing the certificate of {name}", text=request)
    extensions.unlink()
    write_atomically(directory / f"{name}.pem", text)
    write_atomically(directory / f"{name}.san", alternatives + "\n")
