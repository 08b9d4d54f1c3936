"""The text of every configuration file in the lab. Pure: a plan in, text out."""

from __future__ import annotations

import uuid

from mare_lab.plan import LIBVIRT_PORT, Plan, memory_directory


def hosts_file(plan: Plan) -> str:
    lines = ["127.0.0.1 localhost", f"{plan.control_address} controller", f"{plan.nfs_address} nfs"]
    lines += [f"{plan.host_address(host)} {host}" for host in plan.host_names()]
    return "\n".join(lines) + "\n"


def host_uuid(plan: Plan, host: str) -> str:
    """libvirt refuses to migrate between hosts of one UUID, and on one machine all would read the
    same.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.{plan.name}.lab.mare"))


def libvirtd_conf(plan: Plan, host: str) -> str:
    # No authentication: the socket is in a network that only this machine's root can reach.
    return f"""\
host_uuid = "{host_uuid(plan, host)}"
listen_tls = 0
listen_tcp = 1
listen_addr = "{plan.migration_address(host)}"
tcp_port = "{LIBVIRT_PORT}"
auth_tcp = "none"
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
max_clients = 200
log_outputs = "3:stderr"
ovs_timeout = 5
"""


def qemu_conf(plan: Plan, host: str) -> str:
    # Everything that would need systemd, dbus, cgroups or a log daemon is off; see docs/lab.md.
    tls = ""
    if plan.migration_tls:
        tls = (f'migrate_tls_x509_cert_dir = "{qemu_pki(plan, host)}"\n'
               "migrate_tls_x509_verify = 1\n")
    return f"""\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
migration_address = "{plan.migration_address(host)}"
migration_host = "{plan.migration_address(host)}"
max_queued = 0
{tls}"""


def qemu_pki(plan: Plan, host: str) -> str:
    return str(plan.directory / "pki" / "qemu" / host)


def qemu_pki_links(host: str) -> dict[str, str]:
    """QEMU's own names for the files, and where they lead: both ends use the host's certificate."""
    links = {"ca-cert.pem": "../../ca.pem"}
    for role in ("server", "client"):
        links[f"{role}-cert.pem"] = f"../../{host}.pem"
        links[f"{role}-key.pem"] = f"../../{host}.key"
    return links


def ganesha_conf(plan: Plan) -> str:
    return f"""\
NFS_CORE_PARAM {{
    Protocols = 4;
    Bind_addr = {plan.nfs_address};
    NFS_Port = 2049;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}}
NFSv4 {{
    # Nothing to reclaim: after a restart clients open their files anew at once.
    Graceless = true;
    Minor_Versions = 1, 2;
    Only_Numeric_Owners = true;
}}
EXPORT_DEFAULTS {{
    SecType = sys;
    Squash = No_Root_Squash;
    Protocols = 4;
    Transports = TCP;
    Attr_Expiration_Time = 1;
}}
EXPORT {{
    Export_Id = 1;
    Path = {plan.images};
    Pseudo = /images;
    Access_Type = RO;
    FSAL {{ Name = VFS; }}
}}
EXPORT {{
    Export_Id = 2;
    Path = {plan.directory / "jobs"};
    Pseudo = /jobs;
    Access_Type = RW;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = WARN; }}
"""


def agent_argv(plan: Plan, host: str, program: str) -> list[str]:
    pki = plan.directory / "pki"
    address = plan.host_address(host)
    return [program, "--name", host, "--listen", f"{address}:7412", "--driver", "libvirt",
            "--libvirt-uri", "qemu:///system", "--bridge", "br0",
            "--migration-address", plan.migration_address(host),
            "--memory-mib", str(plan.memory_mib), "--state-dir",
            str(plan.host_directory(host) / "agent"),
            "--template-memory", str(memory_directory(plan.directory) / host),
            "--standby-memory", str(memory_directory(plan.directory) / f"{host}.standbys"),
            "--deadman-file", str(memory_directory(plan.directory) / f"{host}.deadman"),
            "--ca", str(pki / "ca.pem"), "--cert", str(pki / f"{host}.pem"), "--key",
            str(pki / f"{host}.key")] + (["--migration-tls"] if plan.migration_tls else [])


def mared_argv(plan: Plan, program: str) -> list[str]:
    pki = plan.directory / "pki"
    return [program, "--state-dir", str(plan.directory / "mared"), "--listen",
            f"127.0.0.1:{plan.rest_port}",
            "--images", plan.images, "--nfs-server", plan.nfs_address, "--nfs-images", "/images",
            "--nfs-jobs", "/jobs", "--checkpoints", str(plan.directory / "checkpoints"),
            "--vm-subnet", plan.vm_subnet, "--vm-prefix-length", str(plan.prefix_length),
            "--ca", str(pki / "ca.pem"), "--cert", str(pki / "controller.pem"),
            "--key", str(pki / "controller.key")]
