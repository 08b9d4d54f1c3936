"""Configuration files and command lines, as the daemons will read them."""

import unittest

import paths  # noqa: F401
from mare_lab import checks, config
from plan_test import plan


class Files(unittest.TestCase):
    def test_every_host_has_an_identity_of_its_own(self) -> None:
        lab = plan(hosts=20)
        uuids = {config.host_uuid(lab, host) for host in lab.host_names()}
        self.assertEqual(len(uuids), 20)
        self.assertNotIn(config.host_uuid(plan(name="other"), "h1"), uuids)

    def test_libvirtd_listens_on_the_hosts_own_address_only(self) -> None:
        text = config.libvirtd_conf(plan(), "h2")
        self.assertIn('listen_addr = "10.77.0.12"', text)
        self.assertNotIn("0.0.0.0", text)
        self.assertIn(config.host_uuid(plan(), "h2"), text)

    def test_libvirt_and_qemu_take_vms_in_the_network_of_migrations_only(self) -> None:
        two = plan(migration_network="10.80.0.0/24")
        self.assertIn('listen_addr = "10.80.0.12"', config.libvirtd_conf(two, "h2"))
        self.assertIn('migration_address = "10.80.0.12"', config.qemu_conf(two, "h2"))
        for text in (config.libvirtd_conf(two, "h2"), config.qemu_conf(two, "h2")):
            self.assertNotIn("10.77.", text)

    def test_images_are_exported_read_only_and_jobs_read_write(self) -> None:
        images, jobs = config.ganesha_conf(plan()).split("EXPORT {")[1:]
        self.assertIn("Path = /images;", images)
        self.assertIn("Access_Type = RO;", images)
        self.assertIn("Path = /state/jobs;", jobs)
        self.assertIn("Access_Type = RW;", jobs)

    def test_braces_of_the_nfs_configuration_balance(self) -> None:
        text = config.ganesha_conf(plan())
        self.assertEqual(text.count("{"), text.count("}"))

    def test_all_hosts_know_each_other_by_name(self) -> None:
        text = config.hosts_file(plan())
        for host, address in (("h1", "10.77.0.11"), ("h3", "10.77.0.13"), ("nfs", "10.77.0.2")):
            self.assertIn(f"{address} {host}\n", text)


class CommandLines(unittest.TestCase):
    def options(self, argv: list[str]) -> dict[str, str]:
        return dict(zip(argv[1::2], argv[2::2]))

    def test_the_agent(self) -> None:
        options = self.options(config.agent_argv(plan(), "h2", "/bin/mare-agent"))
        self.assertEqual(options["--listen"], "10.77.0.12:7412")
        self.assertEqual(options["--migration-address"], "10.77.0.12")
        self.assertEqual(options["--cert"], "/state/pki/h2.pem")

    def test_the_agent_where_migrations_have_a_network(self) -> None:
        argv = config.agent_argv(plan(migration_network="10.80.0.0/24"), "h2", "/bin/mare-agent")
        options = self.options(argv)
        self.assertEqual(options["--listen"], "10.77.0.12:7412")
        self.assertEqual(options["--migration-address"], "10.80.0.12")

    def test_migrations_are_encrypted_where_the_lab_is_asked_to(self) -> None:
        self.assertNotIn("--migration-tls", config.agent_argv(plan(), "h2", "/bin/mare-agent"))
        self.assertNotIn("tls", config.qemu_conf(plan(), "h2"))
        secret = plan(migration_tls=True)
        self.assertIn("--migration-tls", config.agent_argv(secret, "h2", "/bin/mare-agent"))
        self.assertIn('migrate_tls_x509_cert_dir = "/state/pki/qemu/h2"\n', config.qemu_conf(secret, "h2"))
        links = config.qemu_pki_links("h2")
        self.assertEqual(set(links), {"ca-cert.pem", "server-cert.pem", "server-key.pem", "client-cert.pem",
                                      "client-key.pem"})
        self.assertEqual(links["client-key.pem"], "../../h2.key")

    def test_mared_speaks_rest_on_loopback_only(self) -> None:
        options = self.options(config.mared_argv(plan(rest_port=7999), "/sbin/mared"))
        self.assertEqual(options["--listen"], "127.0.0.1:7999")
        self.assertEqual(options["--vm-subnet"], "10.77.1.0/24")
        self.assertEqual(options["--vm-prefix-length"], "16")
        self.assertTrue(options["--checkpoints"].endswith("/checkpoints"))


class Machine(unittest.TestCase):
    def test_the_version_of_qemu_is_read_from_its_own_words(self) -> None:
        self.assertEqual(checks.parse_qemu_version("QEMU emulator version 10.0.2 (Debian 1:10)"),
                         (10, 0))
        self.assertLess(checks.parse_qemu_version("QEMU emulator version 7.2.22") or (99, 0),
                        checks.MIN_TCG_QEMU)
        self.assertIsNone(checks.parse_qemu_version("bash: not found"))

    def test_without_vmx_or_svm_there_is_no_virtualisation_whatever_dev_kvm_says(self) -> None:
        self.assertFalse(checks.has_virtualisation("flags\t\t: fpu vme sse2 svm_lock\n"))
        self.assertFalse(checks.has_virtualisation("model name\t: has vmx in its name\n"))


if __name__ == "__main__":
    unittest.main()
