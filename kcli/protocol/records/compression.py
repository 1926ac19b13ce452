"""Compression of batch payloads as Kafka's producer does it. Imports each codec on first use, and no numpy."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kcli.errors import ConfigError, RecordTooLarge

if TYPE_CHECKING:
    from kcli.structs import TopicPartition

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_IDS = {name: number for number, name in enumerate(CODEC_NAMES)}
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

#: Header of the block framing of Java's snappy library; librdkafka writes one raw block instead.
XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024
_ZSTD_LEVEL = 3

#: The setting of clients and brokers that bounds the decompressed records of one batch.
DECOMPRESSED_BYTES_SETTING = "max.decompressed.batch.bytes"


def compress(codec: str, payload: bytes) -> bytes:
    """Compress `payload` in the framing of Kafka's producer for `codec`. ConfigError for an unknown codec."""
    if codec == "none":
        return payload
    if codec == "gzip":
        packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        return packer.compress(payload) + packer.flush()
    if codec == "snappy":
        return _xerial_snappy(payload)
    if codec == "lz4":
        import lz4.frame

        packed: bytes = lz4.frame.compress(payload, block_linked=False, store_size=False)
        return packed
    if codec == "zstd":
        import cramjam

        return bytes(cramjam.zstd.compress(payload, _ZSTD_LEVEL))
    raise ConfigError(f"compression {codec!r} is not valid; use one of {', '.join(CODEC_NAMES)}")


def too_large(offset: int, next_offset: int, limit: int) -> RecordTooLarge:
    """Return the error of a batch whose records have more than `limit` bytes when they are decompressed."""
    return RecordTooLarge(
        f"the batch at offset {offset} decompresses to more than {DECOMPRESSED_BYTES_SETTING} ({limit} bytes); "
        f"the next batch begins at offset {next_offset}",
        offset=offset,
        next_offset=next_offset,
    )


def out_of_memory(tp: TopicPartition, offset: int, size: int) -> RecordTooLarge:
    """Return the error of `size` fetched bytes of a partition for which the memory was too small."""
    text = (
        f"there is not enough memory to decode {size} bytes of {tp} from offset {offset} on; "
        "set a smaller max.partition.fetch.bytes or max.decompressed.batch.bytes"
    )
    return RecordTooLarge(text, topic=tp.topic, partition=tp.partition, offset=offset, received=size)


def _xerial_snappy(payload: bytes) -> bytes:
    import cramjam

    parts = [XERIAL_MAGIC, b"\0\0\0\1\0\0\0\1"]
    for start in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + _XERIAL_BLOCK_BYTES]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)
