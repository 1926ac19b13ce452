"""The command `kcli produce`: options, producer settings, report."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment, StopSignals
from kcli.cli.options import Common, naming
from kcli.cli.parser import Argument, Option, given_options
from kcli.cli.produce.options import EncodeOptions, InputOptions, ProducerOptions, RecordOptions
from kcli.errors import ConfigError
from kcli.settings import invalid_value
from kcli.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.cli.output.progress import Progress
    from kcli.cli.produce.encoding import Encoding
    from kcli.cli.produce.feed import Parse, WriteTally
    from kcli.client.config import ProducerConfig
    from kcli.producer.producer import Producer

# Kafka's defaults are for a slow stream of records. Bulk input needs few and large batches: the estimate of their size
# leaves room below max.request.size and message.max.bytes, and so that one call of the system writes a request, the
# system chooses the size of the socket's buffer.
_BULK_LINGER_MS = 100  # the input is flushed when it pauses, so only partial batches of several partitions wait
BULK = {"batch.size": 896 << 10, "buffer.memory": 16 << 20, "receive.buffer.bytes": -1, "send.buffer.bytes": -1}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[str, Argument(metavar="TOPIC", help="Topic to write to; it must exist.")],
    text: InputOptions,
    encode: EncodeOptions,
    record: RecordOptions,
    settings: ProducerOptions,
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
    if given_options(encode).keys() - {"--schema-registry"}:
        from kcli.cli.produce.encoding import make_encoding

        encoding = make_encoding(encode, topic, lambda: common.registry(encode.schema_registry))
    config = _config(common, settings)
    tally = WriteTally(acks_0=config.acks == 0)
    parse = _parser(text, record, record.timestamp_ms(env.clock.wall_ms()), tally, encoding)
    with naming("-D"):
        between = unescape("\\n" if text.delimiter is None else text.delimiter)
    started_ms = env.clock.now_ms()
    with closing(common.connect(config)) as client:
        find_partitions(client, {topic: None if record.partition is None else [record.partition]}, common.deadline_ms())
        producer = Producer.from_config(config, client, in_background=False)
        files = text.file or ["-"]

        def write() -> None:
            with _progress(env, files, tally) as progress:
                feed(
                    producer,
                    topic,
                    record.partition,
                    open_inputs(files, env.stdin_bytes),
                    parse,
                    tally,
                    delimiter=between,
                    longest_bytes=config.max_request_size * (1 if text.input == "raw" else _JSON_EXPANSION),
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
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report, error_field
    from kcli.cli.run_plan import showing_outcome

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


def _config(common: Common, settings: ProducerOptions) -> ProducerConfig:
    """Return Kafka's defaults, adjusted for bulk, with `--timeout` as the delivery timeout of a record."""
    from kcli.client.config import ProducerConfig

    chosen = settings._asdict()
    chosen["compression_type"] = chosen.pop("compression")
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
    text: InputOptions, record: RecordOptions, timestamp_ms: int | None, tally: WriteTally, encoding: Encoding | None
) -> Parse:
    from kcli.cli.output.escapes import unescape
    from kcli.cli.produce.records import Shape, jsonl_parser, raw_parser

    key, headers = text.key, record.headers()
    if text.input == "jsonl":
        if given_options(text).keys() - {"--file", "--input"} or record.empty_as_null:
            raise ConfigError("--input jsonl cannot be combined with -D, -K, -k or -Z")
        return jsonl_parser(headers, timestamp_ms, tally, encoding)
    if text.input != "raw":
        raise invalid_value("--input", text.input, "raw or jsonl")
    if key is not None and text.key_delimiter is not None:
        raise ConfigError("-k cannot be combined with -K; -k sets one key for all records")
    if text.key_delimiter == "":
        raise ConfigError("-K must not be empty; give the delimiter between key and value")
    with naming("-K"):
        key_end = None if text.key_delimiter is None else unescape(text.key_delimiter)
    shape = Shape(
        None if key is None else key.encode("utf-8", "surrogateescape"), key_end, headers, record.empty_as_null
    )
    return raw_parser(shape, timestamp_ms, tally, encoding)
