"""The command line of mare-image."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from pathlib import Path

from mare_image import build, layout
from mare_image.util import BuildLock, ImageError, Progress

EPILOG = """\
examples:
  mare-image build                                     build 'base', if anything changed
  mare-image build --package gfortran --package vim    with more Debian packages
  mare-image build --name mine --add ./overlay         with ./overlay/* copied over /
  mare-image list -o json
  mare-image delete base/3f0c9a1b22de                  one version; `delete base` deletes all

files:
  IMAGES/NAME/VERSION/root/          the NFS root, never changed once it is there
  IMAGES/NAME/VERSION/vmlinuz, initrd.img, manifest.json
  IMAGES/NAME/current                the version that new VMs boot
  IMAGES/.cache/                     base systems and kernels; safe to delete

Exit status: 0 done, 1 failed (the reason is on stderr), 2 wrong usage.
"""


def default_guest_bin() -> Path:
    """The staged guest programs: of a build tree beside this source, or of an installation."""
    here = build.HERE
    for candidate in (here.parent.parent / "build" / "guest-stage", here.parent / "guest"):
        if candidate.is_dir():
            return candidate
    return here.parent.parent / "build" / "guest-stage"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="mare-image", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
        description="Builds the root file systems, kernels and initramfs that VMs boot from.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    images = argparse.ArgumentParser(add_help=False)
    images.add_argument("--images", type=Path, default=Path("/var/lib/mare/images"), metavar="DIR",
                        help="directory of the images (default: %(default)s)")
    make = commands.add_parser("build", parents=[images], help="build an image and make it current")
    make.add_argument("--name", default="base", help="name of the image (default: %(default)s)")
    make.add_argument("--package", action="append", default=[], metavar="P",
                      help="one more Debian package (repeatable)")
    make.add_argument("--add", action="append", default=[], type=Path, metavar="DIR",
                      help="copy DIR/* over the root (repeatable; the last one wins)")
    make.add_argument("--guest-bin", type=Path, default=None, metavar="DIR",
                      help="the guest programs, copied to /usr/local (default: the build's "
                           "guest-stage)")
    make.add_argument("--force", action="store_true",
                      help="build anew, with today's packages, even if nothing changed")
    make.add_argument("--keep", type=int, default=0, metavar="N",
                      help="afterwards keep only the N newest versions that no VM here uses "
                           "(default: keep all)")
    make.add_argument("--mirror", metavar="URI",
                      help="a Debian mirror (default: this machine's own)")
    make.add_argument("--suite", metavar="NAME",
                      help="Debian release (default: this machine's own)")
    make.add_argument("--json", action="store_true", help="print the result on stdout as JSON")
    show_all = commands.add_parser("list", parents=[images], help="list images and versions")
    show_all.add_argument("-o", "--output", choices=("table", "json"), default="table")
    show = commands.add_parser("show", parents=[images],
                               help="print the manifest of the current version")
    show.add_argument("name", metavar="NAME[/VERSION]")
    delete = commands.add_parser("delete", parents=[images],
                                 help="delete an image, or one version of it")
    delete.add_argument("name", metavar="NAME[/VERSION]")
    delete.add_argument("--force", action="store_true",
                        help="even if it is current or VMs run from it")
    return top


def run_build(args: argparse.Namespace) -> int:
    if args.keep < 0:
        raise ImageError(f"--keep {args.keep}: must not be negative")
    request = build.Request(
        name=args.name, images=args.images.absolute(), packages=args.package,
        add=[directory.absolute() for directory in args.add],
        guest_bin=(args.guest_bin or default_guest_bin()).absolute(), force=args.force,
        keep=args.keep,
        mirror=args.mirror, suite=args.suite)
    result = build.build(request, Progress())
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{result['name']}/{result['version']}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    found = layout.versions(args.images)
    if args.output == "json":
        print(json.dumps([dict(v.manifest, current=v.current,
                               path=str(v.directory)) for v in found], indent=2))
        return 0
    print(f"{'NAME':<12} {'VERSION':<16} {'CURRENT':<8} {'SIZE':>8} {'CREATED':<21} PACKAGES")
    for v in found:
        size = f"{int(v.manifest['size_bytes']) >> 20} MiB"
        print(f"{v.name:<12} {v.version:<16} {'yes' if v.current else '':<8} {size:>8} "
              f"{v.manifest['created']:<21} {' '.join(v.manifest['packages'])}")
    return 0


def run_show(args: argparse.Namespace) -> int:
    name, _, version = args.name.partition("/")
    layout.check_name(name)
    version = version or layout.current_version(args.images, name)
    for v in layout.versions(args.images, name):
        if v.version == version:
            print(json.dumps(dict(v.manifest, current=v.current, path=str(v.directory),
                                  used_by=layout.users_of(v)), indent=2))
            return 0
    raise ImageError(f"no image '{args.name}' in {args.images}: see `mare-image list`, or build it "
                     "with `mare-image build`")


def run_delete(args: argparse.Namespace) -> int:
    name, _, version = args.name.partition("/")
    layout.check_name(name)
    if not args.images.is_dir():
        raise ImageError(f"no image '{args.name}': there is no directory {args.images}")
    with BuildLock(args.images):
        for gone in layout.delete(args.images, name, version or None, args.force):
            print(f"deleted {name}/{gone}")
    return 0


def main(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    actions = {"build": run_build, "list": run_list, "show": run_show, "delete": run_delete}
    try:
        return actions[args.command](args)
    except ImageError as error:
        print(f"mare-image: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        remedy = ""
        if error.errno == errno.ENOSPC:
            remedy = ": free some space, or choose another --images directory"
        print(f"mare-image: {error}{remedy}", file=sys.stderr)
    except KeyboardInterrupt:
        print("mare-image: interrupted; the next build clears up what is left", file=sys.stderr)
        return 130
    return 1
