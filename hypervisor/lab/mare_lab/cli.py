"""The command line of mare-lab."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mare_lab import lab, namespaces, network, plan as plans, procs, services
from mare_lab.state import Lock
from mare_lab.util import LabError, Progress, tail

DEFAULT_STATE = Path("/var/lib/mare/lab")
DEFAULT_IMAGES = Path("/var/lib/mare/images")

EPILOG = """\
examples:
  mare-lab up --bin ./build                 three hosts (libvirtd, mare-agent), NFS, mared
  mare-lab status --measure                 what runs, and what the links really carry
  mare-lab exec h1 -- virsh list            a command as if on host h1
  mare-lab rate 100mbit --host h2           slow the link of h2 down
  mare-lab kill-agent h1                    a fault: SIGKILL; `mare-lab start-agent h1` mends it
  mare-lab nfs stop                         a fault: no NFS server
  mare-lab down                             end it; images stay, jobs and database are set aside

`up` on a lab that is up repairs what has died. It can be repeated after a kill -9 or a restart.
Exit status: 0 done, 1 failed (the reason is on stderr), 2 wrong usage; `exec` gives its
command's own.
"""


def default_bin() -> Path:
    here = Path(__file__).resolve().parent.parent
    build = here.parent.parent / "build"
    return build if build.is_dir() else here.parent.parent.parent / "bin"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="mare-lab", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description="A cluster on one machine: hosts in network namespaces with real libvirt, QEMU "
                    "and NFS.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state", type=Path, default=DEFAULT_STATE, metavar="DIR",
                        help="directory of the lab (default: %(default)s)")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[common], help=text,
                                   description=text[0].upper() + text[1:] + ".")

    up = add("up", "bring the lab up, or repair it")
    up.add_argument("--hosts", type=int, default=3, metavar="N",
                    help="number of hosts (default: %(default)s)")
    up.add_argument("--name", default="mare",
                    help="prefix of namespaces and interfaces (default: %(default)s)")
    up.add_argument("--subnet", default="10.77.0.0/16", metavar="NET",
                    help="private range (default: %(default)s)")
    up.add_argument("--rate", default="1gbit",
                    help="speed of every host's link (default: %(default)s)")
    up.add_argument("--memory-mib", type=int, default=4096, metavar="M",
                    help="memory that a host offers to VMs (default: %(default)s)")
    up.add_argument("--images", type=Path, default=DEFAULT_IMAGES, metavar="DIR",
                    help="images to export (default: %(default)s)")
    up.add_argument("--bin", type=Path, default=None, metavar="DIR",
                    help="where mared, mare and mare-agent are: a build tree or an installation's "
                         "bin")
    up.add_argument("--rest-port", type=int, default=7410, metavar="PORT",
                    help="mared's REST port (default: %(default)s)")
    up.add_argument("--migration-tls", action="store_true",
                    help="encrypt migrations, by the lab's own certificates")
    up.add_argument("--migration-network", metavar="NET",
                    help="migrations have a network of their own, of this private range (default: "
                         "they go where everything goes)")
    up.add_argument("--no-agents", action="store_true", help="without mare-agent (for debugging)")
    up.add_argument("--no-mared", action="store_true", help="without mared (for debugging)")
    up.add_argument("--json", action="store_true", help="print the lab on stdout as JSON")
    down = add("down", "end the lab and everything that runs in it")
    down.add_argument("--purge", action="store_true",
                      help="also delete jobs, database, certificates and logs (images stay)")
    status = add("status", "show what runs")
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    status.add_argument("--measure", action="store_true",
                        help="measure what TCP gets through the links")
    execute = add("exec", "run a command as if on a host")
    execute.add_argument("host", metavar="HOST", help="h1, h2, ..., nfs or sw")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD...")
    rate = add("rate", "change the speed of links")
    rate.add_argument("rate", metavar="RATE", help="such as 100mbit")
    rate.add_argument("--host", metavar="H", help="only this host's link (default: all)")
    rate.add_argument("--link", choices=(plans.MAIN, plans.MIGRATION),
                      help="only this one of its networks (default: both, where there are two)")
    logs = add("logs", "show the end of the logs")
    logs.add_argument("host", nargs="?", metavar="HOST",
                      help="h1, h2, ..., nfs or mared (default: all)")
    logs.add_argument("-n", type=int, default=20, metavar="N",
                      help="lines of each (default: %(default)s)")
    for name, text in (("kill-agent", "kill a host's agent with SIGKILL"),
                       ("start-agent", "start a host's agent")):
        add(name, text).add_argument("host", metavar="HOST")
    stop = add("stop-mared", "end mared")
    stop.add_argument("--kill", action="store_true", help="with SIGKILL")
    add("start-mared", "start mared")
    nfs = add("nfs", "stop or start the NFS server")
    nfs.add_argument("action", choices=("stop", "start"))
    return top


def run_up(args: argparse.Namespace) -> int:
    plan = plans.make_plan(name=args.name, hosts=args.hosts, subnet=args.subnet, rate=args.rate,
                           memory_mib=args.memory_mib, state=args.state,
                           images=args.images.resolve(),
                           rest_port=args.rest_port, migration_tls=args.migration_tls,
                           migration_network=args.migration_network)
    bin_directory = str((args.bin or default_bin()).absolute())
    result = lab.up(plan, bin_directory, not args.no_agents, not args.no_mared, Progress())
    if args.json:
        print(json.dumps(result))
    return 0


def run_down(args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise LabError("ending the lab needs root: run it as root")
    lab.down(args.state, args.purge, Progress())
    return 0


def run_status(args: argparse.Namespace) -> int:
    state = lab.open_lab(args.state)
    value = lab.status(state)
    if args.measure:
        value["measured"] = _measure(state)
    if args.output == "json":
        print(json.dumps(value, indent=2))
    else:
        _print_status(value)
    return 0 if value["up"] else 1


def _measure(state: Any) -> list[dict[str, Any]]:
    names = state.plan.host_names()
    pairs = list(zip(names, names[1:] + names[:1])) if len(names) > 1 else []
    rows = []
    for first, second in pairs:
        for link in state.plan.links():
            bits = lab.measure(state, first, second, link)
            slower = min(plans.rate_bits(state.rate(host, link)) for host in (first, second))
            rows.append({"from": first, "to": second, "link": link, "bits_per_s": bits,
                         "share": round(bits / slower, 3)})
    return rows


def _print_status(value: dict[str, Any]) -> None:
    def shown(pid: int | None) -> str:
        return str(pid) if pid is not None else "-"

    print(f"lab '{value['name']}' is {'up' if value['up'] else 'NOT COMPLETE'}: {value['subnet']}, "
          f"state {value['state']}")
    print(f"{'HOST':<6} {'ADDRESS':<15} {'RATE':<9} {'LIBVIRTD':>8} {'AGENT':>8}  VMS")
    for host in value["hosts"]:
        names = " ".join(guest["name"] for guest in host["vms"]) or "-"
        print(f"{host['name']:<6} {host['address']:<15} {host['rate']:<9} "
              f"{shown(host['libvirtd']):>8} {shown(host['agent']):>8}  {names}")
    if value["migration_network"]:
        print("migrations: " + ", ".join(f"{host['name']} {host['migration_address']} "
                                         f"{host['migration_rate']}" for host in value["hosts"]))
    if value["migration_tls"]:
        print("migrations are encrypted")
    print(f"nfs    {value['nfs']['address']:<15} pid {shown(value['nfs']['pid'])}")
    print(f"mared  {value['mared']['url']}  pid {shown(value['mared']['pid'])}")
    if value["dead"]:
        print(f"not running: {', '.join(value['dead'])} (`mare-lab up` repairs it)")
    for row in value.get("measured", []):
        link = f", {row['link']}" if value["migration_network"] else ""
        print(f"{row['from']} to {row['to']}{link}: {row['bits_per_s'] / 1e6:.0f} Mbit/s, "
              f"{row['share']:.0%} of the rate")


def run_exec(args: argparse.Namespace) -> int:
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise LabError("exec: give a command after --, such as `mare-lab exec h1 -- virsh list`")
    state = lab.open_lab(args.state)
    _check_part(state, args.host, ("nfs", "sw"))
    pid = services.namespace_pid(state, args.host)
    kinds = ("net",) if args.host == "sw" else ("net", "mnt", "uts")
    namespaces.entering(pid, kinds, os.getcwd())()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise LabError(f"cannot run '{argv[0]}' on {args.host}: {error.strerror}") from None


def _check_part(state: Any, name: str, others: tuple[str, ...] = ()) -> str:
    known = (*state.plan.host_names(), *others)
    if name not in known:
        raise LabError(f"the lab has no '{name}': it has {', '.join(known)}")
    return name


def run_rate(args: argparse.Namespace) -> int:
    plans.rate_bits(args.rate)
    with Lock(args.state):
        state = lab.open_lab(args.state)
        hosts = [_check_part(state, args.host)] if args.host else state.plan.host_names()
        links = (args.link,) if args.link else state.plan.links()
        if not set(links) <= set(state.plan.links()):
            raise LabError("--link migration: migrations of this lab have no network of their own: "
                           "end it, and bring it up with --migration-network")
        switch = services.namespace_pid(state, "sw")
        for host in hosts:
            for link in links:
                network.shape(host, link, services.namespace_pid(state, host), switch, args.rate)
                state.set_rate(host, link, args.rate)
    return 0


def run_logs(args: argparse.Namespace) -> int:
    state = lab.open_lab(args.state)
    if args.host is not None:
        _check_part(state, args.host, ("nfs", "mared"))
    pattern = {"nfs": "ganesha", "mared": "mared"}.get(args.host or "",
                                                       f"-{args.host}" if args.host else "")
    for path in sorted((state.plan.directory / "logs").glob("*.log")):
        if pattern in path.name and path.stat().st_size:
            print(f"== {path}\n{tail(path, args.n)}")
    return 0


def run_agent(args: argparse.Namespace) -> int:
    with Lock(args.state):
        state = lab.open_lab(args.state)
        host = _check_part(state, args.host)
        process = state.alive(f"agent:{host}")
        if args.command == "kill-agent":
            if process is None:
                raise LabError(f"no agent runs on {host}")
            procs.kill(process)
        elif services.start_agent(state, host):
            services.wait_agent(state, host)
    return 0


def run_mared(args: argparse.Namespace) -> int:
    with Lock(args.state):
        state = lab.open_lab(args.state)
        process = state.alive("mared")
        if args.command == "start-mared":
            if services.start_mared(state):
                services.wait_mared(state)
        elif process is None:
            raise LabError("mared does not run")
        elif args.kill:
            procs.kill(process)
        else:
            procs.end([process], patience=20)
    return 0


def run_nfs(args: argparse.Namespace) -> int:
    with Lock(args.state):
        state = lab.open_lab(args.state)
        process = state.alive("ganesha")
        if args.action == "start":
            services.start_nfs(state)
            services.wait_nfs(state)
        elif process is None:
            raise LabError("the NFS server does not run")
        else:
            procs.end([process])
    return 0


ACTIONS = {"up": run_up, "down": run_down, "status": run_status, "exec": run_exec, "rate": run_rate,
           "logs": run_logs,
           "kill-agent": run_agent, "start-agent": run_agent, "stop-mared": run_mared,
           "start-mared": run_mared,
           "nfs": run_nfs}


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    args.state = args.state.resolve()  # As the kernel names it in its table of mounts.
    try:
        return ACTIONS[args.command](args)
    except LabError as error:
        print(f"mare-lab: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except PermissionError as error:
        print(f"mare-lab: {error}: run it as root", file=sys.stderr)
    except OSError as error:
        print(f"mare-lab: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("mare-lab: interrupted; `mare-lab up` goes on, `mare-lab down` clears away",
              file=sys.stderr)
        return 128 + signal.SIGINT
    return 1
