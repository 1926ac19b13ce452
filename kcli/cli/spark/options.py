"""Options that all `kcli spark` commands share, and the value made of them.

Grammar of --from and --until, which become options of the data source:

    START = PLACE | "group:" GROUP | JSON
    END   = PLACE | JSON
    PLACE = see kcli.log_place; but a number of 8 digits or more, or with a fraction, is a time without "@", too
    JSON  = {"orders": {"0": 23, "1": -2}}, of all partitions: offsets, -2 earliest, -1 latest
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.options import OUTPUTS, Common
from kcli.cli.parser import Argument, Option
from kcli.cli.property_sources import key_values, warn_of_secrets
from kcli.cli.spark.files import check_file
from kcli.errors import ConfigError
from kcli.log_place import Place, parse_place_option
from kcli.text import format_time, is_topic_name, parse_topics

if TYPE_CHECKING:
    from kcli.spark.pipelines.source import KafkaSource

FILE_OUTPUTS = ("csv", "json", "jsonl", "parquet")

#: The most rows to show: Spark's limit is an Int of Java, and one row more is asked for.
MAX_ROWS = 2**31 - 2

Topics = Annotated[
    list[str] | None, Argument(metavar="[TOPIC[:P,P..]...]", help="Topics, or some of their partitions.")
]


class ClusterOptions(NamedTuple):
    """The options for the location of Spark, as given."""

    master: Annotated[
        str, Option("--master", metavar="URL", help="Run Spark on local[*], spark://..., yarn, k8s://...")
    ] = "local[*]"
    remote: Annotated[
        str | None, Option("--remote", metavar="URL", help="Use a Spark Connect server, sc://HOST:PORT.")
    ] = None
    conf: Annotated[
        list[str] | None, Option("--conf", metavar="KEY=VALUE", help="Set a Spark setting; repeatable.")
    ] = None
    ship: Annotated[
        str,
        Option("--ship", metavar="auto|installed|inline", help="Bring kcli to Spark's machines this way. [by master]"),
    ] = "auto"


class Cluster(NamedTuple):
    """Location of Spark: see `kcli.spark.deploy.session.open_session`."""

    master: str
    remote: str | None
    conf: dict[str, str]
    ship: str

    @classmethod
    def from_options(cls, env: Environment, given: ClusterOptions) -> Cluster:
        """Return where Spark runs. `ConfigError` for malformed options."""
        from kcli.spark.deploy.session import spark_addresses
        from kcli.spark.deploy.ship import resolve_ship

        resolve_ship(given.master, given.remote, given.ship)
        spark_addresses(given.master, given.remote)
        return cls(given.master, given.remote, key_values("--conf", given.conf or ()), given.ship)


class JobOptions(NamedTuple):
    """The options that the commands which read records have in common, as given."""

    from_: Annotated[
        str | None,
        Option(
            "--from",
            metavar="START",
            help="Start at earliest, 100, +100, -100, -1h, a time, group:GROUP, or offsets as JSON. [earliest]",
        ),
    ] = None
    until: Annotated[
        str | None,
        Option("--until", metavar="END", help="End at latest, 100, +100, -100, -1h, a time, or JSON. [latest]"),
    ] = None
    topic_partition: Annotated[
        list[str] | None,
        Option("--topic-partition", metavar="TOPIC:P,P..", help="Read these partitions of a topic; repeatable."),
    ] = None
    where: Annotated[
        str | None, Option("--where", metavar="SQL", help="Keep only rows for which this expression is true.")
    ] = None
    max_offsets_per_trigger: Annotated[
        int | None,
        Option("--max-offsets-per-trigger", metavar="N", min=1, help="Read at most N offsets per micro-batch."),
    ] = None
    option: Annotated[
        list[str] | None,
        Option("--option", metavar="KEY=VALUE", help="Set an option of the data source; repeatable."),
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Show ranges, tasks and options without starting Spark.")] = False
    output: Annotated[
        str | None,
        Option(
            "--output",
            "-O",
            metavar="FORMAT[:FILE]",
            help=f"Print {', '.join(OUTPUTS)}; or write csv, json, jsonl or parquet to a FILE. [KCLI_OUTPUT; table]",
        ),
    ] = None


class Job:
    """Values of the common options. `output` is one of `OUTPUTS` or None, `output_file` a format and a path or None."""

    def __init__(self, common: Common, cluster: Cluster, given: JobOptions) -> None:
        self.common = common
        self.env = common.env
        self.cluster = cluster
        self.dry_run = given.dry_run
        self._extra_options = _canonical_options(key_values("--option", given.option or ()))
        warn_of_secrets(self.env, self._extra_options, "--option", "kafka.")
        self.output, self.output_file = _output(given.output, common.output)
        if self.dry_run and self.output_file is not None:
            raise ConfigError(f"--dry-run has no result for a file; use -O {self.output_file[0]}")
        self._given = given

    @classmethod
    def from_options(cls, env: Environment, common: Common, cluster: Cluster, given: JobOptions) -> Job:
        """Merge the options. `ConfigError` for malformed ones."""
        return cls(common, cluster, given)

    def refuse(self, reason: str, *options: str) -> None:
        """Raise ConfigError for the first given option of these, which the command does not support."""
        named = {
            "--from": self._given.from_,
            "--until": self._given.until,
            "--topic-partition": self._given.topic_partition or None,
            "--max-offsets-per-trigger": self._given.max_offsets_per_trigger,
        }
        for option in options:
            if named[option] is not None:
                raise ConfigError(f"{option} {reason}")

    def source(
        self, topics: Sequence[str] | None = None, *, needs_topics: bool = True, stream: bool = False
    ) -> KafkaSource:
        """Return the source of records: these topics (arguments like `TOPIC:P,P..`) and the common options.

        ConfigError without a required topic, for malformed options, and for options that only a `stream` has.
        """
        from kcli.spark.options import parse_options
        from kcli.spark.pipelines.source import KafkaSource

        if "commitGroup" in self._extra_options and not self.dry_run:
            self.common.before_change("a query with commitGroup")
        if not stream:
            self.refuse("requires export --once or --follow", "--max-offsets-per-trigger")
        now_ms = self.env.clock.wall_ms()
        given = self._given
        requested = read_topics([*(topics or ()), *(given.topic_partition or ())])
        if needs_topics and not requested:
            raise ConfigError("no topic given; name at least one")
        source = KafkaSource(
            kafka={**self.common.properties, **self.common.time_limit},
            topics=requested,
            start=start_options(given.from_, now_ms),
            until=end_options(given.until, now_ms),
            where=given.where,
            max_offsets_per_trigger=given.max_offsets_per_trigger,
            more=self._extra_options,
        )
        self.common.config()  # prints a warning for each unknown property
        source_options = source.options(stream=stream)
        if requested:
            parse_options(source_options, stream=stream)
        return source


def _canonical_options(options: dict[str, str]) -> dict[str, str]:
    """Return the options in canonical spelling: Spark ignores case, and would drop one of two spellings."""
    from kcli.spark.option_table import CANONICAL, KAFKA

    canonical = {}
    for name, value in options.items():
        low = name.lower()
        canonical[low if low.startswith(KAFKA) else CANONICAL.get(low, name)] = value
    return canonical


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
        raise ConfigError(f"--output {form} requires a file; use {form}:result.{form}")
    allowed = f"{', '.join(OUTPUTS)}, or FORMAT:FILE such as parquet:result.parquet"
    hint = f"; to set an option of the data source, use --option {text}" if "=" in text else ""
    raise ConfigError(f"--output: '{text}' is not valid; use {allowed}{hint}")


def read_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse `TOPIC[:p,p..]` arguments. ConfigError for invalid topic names: the source splits names at commas."""
    requested = parse_topics(texts)
    for name in requested:
        if not is_topic_name(name):
            hint = (
                f"; separate topics by spaces: {name.replace(',', ' ')}"
                if "," in name
                else "; use letters, digits, '.', '_' and '-'"
            )
            raise ConfigError(f"topic '{name}' is not valid{hint}")
    return requested


def start_options(text: str | None, now_ms: int) -> dict[str, str]:
    """Return the source options for a start; None: earliest. A time without a later record means the log end."""
    text = "earliest" if text is None else text.strip()
    if text.startswith("{") or (text.startswith("group:") and text != "group:"):
        return {"startingOffsets": text}
    place = _place("--from", text, "earliest, latest, group:GROUP", now_ms)
    if place.kind == "time":
        return {"startingTimestamp": format_time(place.n), "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": _spelling(place)}


def end_options(text: str | None, now_ms: int) -> dict[str, str]:
    """Return the source options for an end; None: the log ends of now."""
    if text is None:
        return {}
    text = text.strip()
    if text.startswith("{"):
        return {"endingOffsets": text}
    place = _place("--until", text, "latest", now_ms)
    if place.kind == "start":
        raise ConfigError(f"--until: {text!r} is not valid; use latest, a time or JSON")
    if place.kind == "time":
        return {"endingTimestamp": format_time(place.n)}
    return {"endingOffsets": _spelling(place)}


def _place(option: str, text: str, others: str, now_ms: int) -> Place:
    """Return a place. A long number is a time: --from has taken seconds and milliseconds without "@" from the start."""
    if re.fullmatch(r"[0-9]{8,}|[0-9]+\.[0-9]+", text):
        text = f"@{text}"
    shapes = f"{others}, 100, +100, -100, a time (2024-01-31T10:00:00Z, -1h30m), JSON"
    return parse_place_option(option, text, now_ms, shapes=shapes)


def _spelling(place: Place) -> str:
    return {"start": "earliest", "end": "latest"}.get(place.kind, str(place))


def parse_groups(text: str | None) -> tuple[str, ...] | None:
    """Parse `--groups a,b`; None: all groups. ConfigError for no name, as from an unset variable of a script."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("--groups must not be empty")
    return names
