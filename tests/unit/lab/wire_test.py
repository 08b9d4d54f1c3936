"""Reading what a connection carries from the frames of an interface."""

import struct
import sys
import unittest

import paths

sys.path.insert(0, str(paths.ROOT / "tests" / "lab"))

from lib.wire import ACK, SYN, TLS_HANDSHAKE, Beginnings, Segment, read_segment  # noqa: E402


def frame(payload: bytes, *, ip_options: int = 0, tcp_options: int = 12, protocol: int = 6, kind: bytes = b"\x08\x00",
          length: int | None = None, sequence: int = 1, flags: int = 0x18, padding: bytes = b"") -> bytes:
    ip_header, tcp_header = 20 + ip_options, 20 + tcp_options
    whole = ip_header + tcp_header + len(payload)
    ip = struct.pack("!BBHHHBBH4s4s", 0x40 | ip_header // 4, 0, whole if length is None else length, 0, 0, 64, protocol, 0,
                     bytes([10, 80, 0, 11]), bytes([10, 80, 0, 12])) + bytes(ip_options)
    tcp = struct.pack("!HHIIBBHHH", 40000, 49152, sequence, 1, tcp_header // 4 << 4, flags, 500, 0, 0) + bytes(tcp_options)
    return bytes(12) + kind + ip + tcp + payload + padding


class Segments(unittest.TestCase):
    def test_the_first_bytes_and_whose_they_are(self) -> None:
        seen = read_segment(frame(TLS_HANDSHAKE + b"\x01" + bytes(500)))
        assert seen is not None
        self.assertEqual(seen.connection, "10.80.0.11:40000>10.80.0.12:49152")
        self.assertEqual((seen.port, seen.opens), (49152, False))
        self.assertTrue(seen.payload.startswith(TLS_HANDSHAKE))

    def test_options_of_both_headers_are_no_payload(self) -> None:
        seen = read_segment(frame(b"QEVM", ip_options=8, tcp_options=40))
        assert seen is not None
        self.assertEqual(seen.payload, b"QEVM")

    def test_padding_of_a_short_frame_is_no_payload(self) -> None:
        seen = read_segment(frame(b"", tcp_options=0, padding=bytes(6)))
        assert seen is not None
        self.assertEqual(seen.payload, b"")

    def test_a_segment_that_the_card_is_to_cut_up_tells_no_length(self) -> None:
        seen = read_segment(frame(b"QEVM", length=0))
        assert seen is not None
        self.assertEqual(seen.payload, b"QEVM")

    def test_all_else_is_none(self) -> None:
        self.assertIsNone(read_segment(frame(b"QEVM", protocol=17)), "UDP")
        self.assertIsNone(read_segment(frame(b"QEVM", kind=b"\x86\xdd")), "IPv6")
        self.assertIsNone(read_segment(frame(b"QEVM")[:50]), "cut off")
        self.assertIsNone(read_segment(b""), "nothing")


class Connections(unittest.TestCase):
    def seen(self, *frames: bytes) -> list[str]:
        beginnings = Beginnings()
        for one in frames:
            segment = read_segment(one)
            assert isinstance(segment, Segment)
            beginnings.add(segment)
        return list(beginnings.found.values())

    def test_one_begins_with_what_follows_its_opening(self) -> None:
        opening = frame(b"", sequence=2**32 - 1, flags=SYN)
        first, second = frame(b"QEVM", sequence=0), frame(b"pages", sequence=4)
        self.assertEqual(self.seen(opening, first, second), [b"QEVM".hex()])
        self.assertEqual(self.seen(opening, second, first, second), [b"QEVM".hex()])

    def test_one_whose_beginning_was_missed_is_known_and_told(self) -> None:
        self.assertEqual(self.seen(frame(b"", sequence=7, flags=SYN), frame(b"pages", sequence=400)), [""])

    def test_the_way_back_of_one_is_none_whatever_port_it_began_at(self) -> None:
        # Another program's connection out of here may begin at a port where QEMU could listen; what comes back is its answers.
        self.assertEqual(self.seen(frame(b"", sequence=7, flags=SYN | ACK), frame(bytes(8), sequence=8)), [])

    def test_one_that_was_open_before_is_not_told(self) -> None:
        self.assertEqual(self.seen(frame(b"pages", sequence=400)), [])


if __name__ == "__main__":
    unittest.main()
