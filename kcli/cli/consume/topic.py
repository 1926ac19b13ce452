"""`kcli consume topic`: read a range of a topic, follow it, or read as a member of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.options import MemberOptions
    from kcli.cli.consume.range_session import PrintOptions
    from kcli.client.config import ConsumerConfig

# With -1 the operating system sizes the receive buffer. Responses of 8 MiB need no more CPU than Kafka's 50 MiB, and
# several of them fit in memory decoded. A person who follows a topic should not wait for Kafka's 5 minutes until the
# metadata shows a new partition. Settings of the user take precedence.
DEFAULTS = {"receive.buffer.bytes": "-1", "fetch.max.bytes": str(8 << 20), "metadata.max.age.ms": "30000"}
_EMPTY_READ = "-e without -o reads nothing: the read starts at the log end; use -o start to start at the log start"
NO_GROUP: Mapping[str, str] = {}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC[:P,P..]...", help="Topics, or some partitions of them.")],
    offset: Annotated[
        list[str] | None,
        Option("--offset", "-o", metavar="[P=]RANGE", help="Range to read, see above; repeatable. [end]"),
    ] = None,
    from_beginning: Annotated[bool, Option("--from-beginning", help="Read from the log start, like -o start.")] = False,
    exit_at_end: Annotated[
        bool, Option("--exit", "-e", help="Stop at the end offsets that the partitions have at the start.")
    ] = False,
    max_messages: Annotated[
        int | None, Option("--max-messages", "-n", metavar="N", min=1, help="Stop after N printed records.")
    ] = None,
    idle_timeout: Annotated[
        float | None,
        Option("--idle-timeout", metavar="SECONDS", help="Stop when no record arrives for SECONDS. [never]"),
    ] = None,
    partition: Annotated[
        list[str] | None, Option("--partition", "-p", metavar="P,P..", help="Read only these partitions; repeatable.")
    ] = None,
    format: Annotated[
        str | None, Option("--format", "-f", metavar="FORMAT", help="Print records in this format, see above.")
    ] = None,
    delimiter: Annotated[str, Option("--delimiter", "-D", metavar="TEXT", help="Print TEXT after each value.")] = "\\n",
    key_delimiter: Annotated[
        str | None,
        Option("--key-delimiter", "-K", metavar="TEXT", help="Print each key and TEXT before the value."),
    ] = None,
    null: Annotated[
        str | None, Option("--null", "-Z", metavar="TEXT", help="Print TEXT for a null. [nothing; NULL in %h]")
    ] = None,
    grep: Annotated[
        str | None, Option("--grep", metavar="REGEX", help="Print only records whose value matches.")
    ] = None,
    key: Annotated[str | None, Option("--key", metavar="REGEX", help="Print only records whose key matches.")] = None,
    header: Annotated[
        list[str] | None,
        Option(
            "--header",
            "-H",
            metavar="NAME=REGEX",
            help="Print only records with a matching header; repeatable: all must match.",
        ),
    ] = None,
    invert: Annotated[
        bool, Option("--invert", help="Print only records that --grep, --key and --header exclude.")
    ] = False,
    isolation_level: Annotated[
        str | None,
        Option(
            "--isolation-level",
            metavar="read_uncommitted|read_committed",
            help="With read_committed, skip records of aborted and open transactions. [read_uncommitted]",
        ),
    ] = None,
    group: Annotated[
        str | None, Option("--group", "-g", metavar="GROUP", help="Read as a member of this group, see above.")
    ] = None,
    no_commit: Annotated[bool, Option("--no-commit", help="Commit nothing, as a member.")] = False,
    assignor: Annotated[
        str | None,
        Option(
            "--assignor",
            metavar="NAME",
            help="Assignor of the group. [range,cooperative-sticky; with --protocol consumer the broker's default]",
        ),
    ] = None,
    instance_id: Annotated[
        str | None,
        Option("--instance-id", metavar="ID", help="Join as a static member, which keeps its partitions at a restart."),
    ] = None,
    protocol: Annotated[
        str | None,
        Option(
            "--protocol",
            metavar="classic|consumer",
            help="Group protocol: the members assign partitions, or the broker does (KIP-848). [classic]",
        ),
    ] = None,
    stats: Annotated[bool, Option("--stats", help="Report records, bytes and rates on stderr at the end.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Report no notes and no coverage table on stderr.")] = False,
) -> int:
    r"""Read a range of a topic, or follow it. Without --group nothing is committed; no topic is created.

    RANGE is START, START:END or :END; the default is "end": new records only. END is exclusive. START and END are:
    start (or beginning, earliest, oldest), end (or latest, newest), 100 (an offset), +100 (after the log start), -100
    (before the log end), @TIME (the first record at or after it). TIME is epoch seconds or milliseconds, 2024-01-31,
    2024-01-31T10:00:00Z (without a zone: UTC), -1h30m, or now; for example -o @-2h:-1h. P=RANGE is for partition P;
    with only such ranges, only those partitions are read. Partitions that are added to a followed topic are read from
    their start. When the end of the log is reached, one line on stderr says so; with -v, one more every 10 seconds.

    FORMAT has kcat's verbs: %s value, %k key, %t topic, %p partition, %o offset, %T timestamp, %h headers, %S and %K
    length of value and key, %R value length as 4 bytes, %% a percent sign; and %{time}, %{value:hex}, %{value:base64},
    %{key:hex}, %{key:base64}. Escapes, also in -D and -K: \n \r \t \0 \xNN \\. No newline is added.

    --output prints records as jsonl, json (one document), csv, tsv or a table. A null is nothing in raw output, NULL in
    %h as in kcat, null in JSON, and "-" in tables; csv and tsv have columns that tell it from "". Control characters
    are escaped on a terminal, and matches of --grep and --key are red there; other output has the exact bytes.
    --timeout limits the start, and the time that a bounded read waits for a record. REGEX is a Python expression over
    bytes. Exit status 5: a range was not read completely.

    --group joins GROUP and reads the assigned partitions from the committed offsets; -o start or -o end applies to
    partitions without one. Only printed records are committed: every auto.commit.interval.ms, before partitions are
    revoked, and at the end, also after -n, Ctrl-C, SIGTERM or a full disk. Filtered records count as printed, and so
    do records written into a pipe, so use -n instead of head. At the end the member leaves the group, unless it is
    static. -e stops when all assigned partitions are read to the end offsets that they had at their assignment.
    """
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.filters import compile_filters
    from kcli.cli.consume.options import (
        MemberOptions,
        RenderOptions,
        check_topics,
        choose_ranges,
        followed_topics,
        make_renderer,
        offset_options,
        parse_offset_specs,
        refuse_without_group,
    )
    from kcli.cli.consume.range_session import PrintOptions, print_ranges
    from kcli.cli.consume.read_loop import Limits, Sink, complete_document
    from kcli.text import parse_topics

    member = MemberOptions(group, no_commit, assignor, instance_id, protocol)
    refuse_without_group(member, common.on_purpose)
    offsets = offset_options(offset, from_beginning=from_beginning)
    specs = parse_offset_specs(() if group is not None else offsets, env.clock.wall_ms())
    wanted = parse_topics(topic, partition or ())
    raw_options = (format, key_delimiter, null, None if delimiter == "\\n" else delimiter)
    is_raw = any(option is not None for option in raw_options)  # which takes precedence over KCLI_OUTPUT
    output = common.output_option if is_raw else common.output
    filters = compile_filters(grep, key, header or (), invert=invert)
    highlights = filters.highlights if filters is not None and env.colour else {}
    rendering = RenderOptions(output, format, delimiter, key_delimiter, null, env.stdout_is_terminal, highlights)
    printing = PrintOptions(
        make_renderer(rendering),
        filters,
        Limits(max_messages, _idle_ms(idle_timeout)),
        stats,
        quiet,
        common.verbose,
        notes=[_EMPTY_READ] if exit_at_end and not offsets and group is None else [],
    )
    if group is not None:
        topics = check_topics(wanted, partition or ())
        config = _member_config(common, isolation_level, member, offsets)
        commits = not no_commit and common.properties.get("enable.auto.commit", "true").lower() != "false"
        return _read_as_member(env, common, topics, config, printing, exit_at_end=exit_at_end, commits=commits)
    from kcli.consumer.range_reader import RangeReader

    config = _config(common, isolation_level)
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            partitions = find_partitions(client, wanted, deadline_ms)
        named = [name for name, numbers in wanted.items() if numbers is not None]
        ranges = choose_ranges(partitions, specs, named, exit_at_end=exit_at_end)
        follow_new = followed_topics(wanted, specs, exit_at_end=exit_at_end)
        reader = RangeReader(client, ranges, config, follow_new=follow_new)
        return print_ranges(env, client, reader, printing, deadline_ms)


def _read_as_member(
    env: Environment,
    common: Common,
    topics: list[str],
    config: ConsumerConfig,
    printing: PrintOptions,
    *,
    exit_at_end: bool,
    commits: bool,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.member_session import MemberPlan, print_as_member
    from kcli.cli.consume.read_loop import Sink, complete_document
    from kcli.client.routing import GROUP, find_coordinators
    from kcli.consumer.consumer import Consumer

    assert config.group_id is not None
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            find_partitions(client, dict.fromkeys(topics), deadline_ms)
            for error in find_coordinators(client, [config.group_id], GROUP, deadline_ms).errors.values():
                if isinstance(error, BrokerError):  # the operation that a member needs, which implies DESCRIBE
                    raise BrokerError(error.code, error.detail, request="JoinGroup", **error.evidence)
                raise error
        every_ms = config.auto_commit_interval_ms if commits else None
        plan = MemberPlan(config.group_id, topics, every_ms, common.timeout_ms, exit_at_end, config.reads_committed)
        return print_as_member(env, client, Consumer.from_config(config, client), printing, plan)


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

    own = {name: value for name, value in DEFAULTS.items() if name not in common.properties}
    own.update(group)
    own["default.api.timeout.ms"] = str(round(common.timeout_ms))
    if isolation_level is not None:
        own["isolation.level"] = isolation_level
    return common.config(ConsumerConfig, **own)


def _idle_ms(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < 1e9:
        raise ConfigError(f"--idle-timeout: {seconds:g} is not valid; use a number of seconds above 0")
    return None if seconds is None else seconds * 1000
