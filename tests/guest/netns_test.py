"""mpirun with mare-rsh between "guests" that are network namespaces of this machine.

Each has its own address, host name and mare-guestd on the usual port; the job is started
by RUN, as mared does.
Needs root. The namespaces are named mg-PID-* and deleted at the end.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import Client, Guestd, program, wait_until

CLONE_NEWNET = 0x40000000
HOSTS = 3


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def inside(name: str) -> tuple[str, ...]:
    """The words before a command that put it into a namespace.

    Not `ip netns exec` or `ip -n`: they change the propagation of "/", which a chroot refuses.
    """
    return ("nsenter", f"--net=/run/netns/{name}")


def ip_in(name: str, *arguments: str) -> None:
    subprocess.run([*inside(name), "ip", *arguments], check=True, capture_output=True, text=True)


def can_make_namespaces() -> str:
    """Empty, or why not."""
    for tool in ("ip", "nsenter", "unshare", "mpirun"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    name = f"mg-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"cannot make a network namespace: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


class Network:
    """A switch with some hosts; this process moves into the switch's namespace to talk to them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.switch = self.add("sw")
        ip_in(self.switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        ip_in(self.switch, "addr", "add", "10.98.0.254/24", "dev", "br0")
        ip_in(self.switch, "link", "set", "br0", "up")
        self.hosts = [self.add_host(number) for number in range(1, HOSTS + 1)]
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.enter(f"/run/netns/{self.switch}")

    def add(self, suffix: str) -> str:
        name = f"mg-{os.getpid()}-{suffix}"
        ip("netns", "add", name)
        self.names.append(name)
        ip_in(name, "link", "set", "lo", "up")
        return name

    def add_host(self, number: int) -> str:
        name = self.add(f"h{number}")
        ip_in(self.switch, "link", "add", f"port{number}", "type", "veth", "peer", "name",
           "eth0", "netns", name)
        ip_in(self.switch, "link", "set", f"port{number}", "master", "br0", "up")
        ip_in(name, "addr", "add", f"10.98.0.{number}/24", "dev", "eth0")
        ip_in(name, "link", "set", "eth0", "up")
        return name

    def enter(self, path: str | int) -> None:
        fd = os.open(path, os.O_RDONLY) if isinstance(path, str) else path
        if self.libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        if isinstance(path, str):
            os.close(fd)

    def processes(self, host: str) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True,
                                check=True)
        return [int(pid) for pid in listed.stdout.split()]

    def commands(self, host: str) -> list[str]:
        """The names of what runs in a host, but for mare-guestd."""
        names = []
        for pid in self.processes(host):
            try:
                names.append(pathlib.Path(f"/proc/{pid}/comm").read_text().strip())
            except FileNotFoundError:
                pass
        return [name for name in names if name != "mare-guestd"]

    def remove(self) -> None:
        self.enter(self.home)
        os.close(self.home)
        for name in self.names:
            for pid in self.processes(name):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], check=False)


WHY_NOT = can_make_namespaces()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Mpirun(unittest.TestCase):
    network: Network

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.remove)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mare-netns-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.guestds = []
        for number, host in enumerate(self.network.hosts, 1):
            own = self.folder / f"h{number}"
            own.mkdir()
            # A host name of its own: Open MPI takes hosts of one name for one host.
            guestd = Guestd(prefix=(*inside(host), "unshare", "--uts", "sh", "-c",
                                    f'hostname h{number}; exec "$@"', "sh"),
                            address=f"10.98.0.{number}", folder=str(own), port=7411)
            self.addCleanup(guestd.stop)
            self.guestds.append(guestd)
        self.client = Client("10.98.0.1", 7411)
        self.addCleanup(self.client.close)

    def start(self, *command: str, options: tuple[str, ...] = (), agent: str = "") -> pathlib.Path:
        directory = self.folder / "job"
        hosts = ",".join(f"10.98.0.{number}" for number in range(1, HOSTS + 1))
        # LeakSanitizer, if built in, sees what Open MPI leaves behind at exit; that is not ours.
        self.client.run("job", directory, "mpirun", "-x", "ASAN_OPTIONS=detect_leaks=0",
                        "--allow-run-as-root", "--host", hosts, "-np", str(HOSTS), "--mca",
                        "plm_rsh_agent", agent or program("mare-rsh"), "--mca", "btl", "tcp,self",
                        "--mca", "btl_tcp_if_include", "eth0",
                        "--mca", "oob_tcp_if_include", "eth0", *options, *command)
        return directory

    def finish(self, directory: pathlib.Path) -> dict[str, str]:
        return self.client.wait_exited("job", directory)

    def commands(self) -> list[str]:
        return [name for host in self.network.hosts for name in self.network.commands(host)]

    def test_a_job_of_one_rank_a_host(self) -> None:
        options = ("--size-mib", "4", "--wws-mib", "1", "--iterations", "20")
        directory = self.start(program("migtest"), *options, "--log", str(self.folder / "times"))
        state = self.finish(directory)
        output = self.client.output(directory).decode()
        self.assertEqual(state.get("exit"), "0", output)
        expected = subprocess.run([program("migtest"), "--expect", "--ranks", str(HOSTS), *options],
                                  capture_output=True,
                                  text=True, check=True).stdout
        self.assertIn(expected.split("checksum=")[1].strip(), output)
        self.assertIn("verified=yes", output)
        firsts = [(self.folder / f"times.{rank}").read_text().splitlines()[0]
                  for rank in range(HOSTS)]
        hosts = {first.split(" on ")[1].split(":")[0] for first in firsts}
        self.assertEqual(hosts, {"h1", "h2", "h3"})
        wait_until(lambda: not self.commands(), "nothing is left in any host")

    def test_tree_spawn(self) -> None:
        """Radix 1: the first daemon starts the second, by its own mare-rsh."""
        seen = self.folder / "seen"
        seen.mkdir()
        agent = self.folder / "agent"
        agent.write_text("#!/bin/sh\nfor word; do case $word in\n"
                         f'10.98.0.*) touch "{seen}/$(hostname)-$word";; esac; done\n'
                         f'exec "{program("mare-rsh")}" "$@"\n')
        agent.chmod(0o755)
        directory = self.start("hostname", options=("--mca", "routed_radix", "1"), agent=str(agent))
        state = self.finish(directory)
        output = self.client.output(directory).decode()
        self.assertEqual(state.get("exit"), "0", output)
        self.assertEqual(sorted(output.split()), ["h1", "h2", "h3"])
        self.assertEqual(sorted(path.name for path in seen.iterdir()),
                         ["h1-10.98.0.2", "h2-10.98.0.3"])

    def test_the_exit_code_of_a_rank_is_that_of_the_job(self) -> None:
        directory = self.start("sh", "-c", "[ $OMPI_COMM_WORLD_RANK -ne 2 ] || exit 37")
        self.assertEqual(self.finish(directory)["exit"], "37")

    def test_output_and_input_pass(self) -> None:
        directory = self.start("sh", "-c", "echo out-$(hostname); echo err-$(hostname) >&2; cat")
        self.assertEqual(self.finish(directory)["exit"], "0")
        self.assertEqual(sorted(self.client.output(directory).decode().split()),
                         ["err-h1", "err-h2", "err-h3", "out-h1", "out-h2", "out-h3"])

    def start_endless(self) -> pathlib.Path:
        directory = self.start(program("migtest"), "--size-mib", "1", "--wws-mib", "1",
                               "--iterations", "1000000",
                               "--interval-ms", "10")
        wait_until(lambda: b"iteration=3 " in self.client.output(directory), "the job works")
        self.assertEqual(self.commands().count("migtest"), HOSTS)
        return directory

    def test_a_terminated_mpirun_brings_all_ranks_down(self) -> None:
        for name in ("TERM", "INT", "KILL"):
            with self.subTest(signal=name):
                directory = self.start_endless()
                self.client.ask("SIGNAL", ("dir", directory), ("signal", name))
                state = self.finish(directory)
                self.assertNotEqual(state.get("exit"), "0")
                wait_until(lambda: not self.commands(), "no rank and no daemon is left in any host")
                shutil.rmtree(directory)

    def test_a_job_does_not_need_guestd_once_it_runs(self) -> None:
        options = ("--size-mib", "1", "--wws-mib", "1", "--iterations", "100", "--interval-ms",
                   "10")
        directory = self.start(program("migtest"), *options)
        wait_until(lambda: b"iteration=3 " in self.client.output(directory), "the job works")
        for guestd in self.guestds:
            guestd.kill()
        wait_until((directory / "exit").exists, "the job ended")
        self.assertEqual((directory / "exit").read_text(), "exit 0\n")
        self.assertIn("verified=yes", (directory / "output").read_text())

    def test_a_host_without_guestd_fails_the_job_and_is_named(self) -> None:
        self.guestds[2].kill()
        directory = self.start("hostname")
        state = self.finish(directory)
        self.assertNotEqual(state.get("exit"), "0")
        self.assertIn(b"cannot connect to mare-guestd on 10.98.0.3", self.client.output(directory))
        wait_until(lambda: not self.commands(), "nothing is left in any host")


if __name__ == "__main__":
    unittest.main()
