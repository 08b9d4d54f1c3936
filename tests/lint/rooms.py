"""The walls of docs/architecture.md in a form that can be checked.

Each rule repeats the words of the document's column "May include", so that neither changes alone.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Room:
    """Files under `folder` (not those of a deeper room) and what they may include."""

    folder: str
    words: str                      # docs/architecture.md, column "May include"
    uses: tuple[str, ...] = ()      # other rooms, and whatever these may include
    files: tuple[str, ...] = ()     # single files of other rooms
    foreign: tuple[str, ...] = ()   # keys of FOREIGN
    targets: tuple[str, ...] = ()   # CMake targets made here


EVERYTHING = "*"

ROOMS = (
    Room("orchestrator/core", "std", targets=("mare_core",)),
    Room("orchestrator/model", "core", ("orchestrator/core",), targets=("mare_model",)),
    Room("orchestrator/policy", "core, model", ("orchestrator/core", "orchestrator/model"),
         targets=("mare_policy",)),
    # driver.h and guest_port.h: the files directly in the folder.
    Room("hypervisor", "core, model", ("orchestrator/core", "orchestrator/model"),
         targets=("mare_driver",)),
    # mare-dirtylog is the library that QEMU loads.
    Room("hypervisor/dirtylog", "core, model, own C library",
         ("orchestrator/core", "orchestrator/model"), files=("hypervisor/in_qemu.h",), foreign=("zstd",),
         targets=("mare_dirtylog", "mare-dirtylog")),
    Room("hypervisor/checkpointfile", "core, own C library", ("orchestrator/core",),
         foreign=("zstd",), targets=("mare_checkpointfile",)),
    # mare-deadman is a library that QEMU loads.
    Room("hypervisor/leases", "driver.h", ("hypervisor",), targets=("mare_leases", "mare-watchdog", "mare-deadman")),
    # QEMU's monitor speaks JSON.
    Room("hypervisor/libvirt", "driver.h, checkpointfile, dirtylog, leases, own C library",
         ("hypervisor", "hypervisor/checkpointfile", "hypervisor/dirtylog", "hypervisor/leases"), foreign=("libvirt", "json"),
         targets=("mare_libvirt", "mare-qemu")),
    Room("hypervisor/sim", "driver.h, own C library", ("hypervisor",), targets=("mare_sim",)),
    # remote speaks the agent's wire format, which is generated from agent.proto, and checks the same
    # kind of certificates.
    Room("hypervisor/remote", "driver.h, own C library", ("hypervisor",),
         files=("hypervisor/agent/convert.h", "hypervisor/agent/tls_files.h"),
         foreign=("grpc", "openssl"),
         targets=("mare_remote", "mare_agent_proto", "mare_agent_wire")),
    Room("hypervisor/agent", "driver.h, backends, netarp",
         ("hypervisor", "hypervisor/libvirt", "hypervisor/sim", "netarp"),
         foreign=("grpc", "cli11", "openssl"), targets=("mare_agent_service", "mare-agent")),
    Room("hypervisor/lab", ""),
    Room("netarp", "core", ("orchestrator/core",), foreign=("cli11", "json"),
         targets=("mare_netarp", "mare-announce")),
    Room("orchestrator/store", "core, model, sqlite3", ("orchestrator/core", "orchestrator/model"),
         foreign=("sqlite3", "json"), targets=("mare_store",)),
    Room("orchestrator/engine", "policy, store, driver.h",
         ("orchestrator/policy", "orchestrator/store", "hypervisor"), foreign=("json",),
         targets=("mare_engine",)),
    Room("orchestrator/guestlink", "engine's guest port, `images/guest/protocol.h`", ("hypervisor",),
         files=("images/guest/protocol.h",), targets=("mare_guestlink",)),
    Room("rest/wire", "model", ("orchestrator/model",), foreign=("json",), targets=("mare_wire",)),
    Room("rest/server", "engine, wire", ("orchestrator/engine", "rest/wire"),
         foreign=("json", "cpprest", "openssl"), targets=("mare_rest_server",)),
    Room("rest/client", "wire", ("rest/wire",), foreign=("json", "curl"),
         targets=("mare_rest_client",)),
    Room("orchestrator/daemon", "all", (EVERYTHING,), foreign=("cli11", "json"),
         targets=("mare_daemon", "mared")),
    Room("ui/cli", "rest/client, policy", ("rest/client", "orchestrator/policy"), foreign=("json", "cli11"),
         targets=("mare_cli", "mare")),
    Room("images/builder", ""),
    Room("images/guest", "libc, `protocol.h`",
         targets=("mare_guest_wire", "mare-guestd", "mare-rsh")),
    Room("images/mpi", "MPI's headers, `images/guest/safepoint.h`", files=("images/guest/safepoint.h",),
         foreign=("mpi",), targets=("mare-safepoint",)),
    Room("images/examples", "", foreign=("mpi",), targets=("migtest", "matmul", "heat")),
)

# In the tree, but programs for guests rather than a room of the product.
NOT_IN_THE_DOCUMENT = {"images/examples"}

# Libraries: how their headers begin, how CMake calls them, and, if not a whole room, which file.
FOREIGN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "libvirt": (("libvirt/",), ("PkgConfig::LIBVIRT",)),
    "grpc": (("grpcpp/", "google/protobuf/", "agent.pb.h", "agent.grpc.pb.h"),
             ("gRPC::grpc++", "protobuf::libprotobuf")),
    "sqlite3": (("sqlite3.h",), ("SQLite::SQLite3",)),
    "json": (("nlohmann/",), ("nlohmann_json::nlohmann_json",)),
    "cpprest": (("cpprest/", "pplx/", "boost/"), ("cpprestsdk::cpprest",)),
    "curl": (("curl/",), ("CURL::libcurl",)),
    "zstd": (("zstd.h",), ("PkgConfig::ZSTD",)),
    "cli11": (("CLI/",), ("CLI11::CLI11",)),
    "openssl": (("openssl/",), ("OpenSSL::Crypto", "OpenSSL::SSL")),
    "mpi": (("mpi.h",), ("MPI::MPI_C",)),
    "tests": (("gtest/", "gmock/", "rapidcheck", "tins/"), ("GTest::gtest",)),
}

# One translation unit knows the HTTP library (docs/adr): the file is the wall, not the folder.
ONLY_IN_FILE = {"cpprest": "rest/server/cpprest_server.cpp"}

# Libraries whose types are in a room's headers, and so in those of its users.
MAY_BE_PUBLIC = {
    ("mare_wire", "nlohmann_json::nlohmann_json"),
    ("mare_rest_client", "nlohmann_json::nlohmann_json"),
    ("mare_rest_server", "nlohmann_json::nlohmann_json"),
    ("mare_cli", "nlohmann_json::nlohmann_json"),
    ("mare_agent_proto", "gRPC::grpc++"),
    ("mare_agent_proto", "protobuf::libprotobuf"),
}

# The operating system's own headers: by folder, or by name at the top.
SYSTEM_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "bits/")
SYSTEM_HEADERS = frozenset("""
    assert cpuid ctype dirent dlfcn endian errno fcntl float fnmatch getopt glob grp ifaddrs inttypes limits
    locale math mntent netdb poll pthread pty pwd regex sched semaphore setjmp signal spawn stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings syslog termios
    time ucontext unistd utime utmp wait wchar
""".split())
