"""`kcli consume topic`: read a range of a topic, or follow it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig

# The socket's buffer is left to the operating system, which grows it, and answers stay small enough for several of them
# to be in memory decoded: 8 MiB costs no more CPU than Kafka's 50. What the person sets is kept.
BULK = {"receive.buffer.bytes": "-1", "fetch.max.bytes": str(8 << 20)}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC[:P,P..]...", help="Topics, or some partitions of them.")],
    offset: Annotated[
        list[str] | None,
        typer.Option("--offset", "-o", metavar="[P=]RANGE", help="Where to start and stop, see above; repeatable."),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Stop at the end that the partitions have at the start.")
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", metavar="N", min=1, help="Stop after N printed records.")
    ] = None,
    idle_timeout: Annotated[
        float | None,
        typer.Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing has come for so long."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", metavar="P,P..", help="Only these partitions; repeatable.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", "-f", metavar="FORMAT", help="How to print a record, see above.")
    ] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", "-D", metavar="TEXT", help="After each value.")] = "\\n",
    key_delimiter: Annotated[
        str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="Print keys too, and this behind them.")
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", "-Z", metavar="TEXT", help="What to print for a null; else nothing.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only records whose value matches.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="REGEX", help="Only records whose key matches.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=REGEX", help="Only records with such a header; repeated: with all of them."
        ),
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Only records that those three leave out.")] = False,
    isolation_level: Annotated[
        str | None,
        typer.Option(
            "--isolation-level",
            metavar="read_uncommitted|read_committed",
            help="Whether to leave out aborted and unfinished transactions. [read_uncommitted]",
        ),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="At the end say records, bytes and rates on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no footer on stderr.")] = False,
) -> int:
    r"""Read a range of a topic, or follow it. Nothing is committed, and no topic is ever created.

    RANGE is START, START:END or :END; without -o it is "end": new records only. END is exclusive, and a range that has
    one always ends. START and END are: start, end, 100 (an offset), +100 (behind the log start), -100 (before the log
    end), @TIME (the first record at or after it). TIME is epoch seconds or milliseconds, 2024-01-31,
    2024-01-31T10:00:00Z (no zone: UTC), -1h30m, or now: -o @-2h:-1h. P=RANGE is for partition P; if there are only
    such ranges, only those partitions are read.

    FORMAT has kcat's verbs: %s value, %k key, %t topic, %p partition, %o offset, %T timestamp, %h headers, %S and %K
    lengths of value and key, %R value length as 4 bytes, %% a percent sign; and %{time}, %{value:hex}, %{value:base64},
    %{key:hex}, %{key:base64}. Escapes, in -D and -K too: \n \r \t \0 \xNN \\. Nothing is added to it.

    --output prints records as jsonl, json (one document), csv, tsv or a table. On a terminal control characters are
    escaped; in a pipe bytes are exact. --timeout is for the start, and for how long a bounded read may stand still.
    Expressions are Python's, over bytes. Exit status 5: a range was not fully covered.
    """
    from kcli.cli.offset_spec import choose_ranges, parse_offset_specs
    from kcli.cli.records.filters import compile_filters
    from kcli.cli.records.pump import Limits
    from kcli.cli.records.renderer import Style, make_renderer
    from kcli.cli.records.session import Manner, print_ranges
    from kcli.cli.topic_spec import find_partitions, parse_topics
    from kcli.consumer.range_reader import RangeReader

    specs = parse_offset_specs(offset or (), env.clock.wall_ms())
    wanted = parse_topics(topic, partition or ())
    raw_options = (format, key_delimiter, null, None if delimiter == "\\n" else delimiter)
    is_raw = any(option is not None for option in raw_options)  # and that is nearer than KCLI_OUTPUT
    output = common.output_option if is_raw else common.output
    terminal = env.stdout_is_terminal
    manner = Manner(
        make_renderer(Style(output, format, delimiter, key_delimiter, null, terminal=terminal)),
        compile_filters(grep, key, header or (), invert=invert),
        Limits(max_messages, _idle_ms(idle_timeout)),
        stats,
        quiet,
    )
    config = _config(common, isolation_level)
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        partitions = find_partitions(client, wanted, deadline_ms)
        named = [name for name, numbers in wanted.items() if numbers is not None]
        ranges = choose_ranges(partitions, specs, named, exit_at_end=exit_at_end)
        reader = RangeReader(client, ranges, config)
        return print_ranges(env, client, reader, ranges, manner, deadline_ms)


def _config(common: Common, isolation_level: str | None) -> ConsumerConfig:
    from kcli.client.config import ConsumerConfig

    own = {name: value for name, value in BULK.items() if name not in common.properties}
    own["default.api.timeout.ms"] = str(round(common.timeout_ms))
    if isolation_level is not None:
        own["isolation.level"] = isolation_level
    return common.config(ConsumerConfig, **own)


def _idle_ms(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < 1e9:
        raise ConfigError(f"--idle-timeout must be a number of seconds above 0, not {seconds:g}")
    return None if seconds is None else seconds * 1000
