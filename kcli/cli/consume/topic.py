"""`kcli consume topic`: read a range of a topic, follow it, or read as a member of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common, RegistryOption
from kcli.cli.parser import Argument, Option
from kcli.cli.serde_options import MessageOption, SchemaFileOption
from kcli.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.options import MemberOptions, OffsetSpecs
    from kcli.cli.consume.range_session import PrintOptions
    from kcli.cli.consume.range_source import SourceOptions
    from kcli.client.config import ConsumerConfig
    from kcli.consumer.share.share_session import AcknowledgeType

# With -1 the operating system sizes the receive buffer. Responses of 8 MiB need no more CPU than Kafka's 50 MiB, and
# several of them fit in memory decoded. A person who follows a topic should not wait for Kafka's 5 minutes until the
# metadata shows a new partition. Settings of the user take precedence.
DEFAULTS = {"receive.buffer.bytes": "-1", "fetch.max.bytes": str(8 << 20), "metadata.max.age.ms": "30000"}
_EMPTY_READ = "-e without -o reads nothing: the read starts at the log end; use -o start to start at the log start"
NO_GROUP: Mapping[str, str] = {}


def run(
    env: Environment,
    common: Common,
    topic: Annotated[
        list[str] | None, Argument(metavar="[TOPIC[:P,P..]...]", help="Topics, or some partitions of them.")
    ] = None,
    topics: Annotated[
        str | None,
        Option("--topics", metavar="REGEX", help="Read all topics whose whole name matches, also those created later."),
    ] = None,
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
    serde: Annotated[
        list[str] | None,
        Option(
            "--serde",
            "-s",
            metavar="[key=|value=]NAME",
            help="Decode keys or values, or both, see above; repeatable.",
        ),
    ] = None,
    schema_registry: RegistryOption = None,
    schema_file: SchemaFileOption = None,
    message: MessageOption = None,
    where: Annotated[
        str | None,
        Option("--where", metavar="EXPR", help="Print only records for which this jq expression is true."),
    ] = None,
    select: Annotated[
        str | None,
        Option("--select", metavar="EXPR", help="Print the results of this jq expression instead of each record."),
    ] = None,
    columns: Annotated[
        str | None,
        Option("--columns", metavar="NAME,..", help="Print these columns of a table, csv or tsv, see above."),
    ] = None,
    isolation_level: Annotated[
        str | None,
        Option(
            "--isolation-level",
            metavar="read_uncommitted|read_committed",
            help="With read_committed, skip records of aborted and open transactions. [read_uncommitted]",
        ),
    ] = None,
    merge: Annotated[
        bool, Option("--merge", help="Print the records of all partitions in order of time, see above.")
    ] = False,
    tail: Annotated[
        int | None,
        Option("--tail", metavar="N", min=1, help="Begin with the last N records of all partitions, see above."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        Option("--checkpoint", metavar="FILE", help="Go on after the last printed record, as FILE says; see above."),
    ] = None,
    control: Annotated[
        bool, Option("--control", help="Print the transaction markers instead of the records, see above.")
    ] = False,
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
    share: Annotated[
        str | None, Option("--share", metavar="GROUP", help="Read as a member of this share group, see above.")
    ] = None,
    ack: Annotated[
        str | None,
        Option(
            "--ack",
            metavar="accept|release|reject",
            help="Acknowledge the printed records of a share group in this way. [accept]",
        ),
    ] = None,
    stats: Annotated[bool, Option("--stats", help="Report records, bytes and rates on stderr at the end.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Report no notes and no coverage table on stderr.")] = False,
) -> int:
    r"""Read a range of a topic, or follow it. Without --group nothing is committed; no topic is created.

    RANGE is START, START:END or :END; the default is "end": new records only. END is exclusive. START and END are:
    start (or beginning, earliest, oldest), end (or latest, newest), 100 (an offset), +100 (after the log start), -100
    (before the log end), @TIME (the first record at or after it). TIME is seconds (9 or 10 digits) or milliseconds (12
    or 13 digits) since 1970, 2024-01-31, 2024-01-31T10:00:00Z (without a zone: UTC), -1h30m, or now; for example
    -o @-2h:-1h. P=RANGE is for partition P; with only such ranges, only those partitions are read. Partitions that are
    added to a followed topic are read from their start. When the end of the log is reached, one line on stderr says so;
    with -v, one more every 10 seconds.

    FORMAT has kcat's verbs: %s value, %k key, %t topic, %p partition, %o offset, %T timestamp, %h headers, %S and %K
    length of value and key, %R value length as 4 bytes, %% a percent sign; and %{time}, %{value:hex}, %{value:base64},
    %{key:hex}, %{key:base64}, %{headers.NAME}. Escapes, also in -D and -K: \n \r \t \0 \xNN \\. No newline is added.

    --output prints records as jsonl, json (one document), csv, tsv or a table. A null is nothing in raw output, NULL in
    %h as in kcat, null in JSON, and "-" in tables; csv and tsv have columns that tell it from "". Control characters
    are escaped on a terminal, and matches of --grep and --key are red there; other output has the exact bytes.
    --timeout limits the start, and the time that a bounded read waits for a record. REGEX is a Python expression over
    bytes. Exit status 5: a range was not read completely.

    -s decodes: string, json, hex, base64, msgpack; avro, protobuf, json-schema with the schemas of --schema-registry or
    --schema-file; auto, by the first bytes of each payload; or letters of kcat's pack strings, such as q or '<i'. JSON
    output nests decoded values; elsewhere they are JSON on one line, or plain text. %{value.customer.id} in -f, and
    value.customer.id in --columns, is a part of a value. A value that does not decode is printed raw beside its error,
    counted, and makes the exit status 1.

    --where and --select are expressions of jq over records as --output jsonl prints them, for example --where
    '.value.price > 10' --select '{offset, id: .value.id}'. --header, --key and --grep test the bytes first; then
    records are decoded, then --where tests them, then -n counts them. In both, a key or value that does not decode is
    null, and .value_error is its error.

    --topics reads all topics whose whole name matches REGEX, a Python expression; with --protocol consumer one of the
    broker. Internal topics do not match, unless exclude.internal.topics=false. A follower also reads topics that are
    created later, from their start; it looks for them every metadata.max.age.ms (30 s).

    --merge prints the record with the earliest timestamp next; of two, that of the first topic and the lowest
    partition. The order of each partition is kept. A follower waits at most a second for partitions without new
    records; a record that arrives later is printed at once.

    --tail prints the last N records by time, in order of time, and then follows; with -e it stops. Of each partition,
    the last N records are considered. -o limits the range in which they are; filters and -n apply to them.

    --checkpoint stores the positions of the printed records in FILE, every half second and at the end. The next read
    with FILE goes on there, so that -o is for the first one only. After a kill, an output file (>> OUT) is first cut to
    the length that FILE has of it: no record is lost or printed twice. In another output, such as a pipe, the records
    since the last checkpoint are printed again. With -e, each run prints what is new.

    --control prints the markers that end transactions: the key is commit or abort, the value a JSON object with
    producer id, producer epoch and coordinator epoch.

    --group joins GROUP and reads the assigned partitions from the committed offsets; -o start or -o end applies to
    partitions without one. Only printed records are committed: every auto.commit.interval.ms, before partitions are
    revoked, and at the end, also after -n, Ctrl-C, SIGTERM or a full disk. Filtered records count as printed, and so
    do records written into a pipe, so use -n instead of head. At the end the member leaves the group, unless it is
    static. -e stops when all assigned partitions are read to the end offsets that they had at their assignment.

    --share joins a share group (KIP-932, Kafka 4.1 or newer): its members get different records of the same partitions.
    Each printed record is acknowledged after it was written: accept ends its delivery, reject too, for a record that no
    consumer can process; release, which requires -n, leaves it to the group, and counts as a delivery. All other
    records that this member holds are released at the end. The broker keeps the positions, so there is no -o, -p or -e:
    a new group begins at the log end, unless its setting share.auto.offset.reset is earliest.
    """
    from kcli.cli.consume.filters import compile_filters
    from kcli.cli.consume.options import (
        MemberOptions,
        RenderOptions,
        check_topics,
        make_renderer,
        offset_options,
        parse_offset_specs,
        refuse_without_group,
    )
    from kcli.cli.consume.range_session import PrintOptions
    from kcli.cli.consume.range_source import SourceOptions, choose_topics, refuse_with_group, refuse_with_output
    from kcli.cli.consume.read_loop import Limits

    member = MemberOptions(group, no_commit, assignor, instance_id, protocol)
    refuse_without_group(member, common.on_purpose)
    reading = SourceOptions(merge, tail, checkpoint, control, topics)
    refuse_with_group(reading, group)
    if share is not None or ack is not None:
        from kcli.cli.consume.share_session import acknowledge_type, refuse_with_share

        given: dict[str, object] = {
            "--group": group,
            "-o": offset,
            "--from-beginning": from_beginning,
            "-e": exit_at_end,
            "-p": partition,
        }
        given |= {"--grep": grep, "--key": key, "--header": header, "--where": where}
        given |= {"--isolation-level": isolation_level, **reading.given}
        refuse_with_share(share, given)
        acknowledgement = acknowledge_type(ack, max_records=max_messages)
    offsets = offset_options(offset, from_beginning=from_beginning)
    ranges = offsets or (["start"] if tail is not None else [])  # --tail looks back from the log end
    specs = parse_offset_specs(() if group is not None else ranges, env.clock.wall_ms())
    wanted = choose_topics(reading, topic or (), partition or ())
    raw_options = (format, key_delimiter, null, None if delimiter == "\\n" else delimiter)
    is_raw = any(option is not None for option in raw_options)  # which takes precedence over KCLI_OUTPUT
    output = common.output_option if is_raw else common.output
    if common.output_option is None and columns is not None:
        output = output if output in ("csv", "tsv") else "table"
    if common.output_option is None and select is not None:
        output = output if output in ("json", "jsonl") else None
    refuse_with_output(reading, output)
    decoding = None
    if serde or schema_file or message or columns is not None or where is not None or select is not None:
        from kcli.cli.consume.decoding import DecodeOptions, make_decoding

        decoding = make_decoding(
            DecodeOptions(serde or (), schema_file or (), message or (), where, select),
            lambda: common.registry(schema_registry),
            lambda sentence: env.report(f"kcli: {sentence}"),
            shows_errors=output is not None and select is None and columns is None,
        )
    filters = compile_filters(grep, key, header or (), invert=invert)
    highlights = filters.highlights if filters is not None and env.colour else {}
    rendering = RenderOptions(
        output,
        format,
        delimiter,
        key_delimiter,
        null,
        env.stdout_is_terminal,
        highlights,
        decoders=None if decoding is None else decoding.sides,
        selects=select is not None,
        columns=columns,
    )
    printing = PrintOptions(
        make_renderer(rendering),
        filters,
        Limits(max_messages, _idle_ms(idle_timeout)),
        stats,
        quiet,
        common.verbose,
        notes=[_EMPTY_READ] if exit_at_end and not ranges and group is None and checkpoint is None else [],
        decoding=decoding,
    )
    if share is not None:
        return _read_shared(env, common, check_topics(wanted, ()), share, printing, acknowledgement)
    if group is not None:
        named = check_topics(wanted, partition or ())
        config = _member_config(common, isolation_level, member, offsets)
        commits = not no_commit and common.properties.get("enable.auto.commit", "true").lower() != "false"
        return _read_as_member(env, common, named, topics, config, printing, exit_at_end=exit_at_end, commits=commits)
    config = _config(common, isolation_level)
    return _read_ranges(env, common, wanted, specs, config, reading, printing, exit_at_end=exit_at_end)


def _read_ranges(
    env: Environment,
    common: Common,
    wanted: Mapping[str, list[int] | None],
    specs: OffsetSpecs,
    config: ConsumerConfig,
    reading: SourceOptions,
    printing: PrintOptions,
    *,
    exit_at_end: bool,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.options import choose_ranges, followed_topics, follows_topics
    from kcli.cli.consume.range_session import print_ranges, reporter
    from kcli.cli.consume.range_source import find_topics, make_source, open_checkpoint, selection_of
    from kcli.cli.consume.read_loop import Sink, complete_document

    deadline_ms = common.deadline_ms()
    report = reporter(env, "kcli", quiet=printing.quiet)
    with open_checkpoint(env, reading, report) as checkpoint, closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            follows = follows_topics(specs, exit_at_end=exit_at_end)
            if reading.topics is not None:
                wanted = find_topics(client, reading.topics, config, deadline_ms, may_wait=follows)
            partitions = find_partitions(client, wanted, deadline_ms)
        named = [name for name, numbers in wanted.items() if numbers is not None]
        ranges = choose_ranges(partitions, specs, named, exit_at_end=exit_at_end)
        follow_new = followed_topics(wanted, specs, exit_at_end=exit_at_end)
        epochs = None
        if checkpoint is not None:
            printing = printing._replace(checkpoint=checkpoint)
            ranges = checkpoint.resume(client.metadata, selection_of(reading, wanted, specs, ranges), ranges)
            epochs = checkpoint.epochs
        source = make_source(
            client,
            ranges,
            config,
            reading,
            deadline_ms=deadline_ms,
            follows=follows,
            follow_new=follow_new,
            epochs=epochs,
        )
        if not ranges:
            printing = printing._replace(notes=[*printing.notes, f"no topic matches {reading.topics!r} yet; waiting"])
        return print_ranges(env, client, source, printing, deadline_ms)


def _read_as_member(
    env: Environment,
    common: Common,
    topics: list[str],
    pattern: str | None,
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
        timeout_ms, committed = common.timeout_ms, config.reads_committed
        plan = MemberPlan(config.group_id, topics, every_ms, timeout_ms, exit_at_end, committed, pattern)
        return print_as_member(env, client, Consumer.from_config(config, client), printing, plan)


def _read_shared(
    env: Environment,
    common: Common,
    topics: list[str],
    group: str,
    printing: PrintOptions,
    acknowledgement: AcknowledgeType,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.read_loop import Sink, complete_document
    from kcli.cli.consume.share_session import ShareOptions, print_shared
    from kcli.consumer.share.share_consumer import ShareConsumer

    config = _config(common, None)
    with closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            find_partitions(client, dict.fromkeys(topics), common.deadline_ms())
        consumer = ShareConsumer(client, config, group, topics)
        return print_shared(env, client, consumer, printing, ShareOptions(acknowledgement, common.timeout_ms))


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
