"""The broker's settings: Kafka's names, types, defaults and bounds, as attributes with underscores for dots.

Source: https://kafka.apache.org/documentation/#brokerconfigs for 4.3. Defaults that differ: listeners is loopback only,
node.id is 1, and the internal topics have one replica, because there is one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.broker.config_defs import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Double,
    Int,
    List,
    Long,
    Option,
    Short,
    String,
    Update,
    declared,
    nearest,
    option,
    show,
)
from kcli.errors import ConfigError

_LIVE = Update.CLUSTER_WIDE
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class BrokerConfig:
    """All settings of a broker, read-only. Made by `from_properties`."""

    # Who the broker is, and where it listens.
    node_id: Int = option(1, least=0)
    broker_rack: String | None = option(None)
    listeners: List = option(("PLAINTEXT://127.0.0.1:9092",))
    advertised_listeners: List | None = option(None)
    log_dir: List | None = option(None)
    log_dirs: List | None = option(None)

    # Connections and requests.
    connections_max_idle_ms: Long = option(600_000)
    max_connections: Int = option(INT_MAX, least=0)
    max_connections_per_ip: Int = option(INT_MAX, least=0)
    max_request_partition_size_limit: Int = option(2000, least=1)
    queued_max_request_bytes: Long = option(-1)
    socket_listen_backlog_size: Int = option(50, least=1)
    socket_receive_buffer_bytes: Int = option(102_400)
    socket_request_max_bytes: Int = option(104_857_600, least=1)
    socket_send_buffer_bytes: Int = option(102_400)
    fetch_max_bytes: Int = option(57_671_680, least=1024)
    max_incremental_fetch_session_cache_slots: Int = option(1000, least=0)
    delete_records_purgatory_purge_interval_requests: Int = option(1)
    fetch_purgatory_purge_interval_requests: Int = option(1000)
    producer_purgatory_purge_interval_requests: Int = option(1000)

    # Topics.
    auto_create_topics_enable: Boolean = option(True)
    default_replication_factor: Int = option(1)
    delete_topic_enable: Boolean = option(True)
    num_partitions: Int = option(1, least=1)

    # What a topic's settings are when it does not say.
    compression_gzip_level: Int = option(-1, least=-1, most=9, but_not=(0,), update=_LIVE)
    compression_lz4_level: Int = option(9, least=1, most=17, update=_LIVE)
    compression_type: String = option("producer", one_of=_CODECS, update=_LIVE)
    compression_zstd_level: Int = option(3, least=-131_072, most=22, update=_LIVE)
    log_cleaner_delete_retention_ms: Long = option(86_400_000, least=0, update=_LIVE)
    log_cleaner_max_compaction_lag_ms: Long = option(LONG_MAX, least=1, update=_LIVE)
    log_cleaner_min_cleanable_ratio: Double = option(0.5, least=0, most=1, update=_LIVE)
    log_cleaner_min_compaction_lag_ms: Long = option(0, least=0, update=_LIVE)
    log_cleanup_policy: List = option(("delete",), one_of=("compact", "delete"), update=_LIVE)
    log_flush_interval_messages: Long = option(LONG_MAX, least=1, update=_LIVE)
    log_flush_interval_ms: Long | None = option(None, update=_LIVE)
    log_flush_scheduler_interval_ms: Long = option(LONG_MAX)
    log_index_interval_bytes: Int = option(4096, least=0, update=_LIVE)
    log_index_size_max_bytes: Int = option(10_485_760, least=4, update=_LIVE)
    log_local_retention_bytes: Long = option(-2, least=-2, heeded=False)
    log_local_retention_ms: Long = option(-2, least=-2, heeded=False)
    log_message_timestamp_after_max_ms: Long = option(3_600_000, least=0, update=_LIVE)
    log_message_timestamp_before_max_ms: Long = option(LONG_MAX, least=0, update=_LIVE)
    log_message_timestamp_type: String = option("CreateTime", one_of=("CreateTime", "LogAppendTime"), update=_LIVE)
    log_preallocate: Boolean = option(False, update=_LIVE)
    log_retention_bytes: Long = option(-1, update=_LIVE)
    log_retention_hours: Int = option(168)
    log_retention_minutes: Int | None = option(None)
    log_retention_ms: Long | None = option(None, update=_LIVE)
    log_roll_hours: Int = option(168, least=1)
    log_roll_jitter_hours: Int = option(0, least=0)
    log_roll_jitter_ms: Long | None = option(None, update=_LIVE)
    log_roll_ms: Long | None = option(None, update=_LIVE)
    log_segment_bytes: Int = option(1_073_741_824, least=1_048_576, update=_LIVE)
    log_segment_delete_delay_ms: Long = option(60_000, least=0, update=_LIVE)
    message_max_bytes: Int = option(1_048_588, least=0, update=_LIVE)
    min_insync_replicas: Int = option(1, least=1, update=_LIVE)
    unclean_leader_election_enable: Boolean = option(False, update=_LIVE)

    # The work on the logs.
    log_cleaner_backoff_ms: Long = option(15_000, least=0)
    log_cleaner_enable: Boolean = option(True)
    log_cleaner_io_buffer_size: Int = option(524_288, least=0)
    log_cleaner_dedupe_buffer_size: Long = option(134_217_728)
    log_flush_offset_checkpoint_interval_ms: Int = option(60_000, least=0)
    log_flush_start_offset_checkpoint_interval_ms: Int = option(60_000, least=0)
    log_initial_task_delay_ms: Long = option(30_000, least=0, internal=True)
    log_retention_check_interval_ms: Long = option(300_000, least=1)
    replica_high_watermark_checkpoint_interval_ms: Long = option(5000)

    # Groups and their offsets.
    group_initial_rebalance_delay_ms: Int = option(3000)
    group_max_session_timeout_ms: Int = option(1_800_000)
    group_max_size: Int = option(INT_MAX, least=1)
    group_min_session_timeout_ms: Int = option(6000)
    offset_metadata_max_bytes: Int = option(4096)
    offsets_commit_timeout_ms: Int = option(5000, least=1)
    offsets_retention_check_interval_ms: Long = option(600_000, least=1)
    offsets_retention_minutes: Int = option(10_080, least=1)
    offsets_topic_compression_codec: Int = option(0, least=0, most=4)
    offsets_topic_num_partitions: Int = option(50, least=1)
    offsets_topic_replication_factor: Short = option(1, least=1)
    offsets_topic_segment_bytes: Int = option(104_857_600, least=1)

    # Producers with an id.
    producer_id_expiration_check_interval_ms: Int = option(600_000, least=1, internal=True)
    producer_id_expiration_ms: Int = option(86_400_000, least=1)
    transaction_max_timeout_ms: Int = option(900_000, least=1)
    transactional_id_expiration_ms: Int = option(604_800_000, least=1)

    # Settings of many a server.properties that mean nothing to one process with one loop.
    background_threads: Int = option(10, least=1, heeded=False)
    broker_heartbeat_interval_ms: Int = option(2000, heeded=False)
    broker_session_timeout_ms: Int = option(9000, heeded=False)
    controller_listener_names: List = option(("CONTROLLER",), heeded=False)
    controller_quorum_bootstrap_servers: List = option((), heeded=False)
    controller_quorum_voters: List = option((), heeded=False)
    group_consumer_heartbeat_interval_ms: Int = option(5000, least=1, heeded=False)
    group_consumer_min_heartbeat_interval_ms: Int = option(5000, least=1, heeded=False)
    group_consumer_min_session_timeout_ms: Int = option(45_000, least=1, heeded=False)
    group_consumer_session_timeout_ms: Int = option(45_000, least=1, heeded=False)
    inter_broker_listener_name: String | None = option(None, heeded=False)
    listener_security_protocol_map: String = option("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", heeded=False)
    log_cleaner_threads: Int = option(1, least=0, heeded=False)
    num_io_threads: Int = option(8, least=1, heeded=False)
    num_network_threads: Int = option(3, least=1, heeded=False)
    num_recovery_threads_per_data_dir: Int = option(2, least=1, heeded=False)
    num_replica_fetchers: Int = option(1, least=1, heeded=False)
    offsets_load_buffer_size: Int = option(5_242_880, least=1, heeded=False)
    process_roles: List = option(("broker", "controller"), one_of=("broker", "controller"), heeded=False)
    queued_max_requests: Int = option(500, least=1, heeded=False)
    replica_fetch_max_bytes: Int = option(1_048_576, least=0, heeded=False)
    replica_lag_time_max_ms: Long = option(30_000, heeded=False)
    request_timeout_ms: Int = option(30_000, heeded=False)
    share_coordinator_state_topic_min_isr: Short = option(1, least=1, heeded=False)
    share_coordinator_state_topic_num_partitions: Int = option(50, least=1, heeded=False)
    share_coordinator_state_topic_replication_factor: Short = option(1, least=1, heeded=False)
    transaction_state_log_min_isr: Int = option(1, least=1, heeded=False)
    transaction_state_log_num_partitions: Int = option(50, least=1, heeded=False)
    transaction_state_log_replication_factor: Short = option(1, least=1, heeded=False)

    # Not settings: where clients find the broker, from the listeners; a port of 0 is any that is free.
    host: str
    port: int
    advertised_host: str | None
    advertised_port: int | None
    given: Mapping[str, str]

    def __init__(self, values: Mapping[str, Any], given: Mapping[str, str]) -> None:
        """Use `from_properties`. `given` are the properties as they were written; all else is default."""
        set_attribute = super().__setattr__
        for name, value in values.items():
            set_attribute(name.replace(".", "_"), value)
        set_attribute("given", dict(given))
        self._check_related()
        host, port = _endpoint("listeners", self.listeners)
        set_attribute("host", host)
        set_attribute("port", port)
        advertised = _endpoint("advertised.listeners", self.advertised_listeners) if self.advertised_listeners else None
        set_attribute("advertised_host", advertised and advertised[0])
        set_attribute("advertised_port", advertised and advertised[1])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a BrokerConfig does not change; {name} was to be set")

    def __repr__(self) -> str:
        return f"<BrokerConfig {' '.join(f'{name}={value}' for name, value in self.given.items())}>"

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> BrokerConfig:
        """The settings with these values, by Kafka's names, all else as by default.

        Values are texts as in a properties file, or plain Python values. ConfigError, one sentence, for a name that
        is unknown (the nearest is told), and for a value that is malformed, out of bounds or contradicts another.
        """
        texts = {name: _text(value) for name, value in properties.items()}
        values = {name: known.default for name, known in BROKER_OPTIONS.items()}
        for name, text in texts.items():
            known = BROKER_OPTIONS.get(name)
            if known is None:
                raise ConfigError(f"the broker has no setting {name}{nearest(name, BROKER_OPTIONS)}")
            values[name] = known.parse(text)
        return cls(values, texts)

    def with_properties(self, properties: Mapping[str, Any]) -> BrokerConfig:
        """A copy with some more properties given."""
        return self.from_properties({**self.given, **properties})

    def value(self, name: str) -> Any:
        """The value of a setting by Kafka's name. KeyError for an unknown one."""
        if name not in BROKER_OPTIONS:
            raise KeyError(name)
        return getattr(self, name.replace(".", "_"))

    @property
    def ignored(self) -> tuple[str, ...]:
        """What was given but changes nothing, for a warning."""
        return tuple(name for name in self.given if not BROKER_OPTIONS[name].heeded)

    @property
    def data_dir(self) -> str | None:
        """The one directory for everything on disk: log.dirs, else log.dir; None if neither is given."""
        directories = self.log_dirs or self.log_dir
        return directories[0] if directories else None

    def _check_related(self) -> None:
        for name, directories in (("log.dirs", self.log_dirs), ("log.dir", self.log_dir)):
            if directories is not None and len(directories) != 1:
                raise ConfigError(f"{name} must name one directory: this broker keeps everything in one")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms {self.group_min_session_timeout_ms} is above "
                f"group.max.session.timeout.ms {self.group_max_session_timeout_ms}"
            )


BROKER_OPTIONS: dict[str, Option] = declared(BrokerConfig)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else show(value)


def _endpoint(setting: str, listeners: List) -> tuple[str, int]:
    """Host and port of the one listener. ConfigError for anything else than PLAINTEXT://host:port."""
    served = [one for one in listeners if not one.upper().startswith("CONTROLLER://")]
    if len(served) != 1:
        raise ConfigError(f"{setting} must name one listener, such as PLAINTEXT://127.0.0.1:9092")
    scheme, _, address = served[0].partition("://")
    host, colon, port = address.rpartition(":")
    if scheme.upper() != "PLAINTEXT" or not colon or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{setting} must be like PLAINTEXT://127.0.0.1:9092, not {served[0]!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
