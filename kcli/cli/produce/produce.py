"""`kcli produce`: lines, delimited bytes or JSON as records of a topic."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.produce.feed import Parse
    from kcli.cli.produce.tally import WriteTally
    from kcli.client.config import ProducerConfig

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Kafka's defaults are for records that trickle in. What comes in one go needs fewer and larger batches and no deep
# queue: 100,000 lines of 60 bytes took 79 answers to await instead of 460, and 0.5 s of CPU instead of 0.8 s. What the
# person sets is kept.
BULK = {"batch.size": 128 << 10, "buffer.memory": 4 << 20, "receive.buffer.bytes": -1}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[str, Argument(metavar="TOPIC", help="Where to; it must exist.")],
    file: Annotated[
        list[str] | None, Argument(metavar="[FILE]...", help="What to read; - or none: standard input.")
    ] = None,
    input: Annotated[str, Option("--input", metavar="raw|jsonl", help="What the input is made of.")] = "raw",
    delimiter: Annotated[str | None, Option("--delimiter", "-D", metavar="TEXT", help=r"Between records. [\n]")] = None,
    key_delimiter: Annotated[
        str | None, Option("--key-delimiter", "-K", metavar="TEXT", help="Between key and value.")
    ] = None,
    key: Annotated[str | None, Option("--key", "-k", metavar="TEXT", help="The key of all records.")] = None,
    partition: Annotated[
        int | None, Option("--partition", "-p", metavar="N", min=0, help="To this one, whatever the key.")
    ] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="NAME=VALUE", help="On all records; repeatable; without =: null."),
    ] = None,
    timestamp: Annotated[
        int | None,
        Option("--timestamp", metavar="MS", min=0, max=2**63 - 1, help="Of all records, since 1970; default: now."),
    ] = None,
    empty_as_null: Annotated[bool, Option("--empty-as-null", "-Z", help="Send empty keys and values as null.")] = False,
    compression: Annotated[
        str | None, Option("--compression", "-z", metavar="|".join(CODECS), help="Codec of the batches. [none]")
    ] = None,
    acks: Annotated[str | None, Option("--acks", metavar="0|1|all", help="Who must have a record. [all]")] = None,
    stats: Annotated[bool, Option("--stats", help="At the end say counts and rates on stderr.")] = False,
) -> int:
    r"""Write each line of standard input, or of files, as a record. The topic is never created.

    Delimiters may hold \n, \t, \0 and \xHH; the last record needs none behind it. With -D '' each file is one record.
    A line without the -K delimiter has no key. Records without a key go to one partition until a batch is full, then to
    the next; others by the hash of their key, as in Java.

    --input jsonl reads what `kcli consume --output jsonl` writes: key, value, headers and timestamp are taken from it.

    While input pauses, what was read is sent at once. A record that is not acknowledged within --timeout has failed;
    there is a line for each kind of failure, and the exit status is then 1.
    """
    from kcli.admin.topics import find_partitions
    from kcli.cli.output.escapes import unescape
    from kcli.cli.produce.chunks import open_inputs
    from kcli.cli.produce.feed import feed
    from kcli.cli.produce.tally import WriteTally
    from kcli.producer.producer import Producer

    config = _config(common, compression, acks)
    tally = WriteTally()
    parse = _parser(input, delimiter, key_delimiter, key, header or [], timestamp, empty_as_null, tally)
    between = unescape("\\n" if delimiter is None else delimiter)
    started_ms = env.clock.now_ms()
    with closing(common.connect(config)) as client:
        find_partitions(client, {topic: None if partition is None else [partition]}, common.deadline_ms())
        try:
            feed(
                Producer(config, client),
                topic,
                partition,
                open_inputs(file or ["-"], env.stdin_bytes),
                parse,
                tally,
                delimiter=between,
                longest_bytes=config.max_request_size * (1 if input == "raw" else _JSON_EXPANSION),
                wall_ms=env.clock.wall_ms,
            )
        finally:
            if stats or common.verbose:
                env.say(f"kcli: {tally.summary((env.clock.now_ms() - started_ms) / 1000)}")
            for line in tally.failure_lines():
                env.say(f"kcli: {line}")
    return exit_status.FAILED if tally.failed else exit_status.DONE


# A byte may be written as \u00ff, and there are names and punctuation.
_JSON_EXPANSION = 7


def _config(common: Common, compression: str | None, acks: str | None) -> ProducerConfig:
    """Kafka's defaults, but for bulk, and with `--timeout` as the time that a record may take."""
    from kcli.client.config import ProducerConfig

    chosen = {"compression_type": compression, "acks": acks}
    config = common.config(ProducerConfig, **{name: value for name, value in chosen.items() if value is not None})
    timeout_ms = int(common.timeout_ms)
    request_timeout_ms = max(1, min(config.request_timeout_ms, timeout_ms - config.linger_ms))
    ours = {
        **BULK,
        "max.block.ms": timeout_ms,
        "delivery.timeout.ms": max(timeout_ms, config.linger_ms + request_timeout_ms),
        "request.timeout.ms": request_timeout_ms,
    }
    return config.with_properties({name: value for name, value in ours.items() if name not in config.given})


def _parser(
    kind: str,
    delimiter: str | None,
    key_delimiter: str | None,
    key: str | None,
    header: list[str],
    timestamp: int | None,
    empty_as_null: bool,
    tally: WriteTally,
) -> Parse:
    from kcli.cli.output.escapes import unescape
    from kcli.cli.produce.delimited import Shape
    from kcli.cli.produce.parsers import jsonl_parser, raw_parser

    headers = [_header(text) for text in header]
    if kind == "jsonl":
        if delimiter is not None or key_delimiter is not None or key is not None or empty_as_null:
            raise ConfigError("--input jsonl has keys, nulls and line ends of its own: no -D, -K, -k or -Z with it")
        return jsonl_parser(headers, timestamp, tally)
    if kind != "raw":
        raise ConfigError(f"--input must be raw or jsonl, not {kind}")
    if key is not None and key_delimiter is not None:
        raise ConfigError("-k gives all records the same key, -K each its own: choose one")
    if key_delimiter == "":
        raise ConfigError("-K needs at least one character")
    shape = Shape(
        None if key is None else key.encode("utf-8", "surrogateescape"),
        None if key_delimiter is None else unescape(key_delimiter),
        headers,
        empty_as_null,
    )
    return raw_parser(shape, timestamp)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.encode("utf-8", "surrogateescape").partition(b"=")
    try:
        return name.decode(), value if equals else None
    except UnicodeDecodeError:
        raise ConfigError(f"-H {text!r}: the name of a header is UTF-8") from None
