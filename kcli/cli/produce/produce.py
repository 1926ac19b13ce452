"""The command `kcli produce`: options, producer settings, report."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption, naming
from kcli.cli.parser import Argument, Option
from kcli.cli.serde_options import MessageOption, SchemaFileOption
from kcli.errors import ConfigError
from kcli.settings import invalid_value
from kcli.text import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.cli.output.progress import Progress
    from kcli.cli.produce.encoding import Encoding
    from kcli.cli.produce.feed import Parse, WriteTally
    from kcli.client.config import ProducerConfig
    from kcli.producer.producer import Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Kafka's defaults are for a slow stream of records. Bulk input needs few and large batches: the estimate of their size
# leaves room below max.request.size and message.max.bytes, and so that one call of the system writes a request, the
# system chooses the size of the socket's buffer.
_BULK_LINGER_MS = 100  # the input is flushed when it pauses, so only partial batches of several partitions wait
BULK = {"batch.size": 896 << 10, "buffer.memory": 16 << 20, "receive.buffer.bytes": -1, "send.buffer.bytes": -1}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[str, Argument(metavar="TOPIC", help="Topic to write to; it must exist.")],
    file: Annotated[
        list[str] | None, Argument(metavar="[FILE]...", help="Files to read; - or none: standard input.")
    ] = None,
    input: Annotated[str, Option("--input", metavar="raw|jsonl", help="Format of the input.")] = "raw",
    delimiter: Annotated[
        str | None, Option("--delimiter", "-D", metavar="TEXT", help=r"Delimiter between records. [\n]")
    ] = None,
    key_delimiter: Annotated[
        str | None,
        Option("--key-delimiter", "-K", metavar="TEXT", help="Delimiter between key and value."),
    ] = None,
    key: Annotated[str | None, Option("--key", "-k", metavar="TEXT", help="Key of all records.")] = None,
    serde: Annotated[
        list[str] | None,
        Option(
            "--serde", "-s", metavar="[key=|value=]NAME", help="Encode keys or values, or both, see above; repeatable."
        ),
    ] = None,
    schema_registry: RegistryOption = None,
    schema_id: Annotated[
        list[str] | None,
        Option("--schema-id", metavar="[key=|value=]N", help="Encode with this schema of the registry. [value]"),
    ] = None,
    subject: Annotated[
        list[str] | None,
        Option(
            "--subject",
            metavar="[key=|value=]NAME",
            help="Encode with the newest schema of this subject. [TOPIC-key, TOPIC-value]",
        ),
    ] = None,
    schema_file: SchemaFileOption = None,
    message: MessageOption = None,
    register: Annotated[
        bool, Option("--register", help="Register the schema of --schema-file if its subject does not have it.")
    ] = False,
    partition: Annotated[
        int | None,
        Option("--partition", "-p", metavar="N", min=0, help="Write to this partition, regardless of the key."),
    ] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records; repeatable; NAME alone: null."),
    ] = None,
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            metavar="TIME",
            help="Timestamp of all records: ms or seconds since 1970, 2024-01-31T10:00Z, -1h. [now]",
        ),
    ] = None,
    empty_as_null: Annotated[bool, Option("--empty-as-null", "-Z", help="Send empty keys and values as null.")] = False,
    compression: Annotated[
        str | None,
        Option("--compression", "-z", metavar="|".join(CODECS), help="Compression codec of batches. [none]"),
    ] = None,
    acks: Annotated[
        str | None, Option("--acks", metavar="0|1|all", help="Replicas that must store a record. [all]")
    ] = None,
    transactional_id: Annotated[
        str | None,
        Option(
            "--transactional-id",
            metavar="ID",
            help="Store all records or none, in one transaction under this id; fences other producers with it.",
        ),
    ] = None,
    stats: Annotated[bool, Option("--stats", help="Print counts and rates to stderr at the end.")] = False,
) -> int:
    r"""Write each line of standard input, or of files, as a record. The topic is never created.

    Delimiters may contain \n, \t, \0 and \xHH; the last record needs no delimiter. With -D '' each file is one record.
    A line without the -K delimiter has no key. Records with a key are partitioned by its hash, as in Java. Records
    without a key are written to one partition until a batch is full, then to the next.

    --input jsonl reads the output of `kcli consume --output jsonl`: key, value, headers and timestamp of each line.

    -s encodes: string, hex, base64 and the letters of kcat's pack strings from text; json, msgpack, avro, protobuf and
    json-schema from JSON. With --input jsonl it encodes nested values, as `kcli consume -s` prints them. The schema is
    that of --schema-id, of --subject or of --schema-file. No schema is registered without --register; without a
    registry, a payload has no schema id. A record that cannot be encoded has failed.

    When the input pauses, the records read so far are sent at once. A record that is not acknowledged within --timeout
    has failed. Each kind of failure is reported in one line with its count: "not stored", or "possibly stored" if an
    answer was lost, so that a broker may have stored the record. Sending a record again that is possibly stored may
    store it twice; otherwise kcli stores each record once (unless acks or enable.idempotence is changed). With --output
    json, jsonl, csv, tsv or table the counts of all outcomes are printed.

    --transactional-id writes the whole input in one transaction. It is committed at the end of the input; readers with
    --isolation-level read_committed see all records or none. The first record that fails, an error and an interruption
    abort it: then nothing is stored. The coordinator aborts it after transaction.timeout.ms (60 s) from the first
    record; set it with -X for a longer input. If the response to the commit is lost, the status is 5 and all records
    are possibly stored; `kcli transaction describe` shows the state.

    Exit status: 0 all stored; 5 all failed records are possibly stored or timed out; 4 all were refused for lack of
    permission; 1 otherwise.
    """
    from kcli.admin.topics import find_partitions
    from kcli.cli.output.escapes import unescape
    from kcli.cli.produce.feed import WriteTally, feed, open_inputs
    from kcli.producer.producer import Producer

    encoding = None
    if serde or schema_id or subject or schema_file or message or register:
        from kcli.cli.produce.encoding import EncodeOptions, make_encoding

        chosen = EncodeOptions(
            serde or (), schema_id or (), subject or (), schema_file or (), message or (), register=register
        )
        encoding = make_encoding(chosen, topic, lambda: common.registry(schema_registry))
    config = _config(common, compression, acks, transactional_id)
    tally = WriteTally(acks_0=config.acks == 0)
    with naming("--timestamp"):
        timestamp_ms = None if timestamp is None else parse_time(timestamp.removeprefix("@"), env.clock.wall_ms())
    parse = _parser(input, delimiter, key_delimiter, key, header or [], timestamp_ms, empty_as_null, tally, encoding)
    with naming("-D"):
        between = unescape("\\n" if delimiter is None else delimiter)
    started_ms = env.clock.now_ms()
    with closing(common.connect(config)) as client:
        find_partitions(client, {topic: None if partition is None else [partition]}, common.deadline_ms())
        producer = Producer(config, client)
        files = file or ["-"]

        def write() -> None:
            with _progress(env, files, tally) as progress:
                feed(
                    producer,
                    topic,
                    partition,
                    open_inputs(files, env.stdin_bytes),
                    parse,
                    tally,
                    delimiter=between,
                    longest_bytes=config.max_request_size * (1 if input == "raw" else _JSON_EXPANSION),
                    wall_ms=env.clock.wall_ms,
                    tick=progress.tick,
                )

        try:
            if config.transactional_id is None:
                write()
            else:
                _write_transaction(producer, tally, write)
        finally:
            producer.close(flush=False)
            if stats or common.verbose:
                env.report(f"kcli: {tally.summary((env.clock.now_ms() - started_ms) / 1000)}")
            for line in tally.failure_lines():
                env.report(f"kcli: {line}")
            if common.output_option is not None:
                _print_outcomes(env, topic, tally, common.output_option)
    return exit_status.status_of_all(failure.error for failure in tally.failures)


def _write_transaction(producer: Producer, tally: WriteTally, write: Callable[[], None]) -> None:
    """Write all records in a transaction. SIGTERM and SIGHUP interrupt it like Ctrl-C, so that it is aborted."""
    from kcli.cli.environment import StopSignals
    from kcli.cli.produce.feed import feed_transaction

    with StopSignals():
        try:
            feed_transaction(producer, tally, write)
        except BaseException:
            producer.close(flush=False)
            raise
        finally:
            tally.is_abort_confirmed = not producer.awaits_transaction_end


def _progress(env: Environment, files: list[str], tally: WriteTally) -> Progress:
    """Return a progress bar by the bytes read, shown if the size of the input is known."""
    from kcli.cli.output.progress import Progress
    from kcli.cli.produce.feed import size_of

    total = size_of(files, env.stdin_bytes)
    return Progress(
        env,
        fraction=lambda: min(1.0, tally.bytes_read / (total or 1)),
        records=lambda: tally.stored,
        shown=bool(total),
        activity="writing",
    )


def _print_outcomes(env: Environment, topic: str, tally: WriteTally, output: str) -> None:
    """Print the number of records of each outcome: stored by partition, the others by error."""
    from kcli.cli.mutation import showing_outcome
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report, error_field
    from kcli.text import format_count

    outcome = tally.sent_outcome.replace(" ", "-")
    items: list[Item] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "outcome": outcome,
            "records": count,
        }
        for tp, count in sorted(tally.stored_by_partition.items())
    ]
    items += [
        {
            "topic": topic,
            "partition": None,
            "outcome": failure.outcome.replace(" ", "-"),
            "records": failure.records,
            "error": error_field(failure.error),
        }
        for failure in tally.failures
    ]
    columns = ["topic", "partition", "outcome", "records"]
    sent = sum(tally.stored_by_partition.values())
    with showing_outcome(env, f"{format_count(sent, 'record')} {tally.sent_outcome}"):
        print_report(env, Report("produce", columns, items), output, failures_reported=True)


# The length of a line in JSON relative to its record: a byte may be written as \u00ff, besides names and punctuation.
_JSON_EXPANSION = 7


def _config(common: Common, compression: str | None, acks: str | None, transactional_id: str | None) -> ProducerConfig:
    """Return Kafka's defaults, adjusted for bulk, with `--timeout` as the delivery timeout of a record."""
    from kcli.client.config import ProducerConfig

    if transactional_id is not None and not transactional_id.strip():  # stripped, it would mean no transaction
        raise ConfigError("--transactional-id must not be empty")
    chosen = {"compression_type": compression, "acks": acks, "transactional_id": transactional_id}
    config = common.config(ProducerConfig, **{name: value for name, value in chosen.items() if value is not None})
    timeout_ms = int(common.timeout_ms)
    linger_ms = config.linger_ms if "linger.ms" in config.given else min(_BULK_LINGER_MS, timeout_ms // 10)
    request_timeout_ms = max(1, min(config.request_timeout_ms, timeout_ms - linger_ms))
    adjusted = {
        **BULK,
        "linger.ms": linger_ms,
        "max.block.ms": timeout_ms,
        "delivery.timeout.ms": max(timeout_ms, linger_ms + request_timeout_ms),
        "request.timeout.ms": request_timeout_ms,
    }
    return config.with_properties({name: value for name, value in adjusted.items() if name not in config.given})


def _parser(
    kind: str,
    delimiter: str | None,
    key_delimiter: str | None,
    key: str | None,
    header: list[str],
    timestamp_ms: int | None,
    empty_as_null: bool,
    tally: WriteTally,
    encoding: Encoding | None,
) -> Parse:
    from kcli.cli.output.escapes import unescape
    from kcli.cli.produce.records import Shape, jsonl_parser, raw_parser

    headers = [_header(text) for text in header]
    if kind == "jsonl":
        if delimiter is not None or key_delimiter is not None or key is not None or empty_as_null:
            raise ConfigError("--input jsonl cannot be combined with -D, -K, -k or -Z")
        return jsonl_parser(headers, timestamp_ms, tally, encoding)
    if kind != "raw":
        raise invalid_value("--input", kind, "raw or jsonl")
    if key is not None and key_delimiter is not None:
        raise ConfigError("-k cannot be combined with -K; -k sets one key for all records")
    if key_delimiter == "":
        raise ConfigError("-K must not be empty; give the delimiter between key and value")
    with naming("-K"):
        key_end = None if key_delimiter is None else unescape(key_delimiter)
    shape = Shape(
        None if key is None else key.encode("utf-8", "surrogateescape"),
        key_end,
        headers,
        empty_as_null,
    )
    return raw_parser(shape, timestamp_ms, tally, encoding)


def _header(text: str) -> tuple[str, bytes | None]:
    """Parse NAME=VALUE, or NAME for a null value, as kcat does."""
    name, equals, value = text.encode("utf-8", "surrogateescape").partition(b"=")
    if not name:
        raise invalid_value("-H", text, "NAME=VALUE, or NAME for a null value; the name must not be empty")
    try:
        return name.decode(), value if equals else None
    except UnicodeDecodeError:
        raise ConfigError(f"-H: {text!r} is not valid; use a header name in UTF-8") from None
