"""The four codecs of record batches, each bounded in what it may produce."""

from __future__ import annotations

from kcli.errors import ConfigError

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_IDS = {name: number for number, name in enumerate(CODEC_NAMES)}


def compress(codec: str, payload: bytes) -> bytes:
    """`payload` in the framing that Kafka's own producer uses for `codec`."""
    if codec == "none":
        return payload
    raise ConfigError(f"compression {codec} is not one of {', '.join(CODEC_NAMES)}")
