"""`kcli consume topic`: read a range of a topic, follow it, or read as a member of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from kcli.cli.consume.options import (
    DecodeOptions,
    FilterOptions,
    MemberOptions,
    RawOptions,
    ReportOptions,
    ShareOptions,
    SourceOptions,
    TopicOptions,
    choose_ranges,
    followed_topics,
    follows_topics,
    parse_offset_specs,
)
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import given_options
from kcli.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.decoding import Decoding
    from kcli.cli.consume.options import OffsetSpecs
    from kcli.cli.consume.printing import PrintOptions
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
    topics: TopicOptions,
    raw: RawOptions,
    filtering: FilterOptions,
    decode: DecodeOptions,
    source: SourceOptions,
    member: MemberOptions,
    share: ShareOptions,
    reports: ReportOptions,
) -> int:
    r"""Read a range of a topic, or follow it. Without --group nothing is committed; no topic is created.

    RANGE is START, START:END or :END; the default is "end": new records only. END is exclusive. START and END are
    places, as in all commands: start (or beginning, earliest, oldest), end (or latest, newest), 100 (an offset), +100
    (after the log start), -100 (before the log end), @TIME (the first record at or after it). TIME is seconds (9 or 10
    digits) or milliseconds (12 or 13 digits) since 1970, 2024-01-31, 2024-01-31T10:00:00Z (without a zone: UTC),
    -1h30m, or now; only a number needs the @. For example -o @-2h:-1h. P=RANGE is for partition P; with only such
    ranges, only those partitions are read. Partitions that are added to a followed topic are read from their start.
    When the end of the log is reached, one line on stderr says so; with -v, one more every 10 seconds.

    FORMAT has kcat's verbs: %s value, %k key, %t topic, %p partition, %o offset, %T timestamp, %h headers, %S and %K
    length of value and key, %R value length as 4 bytes, %% a percent sign; and %{time}, %{value:hex}, %{value:base64},
    %{key:hex}, %{key:base64}, %{headers.NAME}. Escapes, also in -D and -K: \n \r \t \0 \xNN \\. No newline is added.

    --output prints records as jsonl, json (one document), csv, tsv or a table. A null is nothing in raw output, NULL in
    %h as in kcat, null in JSON, and "-" in tables; csv and tsv have columns that tell it from "". Control characters
    are escaped on a terminal, and matches of --grep and --key are red there; other output has the exact bytes.
    --timeout limits the start, the time that a bounded read waits for a record, and the time that --where or --select
    takes for one. REGEX is a Python expression over bytes. Exit status 5: a range was not read completely.

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
    from kcli.cli.consume.printed_records import Limits
    from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer

    if member.group is None:
        _refuse_properties_of_members(common.on_purpose)
    else:
        source.refuse_with_group()
    if share.share is not None:
        from kcli.cli.consume.share_session import acknowledge_type, refuse_with_share

        refuse_with_share(topics, filtering, decode, source, member)
        acknowledgement = acknowledge_type(share.ack, max_records=topics.max_messages)
    offsets = topics.offsets
    ranges = offsets or (["start"] if source.tail is not None else [])  # --tail looks back from the log end
    specs = parse_offset_specs(() if member.group is not None else ranges, env.clock.wall_ms())
    wanted = topics.wanted()
    output = _output(common, raw, decode)
    if source.checkpoint is not None and output == "json":
        raise ConfigError(
            "--checkpoint cannot be combined with --output json: its document ends with the read; use --output jsonl"
        )
    decoding = _decoding(env, common, decode, output)
    filters = compile_filters(filtering)
    rendering = RenderOptions(
        output,
        raw,
        env.stdout_is_terminal,
        filters.highlights if filters is not None and env.colour else {},
        decoders=None if decoding is None else decoding.sides,
        selects=decode.select is not None,
        columns=decode.columns,
    )
    reads_nothing = topics.exit_at_end and not ranges and member.group is None and source.checkpoint is None
    printing = PrintOptions(
        make_renderer(rendering),
        filters,
        Limits(topics.max_messages, topics.idle_ms),
        reports.stats,
        reports.quiet,
        common.verbose,
        notes=[_EMPTY_READ] if reads_nothing else [],
        decoding=decoding,
    )
    if share.share is not None:
        return _read_shared(env, common, topics.subscribed(wanted), share.share, printing, acknowledgement)
    if member.group is not None:
        return _read_as_member(env, common, topics, topics.subscribed(wanted), source, member, printing)
    return _read_ranges(env, common, topics, wanted, specs, source, printing)


_OF_MEMBERS = {
    "auto.offset.reset": "use -o start or -o end",
    "enable.auto.commit": "remove it",
    "group.id": "use --group",
}


def _refuse_properties_of_members(properties: Collection[str]) -> None:
    """Raise ConfigError for `properties` of the command line that require --group."""
    for name in sorted(_OF_MEMBERS.keys() & set(properties)):
        raise ConfigError(f"-X {name} has no effect without --group; {_OF_MEMBERS[name]}")


def _output(common: Common, raw: RawOptions, decode: DecodeOptions) -> str | None:
    """Return the output format, None for raw output: the options for it take precedence over KCLI_OUTPUT."""
    if common.output_option is not None:
        return common.output_option
    output = None if given_options(raw) else common.output
    if decode.columns is not None:
        output = output if output in ("csv", "tsv") else "table"
    if decode.select is not None:
        output = output if output in ("json", "jsonl") else None
    return output


def _decoding(env: Environment, common: Common, decode: DecodeOptions, output: str | None) -> Decoding | None:
    """Return the decoding of records; None without an option that needs it."""
    if not given_options(decode).keys() - {"--schema-registry"}:
        return None
    from kcli.cli.consume.decoding import make_decoding

    return make_decoding(
        decode,
        lambda: common.registry(decode.schema_registry),
        lambda sentence: env.report(f"kcli: {sentence}"),
        shows_errors=output is not None and decode.select is None and decode.columns is None,
        limit_s=common.timeout_ms / 1000,
    )


def _read_ranges(
    env: Environment,
    common: Common,
    topics: TopicOptions,
    wanted: Mapping[str, list[int] | None],
    specs: OffsetSpecs,
    options: SourceOptions,
    printing: PrintOptions,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.range_session import find_topics, make_source, open_checkpoint, print_ranges, selection_of
    from kcli.cli.consume.read_loop import complete_document
    from kcli.cli.consume.reports import reporter
    from kcli.cli.consume.sink import Sink

    config, deadline_ms = _config(common, options.isolation_level), common.deadline_ms()
    report = reporter(env, "kcli", quiet=printing.quiet)
    with open_checkpoint(env, options.checkpoint, report) as checkpoint, closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            follows = follows_topics(specs, exit_at_end=topics.exit_at_end)
            if topics.topics is not None:
                wanted = find_topics(client, topics.topics, config, deadline_ms, may_wait=follows)
            partitions = find_partitions(client, wanted, deadline_ms)
        named = [name for name, numbers in wanted.items() if numbers is not None]
        ranges = choose_ranges(partitions, specs, named, exit_at_end=topics.exit_at_end)
        epochs = None
        if checkpoint is not None:
            printing = printing._replace(checkpoint=checkpoint)
            selection = selection_of(topics.topics, wanted, specs, ranges, control=options.control)
            ranges = checkpoint.resume(client.metadata, selection, ranges)
            epochs = checkpoint.epochs
        source = make_source(
            client,
            ranges,
            config,
            options,
            deadline_ms=deadline_ms,
            follow_new=followed_topics(wanted, specs, exit_at_end=topics.exit_at_end),
            follow_pattern=topics.topics if follows else None,
            epochs=epochs,
        )
        if not ranges:
            printing = printing._replace(notes=[*printing.notes, f"no topic matches {topics.topics!r} yet; waiting"])
        return print_ranges(env, client, source, printing, deadline_ms)


def _read_as_member(
    env: Environment,
    common: Common,
    topics: TopicOptions,
    subscribed: list[str],
    source: SourceOptions,
    member: MemberOptions,
    printing: PrintOptions,
) -> int:
    from kcli.admin.topics import find_partitions
    from kcli.cli.consume.member_session import MemberPlan, print_as_member
    from kcli.cli.consume.read_loop import complete_document
    from kcli.cli.consume.sink import Sink
    from kcli.client.routing import GROUP, find_coordinators
    from kcli.consumer.consumer import Consumer

    config = _member_config(common, source.isolation_level, member, topics.offsets)
    commits = not member.no_commit and common.properties.get("enable.auto.commit", "true").lower() != "false"
    assert config.group_id is not None
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            find_partitions(client, dict.fromkeys(subscribed), deadline_ms)
            for error in find_coordinators(client, [config.group_id], GROUP, deadline_ms).errors.values():
                if isinstance(error, BrokerError):  # the operation that a member needs, which implies DESCRIBE
                    raise BrokerError(error.code, request="JoinGroup", principal=client.principal, **error.evidence)
                raise error
        plan = MemberPlan(
            config.group_id,
            subscribed,
            config.auto_commit_interval_ms if commits else None,
            common.timeout_ms,
            topics.exit_at_end,
            config.reads_committed,
            topics.topics,
        )
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
    from kcli.cli.consume.read_loop import complete_document
    from kcli.cli.consume.share_session import print_shared
    from kcli.cli.consume.sink import Sink
    from kcli.consumer.share.share_consumer import ShareConsumer

    config = _config(common, None)
    with closing(common.connect(config)) as client:
        with complete_document(printing.renderer, Sink(env.stdout_bytes)):
            find_partitions(client, dict.fromkeys(topics), common.deadline_ms())
        consumer = ShareConsumer(client, config, group, topics)
        return print_shared(env, client, consumer, printing, acknowledgement, common.timeout_ms)


def _member_config(
    common: Common, isolation_level: str | None, member: MemberOptions, offsets: list[str]
) -> ConsumerConfig:
    own = member.properties(offsets)
    config = _config(common, isolation_level, own)
    if member.assignor is None:
        return config
    return _config(common, isolation_level, {**own, **assignor_property(member.assignor, config.group_protocol)})


def assignor_property(assignor: str, protocol: str) -> dict[str, str]:
    """Return the property of `--assignor` under a group protocol. Raise ConfigError for an unknown classic assignor."""
    if protocol == "consumer":
        return {"group.remote.assignor": assignor}
    from kcli.assignors.lookup import find_strategy

    return {"partition.assignment.strategy": find_strategy(assignor, option="--assignor").name}


def _config(common: Common, isolation_level: str | None, group: Mapping[str, str] = NO_GROUP) -> ConsumerConfig:
    from kcli.client.config import ConsumerConfig

    own = {name: value for name, value in DEFAULTS.items() if name not in common.properties}
    own.update(group)
    own["default.api.timeout.ms"] = str(round(common.timeout_ms))
    if isolation_level is not None:
        own["isolation.level"] = isolation_level
    return common.config(ConsumerConfig, **own)
