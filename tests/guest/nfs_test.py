"""How a guest that was put back tells its NFS server so: the bytes, against RFC 5531 and RFC 8881, and a server that refuses."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import unittest

WORDS = os.environ["MARE_NFS_WORDS"]
OWNER = "Linux NFSv4.2 mare-10.78.1.2/vm-2"
CLIENT, SEQUENCE = b"\x00\x01\x02\x03\x04\x05\x06\x07", 41
EXCHANGE_ID, CREATE_SESSION = 42, 43
NFS4ERR_CLID_INUSE = 10017
LAST = 1 << 31


class Call:
    """Reads a call, item by item; what is left over or missing is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def raw(self, size: int) -> bytes:
        padded = (size + 3) // 4 * 4
        if len(self.data) < padded:
            raise AssertionError(f"{padded} bytes are wanted, {len(self.data)} are left")
        found, padding, self.data = self.data[:size], self.data[size:padded], self.data[padded:]
        if padding.strip(b"\0"):
            raise AssertionError(f"padding is {padding!r}")
        return found

    def number(self) -> int:
        return int(struct.unpack(">I", self.raw(4))[0])

    def opaque(self) -> bytes:
        return self.raw(self.number())

    def numbers(self, count: int) -> list[int]:
        return [self.number() for _ in range(count)]


def receive(server: socket.socket) -> Call:
    def exactly(size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = server.recv(size - len(found))
            if not more:
                raise AssertionError(f"the guest hung up after {len(found)} of {size} bytes")
            found += more
        return found
    mark, = struct.unpack(">I", exactly(4))
    if not mark & LAST:
        raise AssertionError("a call comes in one fragment")
    return Call(exactly(mark ^ LAST))


def reply(operation: int, status: int, results: bytes = b"", tag: bytes = b"") -> bytes:
    body = struct.pack(">6I", operation, 1, 0, 0, 0, 0)  # xid, reply, accepted, no verifier, success
    body += struct.pack(">II", status, len(tag)) + tag + bytes(-len(tag) % 4)
    body += struct.pack(">III", 1, operation, status) + results
    return struct.pack(">I", LAST | len(body)) + body


class NfsSession(unittest.TestCase):
    def setUp(self) -> None:
        self.server, guest = socket.socketpair()
        self.server.settimeout(20)
        self.addCleanup(self.server.close)
        with guest:
            self.guest = subprocess.Popen([WORDS, OWNER], stdin=guest, stdout=subprocess.PIPE, text=True)

    def said(self) -> tuple[int, str]:
        output, _ = self.guest.communicate(timeout=20)
        return self.guest.returncode, output.strip()

    def compound(self, operation: int) -> Call:
        """Checks all up to the operation's own arguments."""
        call = receive(self.server)
        call.number()  # xid
        self.assertEqual(call.numbers(5), [0, 2, 100003, 4, 1])  # call, RPC 2, NFS 4, COMPOUND
        self.assertEqual(call.number(), 1)  # AUTH_SYS
        credential = Call(call.opaque())
        credential.number()  # stamp
        self.assertEqual(credential.opaque().decode(), os.uname().nodename[:64])
        self.assertEqual(credential.numbers(3), [0, 0, 0])  # root, no more groups
        self.assertEqual(credential.data, b"")
        self.assertEqual(call.numbers(2), [0, 0])  # no verifier
        self.assertEqual(call.opaque(), b"")  # tag
        self.assertEqual(call.numbers(3), [2, 1, operation])  # minor version, one operation
        return call

    def exchange(self) -> bytes:
        """The verifier."""
        call = self.compound(EXCHANGE_ID)
        verifier = call.raw(8)
        self.assertEqual(call.opaque().decode(), OWNER)
        self.assertEqual(call.numbers(3), [0, 0, 0])  # flags, SP4_NONE, no implementation
        self.assertEqual(call.data, b"")
        return verifier

    def test_it_takes_its_own_name_with_another_verifier_and_confirms_it(self) -> None:
        self.assertNotEqual(self.exchange(), bytes(8))
        self.server.sendall(reply(EXCHANGE_ID, 0, CLIENT + struct.pack(">I", SEQUENCE) + bytes(40), b"odd"))
        call = self.compound(CREATE_SESSION)
        self.assertEqual((call.raw(8), call.number(), call.number()), (CLIENT, SEQUENCE, 0))
        for _ in range(2):
            padding, request, answer, kept, operations, slots, rdma = call.numbers(7)
            self.assertEqual((padding, rdma), (0, 0))
            self.assertGreaterEqual(min(request, answer, kept), 1024)
            self.assertGreaterEqual(min(operations, slots), 1)
        call.number()  # program of calls back
        self.assertEqual(call.numbers(2), [1, 0])  # one way to sign them: AUTH_NONE
        self.assertEqual(call.data, b"")
        self.server.sendall(reply(CREATE_SESSION, 0, bytes(16)))
        self.assertEqual(self.said(), (0, "done"))

    def test_a_server_that_refuses(self) -> None:
        self.exchange()
        self.server.sendall(reply(EXCHANGE_ID, NFS4ERR_CLID_INUSE))
        self.assertEqual(self.said(), (1, os.strerror(71)))  # EPROTO

    def test_a_session_that_is_refused(self) -> None:
        self.exchange()
        self.server.sendall(reply(EXCHANGE_ID, 0, CLIENT + struct.pack(">I", SEQUENCE)))
        self.compound(CREATE_SESSION)
        self.server.sendall(reply(CREATE_SESSION, NFS4ERR_CLID_INUSE))
        self.assertEqual(self.said()[0], 1)

    def test_an_answer_that_is_cut_short(self) -> None:
        self.exchange()
        self.server.sendall(reply(EXCHANGE_ID, 0, CLIENT))
        self.assertEqual(self.said()[0], 1)

    def test_an_answer_larger_than_any(self) -> None:
        self.exchange()
        self.server.sendall(struct.pack(">I", LAST | 1 << 20))
        self.assertEqual(self.said()[0], 1)

    def test_a_tag_that_claims_more_than_there_is(self) -> None:
        self.exchange()
        broken = bytearray(reply(EXCHANGE_ID, 0, CLIENT + struct.pack(">I", SEQUENCE)))
        broken[4 + 28:4 + 32] = struct.pack(">I", 0xFFFFFFF0)
        self.server.sendall(bytes(broken))
        self.assertEqual(self.said()[0], 1)

    def test_a_server_that_hangs_up(self) -> None:
        self.exchange()
        self.server.close()
        self.assertEqual(self.said()[0], 1)


if __name__ == "__main__":
    unittest.main()
