"""The options that all `kcli spark` commands have, and what they come to together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.options import OUTPUTS, Common, key_values
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.files import check_file
from kcli.errors import ConfigError
from kcli.text import TIME, is_topic_name, parse_time, parse_topics

if TYPE_CHECKING:
    from kcli.spark.pipelines.source import KafkaSource

FILE_OUTPUTS = ("csv", "json", "jsonl", "parquet")

Topics = Annotated[list[str] | None, Argument(metavar="[TOPIC[:P,P..]...]", help="Topics, or some partitions of them.")]


class Cluster(NamedTuple):
    """Where Spark runs: see `kcli.spark.session.open_session`."""

    master: str
    remote: str | None
    conf: dict[str, str]
    ship: str


def cluster_options(
    env: Environment,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Where Spark runs: local[*], spark://..., yarn, k8s://...")
    ] = "local[*]",
    remote: Annotated[
        str | None, Option("--remote", metavar="URL", help="A Spark Connect server, sc://HOST:PORT.")
    ] = None,
    conf: Annotated[
        list[str] | None, Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
    ] = None,
    ship: Annotated[
        str,
        Option("--ship", metavar="auto|installed|zip|inline", help="How Spark's machines get kcli. [by master]"),
    ] = "auto",
) -> Cluster:
    """Where Spark runs. `ConfigError` for anything malformed."""
    from kcli.spark.ship import resolve_ship

    resolve_ship(master, remote, ship)
    return Cluster(master, remote, key_values("--conf", conf or ()), ship)


class Job:
    """What the common options say. `output` is one of `OUTPUTS` or None, `output_file` a format and a path or None."""

    def __init__(
        self,
        common: Common,
        cluster: Cluster,
        *,
        span: tuple[str | None, str | None],
        partitions: Sequence[str],
        where: str | None,
        max_offsets_per_trigger: int | None,
        more: dict[str, str],
        dry_run: bool,
        output: str | None,
    ) -> None:
        self.common = common
        self.env = common.env
        self.cluster = cluster
        self.dry_run = dry_run
        self.output, self.output_file = _output(output, common.output)
        if dry_run and self.output_file is not None:
            raise ConfigError(f"a --dry-run has no result for a file: say -o {self.output_file[0]}, or none")
        self._span = span
        self._partitions = partitions
        self._where = where
        self._max_offsets_per_trigger = max_offsets_per_trigger
        self._more = more

    def refuse(self, why: str, *options: str) -> None:
        """ConfigError for the first of these options that was given, which has no meaning for this command."""
        given = {
            "--from": self._span[0],
            "--until": self._span[1],
            "--topic-partition": self._partitions or None,
            "--max-offsets-per-trigger": self._max_offsets_per_trigger,
        }
        for option in options:
            if given[option] is not None:
                raise ConfigError(f"{option} {why}")

    def source(
        self, topics: Sequence[str] | None = None, *, needs_topics: bool = True, stream: bool = False
    ) -> KafkaSource:
        """Where the records come from: these topics (arguments like `TOPIC:P,P..`) and what the common options say.

        ConfigError for none where one is needed, for what is malformed, and for what is about a `stream` alone.
        """
        from kcli.spark.pipelines.source import KafkaSource

        if not stream:
            self.refuse("is for export --once and --follow, whose batches it limits", "--max-offsets-per-trigger")
        now_ms = self.env.clock.wall_ms()
        start, end = self._span
        wanted = read_topics([*(topics or ()), *self._partitions])
        if needs_topics and not wanted:
            raise ConfigError("say which topic to read")
        source = KafkaSource(
            kafka=self.common.properties,
            topics=wanted,
            start=start_options(start, now_ms),
            until=end_options(end, now_ms),
            where=self._where,
            max_offsets_per_trigger=self._max_offsets_per_trigger,
            more=self._more,
        )
        self.common.config()  # a warning for each property that nobody knows
        source.options()
        return source


def job_options(
    env: Environment,
    common: Common,
    cluster: Cluster,
    from_: Annotated[
        str | None,
        Option("--from", metavar="START", help="earliest, -1h, a time, group:GROUP, or offsets as JSON. [earliest]"),
    ] = None,
    until: Annotated[
        str | None, Option("--until", metavar="END", help="latest, -1h, a time, or offsets as JSON. [latest]")
    ] = None,
    topic_partition: Annotated[
        list[str] | None,
        Option("--topic-partition", metavar="TOPIC:P,P..", help="Some partitions of a topic; repeatable."),
    ] = None,
    where: Annotated[
        str | None, Option("--where", metavar="SQL", help="Only rows of which this expression is true.")
    ] = None,
    max_offsets_per_trigger: Annotated[
        int | None,
        Option("--max-offsets-per-trigger", metavar="N", min=1, help="Most offsets in a micro-batch."),
    ] = None,
    option: Annotated[
        list[str] | None,
        Option("--option", "-O", metavar="KEY=VALUE", help="An option of the source, as spark.read takes it."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show ranges, tasks and options; Spark is not started.")] = False,
    output: Annotated[
        str | None,
        Option(
            "--output",
            "-o",
            metavar="FORMAT[:FILE]",
            help=f"{', '.join(OUTPUTS)}; csv, json, jsonl and parquet also into a FILE. [KCLI_OUTPUT; table]",
        ),
    ] = None,
) -> Job:
    """Merge the options. `ConfigError` for anything malformed."""
    return Job(
        common,
        cluster,
        span=(from_, until),
        partitions=topic_partition or (),
        where=where,
        max_offsets_per_trigger=max_offsets_per_trigger,
        more=_by_their_names(key_values("--option", option or ())),
        dry_run=dry_run,
        output=output,
    )


def _by_their_names(options: dict[str, str]) -> dict[str, str]:
    """Spelt as kcli spells them: Spark does not keep the case of options, and of two spellings one would be lost."""
    from kcli.spark.option_table import CANONICAL, KAFKA

    found = {}
    for name, value in options.items():
        low = name.lower()
        found[low if low.startswith(KAFKA) else CANONICAL.get(low, name)] = value
    return found


def _output(text: str | None, default: str | None) -> tuple[str | None, tuple[str, str] | None]:
    if text is None:
        return default, None
    form, colon, path = text.partition(":")
    if not colon and form in OUTPUTS:
        return form, None
    if colon and path and form in FILE_OUTPUTS:
        check_file("--output", path)
        return None, (form, path)
    if form in FILE_OUTPUTS:
        raise ConfigError(f"--output {form} needs a file, as in {form}:result.{form}")
    raise ConfigError(
        f"--output: '{text}' is not valid; use {', '.join(OUTPUTS)}, or FORMAT:FILE such as parquet:result.parquet"
    )


def read_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """`TOPIC[:p,p..]` arguments. ConfigError for what no topic can be called: the source takes names between commas,
    so of `a,b` it would read two."""
    wanted = parse_topics(texts)
    for name in wanted:
        if not is_topic_name(name):
            hint = f": say {name.replace(',', ' ')}" if "," in name else ", only letters, digits, '.', '_' and '-'"
            raise ConfigError(f"no topic is called '{name}'{hint}")
    return wanted


_NAMED = {"earliest": "earliest", "start": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


def start_options(text: str | None, now_ms: int) -> dict[str, str]:
    """The source's options for a start; None is the earliest record. A time with no record behind it is the end."""
    text = "earliest" if text is None else text.strip()
    if text in _NAMED:
        return {"startingOffsets": _NAMED[text]}
    if text.startswith("group:") and text != "group:":
        return {"startingOffsets": text}
    if text.startswith("{"):
        return {"startingOffsets": text}
    ms = _time("--from", text, "earliest, latest, group:GROUP", now_ms)
    return {"startingTimestamp": str(ms), "startingOffsetsByTimestampStrategy": "latest"}


def end_options(text: str | None, now_ms: int) -> dict[str, str]:
    """The source's options for an end; None: none, a batch then ends at the latest record."""
    if text is None:
        return {}
    text = text.strip()
    if _NAMED.get(text) == "latest":
        return {"endingOffsets": "latest"}
    if text in _NAMED:
        raise ConfigError(f"--until {text} leaves nothing to read")
    if text.startswith("{"):
        return {"endingOffsets": text}
    return {"endingTimestamp": str(_time("--until", text, "latest", now_ms))}


def _time(option: str, text: str, others: str, now_ms: int) -> int:
    bare = text.removeprefix("@")
    if not re.fullmatch(TIME, bare):
        raise ConfigError(f"{option} is {others}, a time (2024-01-31T10:00:00Z, -1h30m) or JSON, not '{text[:100]}'")
    return parse_time(bare, now_ms)


def parse_groups(text: str | None) -> tuple[str, ...] | None:
    """The names, each once; None for all groups. ConfigError for no name at all, as an unset variable of a script."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("--groups names no group")
    return names
