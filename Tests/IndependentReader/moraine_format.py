"""Bytes of a Moraine store, after FileFormat.md alone: checksums, hash, LZ4 blocks, digest."""

MASK = (1 << 64) - 1


class Violation(Exception):
    """Error for contents that FileFormat.md forbids: file, offset, and message."""

    def __init__(self, file, offset, what):
        super().__init__(f"{file} at {offset}: {what}")


class Newer(Violation):
    """Error for valid contents of a later version."""


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = _table()
assert TABLE[1] == 0xF26B8303


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def _rotate(value, by):
    return ((value << by) | (value >> (64 - by))) & MASK


def siphash13(key, k0, k1):
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def sipround(v0, v1, v2, v3):
        v0 = (v0 + v1) & MASK
        v1 = _rotate(v1, 13) ^ v0
        v0 = _rotate(v0, 32)
        v2 = (v2 + v3) & MASK
        v3 = _rotate(v3, 16) ^ v2
        v0 = (v0 + v3) & MASK
        v3 = _rotate(v3, 21) ^ v0
        v2 = (v2 + v1) & MASK
        v1 = _rotate(v1, 17) ^ v2
        v2 = _rotate(v2, 32)
        return v0, v1, v2, v3

    whole = len(key) - len(key) % 8
    last = key[whole:] + bytes(7 - len(key) % 8) + bytes([len(key) & 0xFF])
    for start in range(0, whole + 8, 8):
        word = int.from_bytes(key[start:start + 8] if start < whole else last, "little")
        v3 ^= word
        v0, v1, v2, v3 = sipround(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = sipround(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def digest_of(hashed, sequence):
    """Returns the number that a live record adds to the state digest."""
    a = _mix(hashed ^ _mix((sequence + 0x9E3779B97F4A7C15) & MASK))
    b = _mix((a + sequence + 0xD1B54A32D192ED03) & MASK)
    return b << 64 | a


def lz4_block(stored, raw_length, dictionary=b""):
    """Decompresses one LZ4 block. Returns None when it is no valid block of that length."""
    out = bytearray(dictionary)
    raw_length += len(dictionary)
    place = 0

    def extended(length):
        nonlocal place
        while True:
            byte = stored[place]
            place += 1
            length += byte
            if byte != 255:
                return length

    try:
        while place < len(stored):
            token = stored[place]
            place += 1
            literals = token >> 4
            if literals == 15:
                literals = extended(literals)
            if place + literals > len(stored) or len(out) + literals > raw_length:
                return None
            out += stored[place:place + literals]
            place += literals
            if place == len(stored):
                break
            back = stored[place] | stored[place + 1] << 8
            place += 2
            match = token & 15
            if match == 15:
                match = extended(match)
            match += 4
            if back == 0 or back > len(out) or len(out) + match > raw_length:
                return None
            for _ in range(match):
                out.append(out[-back])
    except IndexError:
        return None
    return bytes(out[len(dictionary):]) if len(out) == raw_length else None
