"""A reader of TensorBoard's event files in Python's standard library, written from the formats' descriptions: TFRecord framing with
masked CRC-32C, and the wire format of Protocol Buffers."""
import glob
import os
import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The records of a file up to a truncated one; a wrong checksum is an error."""
    data, at = open(path, "rb").read(), 0
    while at + 16 <= len(data):
        size, sum_of_size = struct.unpack_from("<QI", data, at)
        assert sum_of_size == masked(data[at:at + 8]), f"{path}: length at byte {at}"
        if at + 16 + size > len(data):
            return
        body = data[at + 12:at + 12 + size]
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked(body), f"{path}: record at byte {at}"
        yield body
        at += 16 + size


def fields(data):
    """(number, value) of each field of a message: an int, a float, or bytes."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(data):
        head = varint()
        if head & 7 == 0:
            yield head >> 3, varint()
        elif head & 7 == 1:
            yield head >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif head & 7 == 5:
            yield head >> 3, struct.unpack_from("<f", data, at)[0]
            at += 4
        else:
            assert head & 7 == 2, f"wire type {head & 7}"
            size = varint()
            yield head >> 3, data[at:at + size]
            at += size
    assert at == len(data), "a field longer than its message"


def scalars(folder):
    """tag -> list of (step, value) in the order of the files; text tag -> text under the key "texts"."""
    found, texts = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for number, body in enumerate(records(path)):
            event = dict(fields(body))
            if number == 0:
                assert event[3] == b"brain.Event:2", f"{path}: the first event has no version"
                continue
            for field, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                tag = value[1].decode()
                if 2 in value:
                    found.setdefault(tag, []).append((event.get(2, 0), value[2]))
                else:
                    texts[tag] = dict(fields(value[8]))[8].decode()
    return found, texts
