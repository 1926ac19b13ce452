"""The hash by which a consumer group notices that its topics have changed (KIP-1101), equal to Kafka's. Pure.

It is XXH3 with 64 bits, of numbers in little-endian order and texts as UTF-16 code units followed by their count: the
hash of a topic is that of its id, name, partition count and the racks of each partition's replicas; the hash of a group
that of its topics' hashes in the order of their names. No topic gives 0.

Source: KIP-1101; the specification of XXH3 at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; the
stream format of hash4j.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kcli.assignors.model import java_order

if TYPE_CHECKING:
    from kcli.broker.cluster.cluster_values import TopicState
    from kcli.broker.cluster.view import ClusterView

_MAGIC = b"\0"


def group_hash(names: Iterable[str], cluster: ClusterView) -> int:
    """Return the hash of those of these topics that exist, as a signed number."""
    listener = next(iter(cluster.advertised))
    racks = {node.node_id: node.rack for node in cluster.brokers(listener, with_fenced=True) if node.rack is not None}
    existing = [cluster.topics[name] for name in sorted(names, key=java_order) if name in cluster.topics]
    hashes = [xxh3_64(_content(topic, _racks(topic, racks))) for topic in existing]
    if not hashes:
        return 0
    total = xxh3_64(struct.pack(f"<{len(hashes)}Q", *hashes))
    return total - (1 << 64) if total >> 63 else total


def _racks(topic: TopicState, racks: dict[int, str]) -> list[list[str]]:
    """Return the racks of each partition's replicas; those without a rack are left out."""
    if not racks:
        return [[]] * len(topic.partitions)
    return [
        sorted((racks[replica] for replica in state.replicas if replica in racks), key=java_order)
        for _, state in sorted(topic.partitions.items())
    ]


def _content(topic: TopicState, racks: Sequence[Sequence[str]]) -> bytes:
    high, low = struct.unpack(">QQ", topic.topic_id.bytes)
    parts = [_MAGIC, struct.pack("<QQ", high, low), _text(topic.name), struct.pack("<i", len(topic.partitions))]
    for number, names in enumerate(racks):
        parts.append(struct.pack("<i", number))
        parts += (struct.pack("<i", len(java_order(rack)) // 2) + _text(rack) for rack in names)
    return b"".join(parts)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


# ---- XXH3, 64 bits, with the default secret and seed 0 ----

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MIX_1, _MIX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_STRIPE, _BLOCK = 64, 1024


def xxh3_64(data: bytes) -> int:
    """Return the XXH3 hash of 64 bits, unsigned."""
    size = len(data)
    if size <= 16:
        return _short(data)
    if size <= 128:
        pairs = range((size - 1) // 32, -1, -1)
        mixed = [_mix(data, 16 * i, 32 * i) + _mix(data, size - 16 * (i + 1), 32 * i + 16) for i in pairs]
        return _avalanche(size * _P64_1 + sum(mixed))
    if size <= 240:
        first = _avalanche(size * _P64_1 + sum(_mix(data, 16 * i, 16 * i) for i in range(8)))
        others = sum(_mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
        return _avalanche(first + others + _mix(data, size - 16, 136 - 17))
    return _long(data)


def _short(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _read(data, 0) ^ _read(_SECRET, 24) ^ _read(_SECRET, 32)
        high = _read(data, size - 8) ^ _read(_SECRET, 40) ^ _read(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high))
    if size >= 4:
        first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
        value = (last + (first << 32)) ^ _read(_SECRET, 8) ^ _read(_SECRET, 16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _MIX_2 & _MASK
        value = (value ^ (value >> 35) + size) * _MIX_2 & _MASK
        return value ^ value >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        words = struct.unpack_from("<II", _SECRET)
        return _final(combined ^ words[0] ^ words[1])
    return _final(_read(_SECRET, 56) ^ _read(_SECRET, 64))


def _long(data: bytes) -> int:
    sums = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    stripes = (len(data) - 1) // _STRIPE
    for number in range(stripes):
        place = number % (_BLOCK // _STRIPE)
        _add_stripe(sums, data, number * _STRIPE, 8 * place)
        if place == _BLOCK // _STRIPE - 1:
            for i, value in enumerate(sums):
                sums[i] = (value ^ value >> 47 ^ _read(_SECRET, 128 + 8 * i)) * _P32_1 & _MASK
    _add_stripe(sums, data, len(data) - _STRIPE, 192 - _STRIPE - 7)
    keys = [_read(_SECRET, 11 + 8 * i) for i in range(8)]
    pairs = (_fold(sums[i] ^ keys[i], sums[i + 1] ^ keys[i + 1]) for i in range(0, 8, 2))
    return _avalanche(len(data) * _P64_1 + sum(pairs))


def _add_stripe(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    for i in range(8):
        value = _read(data, at + 8 * i)
        key = value ^ _read(_SECRET, secret_at + 8 * i)
        sums[i ^ 1] = sums[i ^ 1] + value & _MASK
        sums[i] = sums[i] + (key & 0xFFFFFFFF) * (key >> 32) & _MASK


def _read(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_read(data, at) ^ _read(_SECRET, secret_at), _read(data, at + 8) ^ _read(_SECRET, secret_at + 8))


def _fold(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * _MIX_1 & _MASK
    return value ^ value >> 32


def _final(value: int) -> int:
    value = (value ^ value >> 33) * _P64_2 & _MASK
    value = (value ^ value >> 29) * _P64_3 & _MASK
    return value ^ value >> 32
