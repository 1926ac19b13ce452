"""`kcli consume topic`: read a range of a topic, follow it, or take part in a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.options import MemberOptions
    from kcli.cli.consume.range_session import Manner
    from kcli.client.config import ConsumerConfig

# The socket's buffer is left to the operating system, which grows it, and answers stay small enough for several of them
# to be in memory decoded: 8 MiB costs no more CPU than Kafka's 50. What the person sets is kept.
BULK = {"receive.buffer.bytes": "-1", "fetch.max.bytes": str(8 << 20)}
NO_GROUP: Mapping[str, str] = {}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC[:P,P..]...", help="Topics, or some partitions of them.")],
    offset: Annotated[
        list[str] | None,
        Option("--offset", "-o", metavar="[P=]RANGE", help="Where to start and stop, see above; repeatable."),
    ] = None,
    exit_at_end: Annotated[
        bool, Option("--exit", "-e", help="Stop at the end that the partitions have at the start.")
    ] = False,
    max_messages: Annotated[
        int | None, Option("--max-messages", "-n", metavar="N", min=1, help="Stop after N printed records.")
    ] = None,
    idle_timeout: Annotated[
        float | None,
        Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing has come for so long."),
    ] = None,
    partition: Annotated[
        list[str] | None, Option("--partition", "-p", metavar="P,P..", help="Only these partitions; repeatable.")
    ] = None,
    format: Annotated[
        str | None, Option("--format", "-f", metavar="FORMAT", help="How to print a record, see above.")
    ] = None,
    delimiter: Annotated[str, Option("--delimiter", "-D", metavar="TEXT", help="After each value.")] = "\\n",
    key_delimiter: Annotated[
        str | None, Option("--key-delimiter", "-K", metavar="TEXT", help="Print keys too, and this behind them.")
    ] = None,
    null: Annotated[
        str | None, Option("--null", "-Z", metavar="TEXT", help="What to print for a null; else nothing.")
    ] = None,
    grep: Annotated[str | None, Option("--grep", metavar="REGEX", help="Only records whose value matches.")] = None,
    key: Annotated[str | None, Option("--key", metavar="REGEX", help="Only records whose key matches.")] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", metavar="NAME=REGEX", help="Only records with such a header; repeated: with all of them."),
    ] = None,
    invert: Annotated[bool, Option("--invert", help="Only records that those three leave out.")] = False,
    isolation_level: Annotated[
        str | None,
        Option(
            "--isolation-level",
            metavar="read_uncommitted|read_committed",
            help="Whether to leave out aborted and unfinished transactions. [read_uncommitted]",
        ),
    ] = None,
    group: Annotated[
        str | None, Option("--group", metavar="GROUP", help="Read as a member of this group, see above.")
    ] = None,
    no_commit: Annotated[bool, Option("--no-commit", help="Of a member: commit nothing.")] = False,
    assignor: Annotated[
        str | None,
        Option(
            "--assignor",
            metavar="NAME",
            help="How partitions are shared. [range,cooperative-sticky; the broker's own under --protocol consumer]",
        ),
    ] = None,
    instance_id: Annotated[
        str | None,
        Option("--instance-id", metavar="ID", help="Be a static member: it keeps its partitions over a restart."),
    ] = None,
    protocol: Annotated[
        str | None,
        Option(
            "--protocol", metavar="classic|consumer", help="Who assigns: members, or the broker (KIP-848). [classic]"
        ),
    ] = None,
    stats: Annotated[bool, Option("--stats", help="At the end say records, bytes and rates on stderr.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No notes and no footer on stderr.")] = False,
) -> int:
    r"""Read a range of a topic, or follow it. No topic is ever created, and without --group nothing is committed.

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

    --group joins GROUP and reads what it assigns, from the committed offsets on; -o start or end is for partitions
    without one. What was printed is committed, and only that: every auto.commit.interval.ms, before partitions go to
    another member, and at the end, also with -n, Ctrl-C, SIGTERM, or a full disk; what a filter leaves out counts as
    printed, and so does what was written into a pipe, so use -n and not head. Then the group is left at once, but not
    by a static member. -e stops when all assigned partitions are read up to the end they had when they were assigned.
    """
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.filters import compile_filters
    from kcli.cli.consume.options import (
        MemberOptions,
        Style,
        check_topics,
        choose_ranges,
        make_renderer,
        parse_offset_specs,
        refuse_without_group,
    )
    from kcli.cli.consume.range_session import Manner, print_ranges
    from kcli.cli.consume.read_loop import Limits
    from kcli.text import parse_topics

    member = MemberOptions(group, no_commit, assignor, instance_id, protocol)
    refuse_without_group(member)
    specs = parse_offset_specs(() if group is not None else offset or (), env.clock.wall_ms())
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
    if group is not None:
        topics = check_topics(wanted, partition or ())
        config = _member_config(common, isolation_level, member, offset or ())
        return _take_part(env, common, topics, config, manner, exit_at_end=exit_at_end, commits=not no_commit)
    from kcli.consumer.range_reader import RangeReader

    config = _config(common, isolation_level)
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        partitions = find_partitions(client, wanted, deadline_ms)
        named = [name for name, numbers in wanted.items() if numbers is not None]
        ranges = choose_ranges(partitions, specs, named, exit_at_end=exit_at_end)
        reader = RangeReader(client, ranges, config)
        return print_ranges(env, client, reader, ranges, manner, deadline_ms)


def _take_part(
    env: Environment,
    common: Common,
    topics: list[str],
    config: ConsumerConfig,
    manner: Manner,
    *,
    exit_at_end: bool,
    commits: bool,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.member_session import MemberPlan, print_as_member
    from kcli.client.routing import GROUP, find_coordinators
    from kcli.consumer.consumer import Consumer

    assert config.group_id is not None
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        find_partitions(client, dict.fromkeys(topics), deadline_ms)
        for error in find_coordinators(client, [config.group_id], GROUP, deadline_ms).errors.values():
            raise error
        every_ms = config.auto_commit_interval_ms if commits else None
        plan = MemberPlan(config.group_id, topics, every_ms, common.timeout_ms, exit_at_end)
        return print_as_member(env, client, Consumer.from_config(config, client), manner, plan)


def _member_config(
    common: Common, isolation_level: str | None, member: MemberOptions, offsets: Sequence[str]
) -> ConsumerConfig:
    from kcli.cli.consume.options import assignor_property, member_properties

    own = member_properties(member, offsets)
    config = _config(common, isolation_level, own)
    if member.assignor is None:
        return config
    return _config(common, isolation_level, {**own, **assignor_property(member.assignor, config.group_protocol)})


def _config(common: Common, isolation_level: str | None, group: Mapping[str, str] = NO_GROUP) -> ConsumerConfig:
    from kcli.client.config import ConsumerConfig

    own = {name: value for name, value in BULK.items() if name not in common.properties}
    own.update(group)
    own["default.api.timeout.ms"] = str(round(common.timeout_ms))
    if isolation_level is not None:
        own["isolation.level"] = isolation_level
    return common.config(ConsumerConfig, **own)


def _idle_ms(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < 1e9:
        raise ConfigError(f"--idle-timeout must be a number of seconds above 0, not {seconds:g}")
    return None if seconds is None else seconds * 1000
