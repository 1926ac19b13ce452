"""A reader that fetches every byte of a topic and discards it: a lower bound for any Python reader on one socket.

It uses one broker that leads all partitions, one blocking socket, and one Fetch at a time. Of each batch it reads only
the header, for the offset of the next Fetch.
"""

from __future__ import annotations

import socket
import struct
import sys

from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VERSION = 11  # the last one with topic names and without topic ids
PARTITION_BYTES = 1 << 20  # Kafka's default, max.partition.fetch.bytes


def main(address: str, topic: str, partitions: int) -> None:
    host, port = address.rsplit(":", 1)
    offsets = dict.fromkeys(range(partitions), 0)
    fetched = 0
    with socket.create_connection((host, int(port))) as broker:
        while offsets:
            frame = _ask(broker, _request(topic, offsets))
            fetched += len(frame)
            _advance(offsets, decode_response(FetchResponse, VERSION, frame)[1])
    print(fetched, "bytes")


def _request(topic: str, offsets: dict[int, int]) -> bytes:
    wanted = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
        for number, offset in offsets.items()
    ]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )
    return encode_request(request, VERSION, 1, "floor")


def _ask(broker: socket.socket, request: bytes) -> memoryview:
    broker.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read(broker, 4))
    return _read(broker, size)


def _read(broker: socket.socket, size: int) -> memoryview:
    view = memoryview(bytearray(size))
    done = 0
    while done < size:
        done += broker.recv_into(view[done:])
    return view


def _advance(offsets: dict[int, int], response: FetchResponse) -> None:
    """Move each partition past its last whole batch; drop those that reached their high watermark."""
    for partition in response.responses[0].partitions:
        data, at = partition.records or b"", 0
        while at + 61 <= len(data):
            base, size = struct.unpack_from(">qi", data, at)
            if at + 12 + size > len(data):
                break
            offsets[partition.partition_index] = base + struct.unpack_from(">i", data, at + 23)[0] + 1
            at += 12 + size
        if partition.error_code or offsets[partition.partition_index] >= partition.high_watermark:
            del offsets[partition.partition_index]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
