"""From streams to a producer: cut, parse, hand over, and let nothing wait while the input pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from kcli.cli.produce.chunks import has_more_now, read_chunks
from kcli.cli.produce.splitter import Splitter
from kcli.cli.produce.tally import WriteTally
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.producer.producer import Producer
    from kcli.protocol.records.record import NewRecord

#: Pieces of input and the time now, in ms since the epoch, as records.
Parse = Callable[[Sequence[bytes], int], "list[NewRecord]"]


def feed(
    producer: Producer,
    topic: str,
    partition: int | None,
    streams: Iterable[BinaryIO],
    parse: Parse,
    tally: WriteTally,
    *,
    delimiter: bytes,
    longest_bytes: int,
    wall_ms: Callable[[], int],
) -> None:
    """Write all that the streams hold and return when each record is stored or failed, as `tally` tells.

    A piece of input longer than `longest_bytes` is a failed record. When the input pauses, all read so far is sent
    before waiting for more, since nothing would send it meanwhile. KcliError when a stream cannot be opened or read;
    what came before it is stored.
    """

    def write(pieces: Sequence[bytes]) -> None:
        if pieces:
            records = parse(pieces, wall_ms())
            tally.read += len(records)
            producer.send_many(topic, records, tally.take, partition=partition)

    try:
        for stream in streams:
            splitter = Splitter(delimiter, longest_bytes)
            for chunk in read_chunks(stream):
                tally.bytes_read += len(chunk)
                write(splitter.feed(chunk))
                if not has_more_now(stream):
                    producer.flush()
            write(splitter.finish())
            if splitter.too_long:
                tally.read += splitter.too_long
                tally.fail("too long", f"longer than {longest_bytes:,} bytes (max.request.size)", splitter.too_long)
    except OSError as error:
        producer.flush()
        raise KcliError(f"cannot read {error.filename or 'the input'}: {error.strerror}") from error
    producer.flush()
