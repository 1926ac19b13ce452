"""Every option of the source: those of spark-sql-kafka-0-10 under their own names and rules, and ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.selection import Assign, Pattern, Selection, Subscribe
from kcli.spark.start_end import EARLIEST, LATEST, End, Start

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig

__all__ = [
    "VIEW_NAMES",
    "Assign",
    "Pattern",
    "Selection",
    "SourceOptions",
    "Subscribe",
    "client_config",
    "parse_options",
]

VIEW_NAMES = ("records", "batches", "offsets", "groups", "members", "lag", "commits")


class SourceOptions(NamedTuple):
    """What one `load()` asks for. Plain data that pickles; `kafka` holds client properties without `kafka.`, as given:
    `client_config` resolves what they refer to, where it is called."""

    kafka: Mapping[str, str]
    selection: Selection | None = None  # None only for views that need no topics
    view: str = "records"
    columns: tuple[str, ...] | None = None
    starting: Start = Start(EARLIEST)
    ending: End = End(LATEST)
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    poll_timeout_ms: int = 120_000
    fetch_offset_attempts: int = 3
    fetch_offset_retry_interval_ms: int = 1_000
    include_headers: bool = False
    group_id_prefix: str = "spark-kafka-source"
    groups: tuple[str, ...] | None = None  # None: all groups
    starting_group_strategy: str = "error"
    commit_group: str | None = None
    commit_on_idle_s: int = 3_600
    batch_rows: int = 10_000
    batch_bytes: int = 8 << 20
    offset_poll_interval_ms: int = 500
    pushdown: bool = False
    row_limit_per_partition: int | None = None
    stream: bool = False


def parse_options(options: Mapping[str, str], *, stream: bool = False) -> SourceOptions:
    """The options of one `load()`, whatever the case of their names. ConfigError: one sentence, with the nearest name
    for one that nobody knows."""
    low = {key.lower(): value for key, value in options.items()}
    kafka = {key[6:]: value for key, value in low.items() if key.startswith("kafka.")}
    if "subscribe" not in low:
        raise ConfigError("name the topics to read: subscribe, subscribePattern or assign")
    topics = tuple(topic.strip() for topic in low["subscribe"].split(",") if topic.strip())
    return SourceOptions(kafka, Subscribe(topics), stream=stream)


def client_config(options: SourceOptions) -> ConsumerConfig:
    """The client's configuration, made where it is needed: files and environment variables are read here."""
    from kcli.client.config import ConsumerConfig

    return ConsumerConfig.from_properties({**options.kafka})
