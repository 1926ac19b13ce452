"""Broker settings: Kafka's names, types, defaults and bounds, as attributes with underscores for dots.

Source: https://kafka.apache.org/documentation/#brokerconfigs for 4.3. Defaults that differ: listeners is loopback only,
node.id is 1, and internal topics have one replica, because there is one node.
"""

from __future__ import annotations

from typing import Any

from kcli.broker.config_defs import Option, Update, option
from kcli.broker.security.listeners import (
    DEFAULT_PROTOCOL_MAP,
    LISTENER_SETTINGS,
    Endpoint,
    ListenerSettings,
    is_listener_property,
    parse_endpoints,
    suggestion,
)
from kcli.errors import ConfigError
from kcli.settings import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Double,
    Int,
    List,
    Long,
    Password,
    Settings,
    Short,
    String,
    invalid_value,
)
from kcli.text import closest_name

_LIVE = Update.CLUSTER_WIDE
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class BrokerConfig(Settings):
    """All settings of a broker, read-only. Create one with `from_properties`."""

    # Identity and listeners.
    node_id: Int = option(1, at_least=0)
    broker_rack: String | None = option(None)
    listeners: List = option(("PLAINTEXT://127.0.0.1:9092",))
    advertised_listeners: List | None = option(None)
    listener_security_protocol_map: String = option(DEFAULT_PROTOCOL_MAP)
    controller_listener_names: List = option(("CONTROLLER",))
    log_dir: List | None = option(None)
    log_dirs: List | None = option(None)

    # Security; more properties are in ListenerSettings.
    allow_everyone_if_no_acl_found: Boolean = option(False, internal=True)
    authorizer_class_name: String = option("")
    connection_failed_authentication_delay_ms: Int = option(100, at_least=0)
    delegation_token_expiry_time_ms: Long = option(86_400_000, at_least=1)
    delegation_token_max_lifetime_ms: Long = option(604_800_000, at_least=1)
    delegation_token_secret_key: Password | None = option(None)
    super_users: String = option("", internal=True)

    # Connections and requests.
    connections_max_idle_ms: Long = option(600_000)
    max_connections: Int = option(INT_MAX, at_least=0)
    max_connections_per_ip: Int = option(INT_MAX, at_least=0)
    max_request_partition_size_limit: Int = option(2000, at_least=1)
    queued_max_request_bytes: Long = option(-1)
    socket_listen_backlog_size: Int = option(50, at_least=1)
    socket_receive_buffer_bytes: Int = option(102_400, at_least=-1, excluded=(0,))
    socket_request_max_bytes: Int = option(104_857_600, at_least=1)
    socket_send_buffer_bytes: Int = option(102_400, at_least=-1, excluded=(0,))
    fetch_max_bytes: Int = option(57_671_680, at_least=1024)
    max_incremental_fetch_session_cache_slots: Int = option(1000, at_least=0)

    # Topics.
    auto_create_topics_enable: Boolean = option(True)
    default_replication_factor: Int = option(1)
    delete_topic_enable: Boolean = option(True)
    num_partitions: Int = option(1, at_least=1)

    # Defaults of topic settings.
    compression_type: String = option("producer", choices=_CODECS, update=_LIVE)
    log_cleaner_delete_retention_ms: Long = option(86_400_000, at_least=0, update=_LIVE)
    log_cleaner_max_compaction_lag_ms: Long = option(LONG_MAX, at_least=1, update=_LIVE)
    log_cleaner_min_cleanable_ratio: Double = option(0.5, at_least=0, at_most=1, update=_LIVE)
    log_cleaner_min_compaction_lag_ms: Long = option(0, at_least=0, update=_LIVE)
    log_cleanup_policy: List = option(("delete",), choices=("compact", "delete"), update=_LIVE)
    log_flush_interval_messages: Long = option(LONG_MAX, at_least=1, update=_LIVE)
    log_flush_interval_ms: Long | None = option(None, update=_LIVE)
    log_flush_scheduler_interval_ms: Long = option(LONG_MAX)
    log_index_interval_bytes: Int = option(4096, at_least=0, update=_LIVE)
    log_index_size_max_bytes: Int = option(10_485_760, at_least=4, update=_LIVE)
    log_message_timestamp_after_max_ms: Long = option(3_600_000, at_least=0, update=_LIVE)
    log_message_timestamp_before_max_ms: Long = option(LONG_MAX, at_least=0, update=_LIVE)
    log_message_timestamp_type: String = option("CreateTime", choices=("CreateTime", "LogAppendTime"), update=_LIVE)
    log_retention_bytes: Long = option(-1, update=_LIVE)
    log_retention_hours: Int = option(168)
    log_retention_minutes: Int | None = option(None)
    log_retention_ms: Long | None = option(None, update=_LIVE)
    log_roll_hours: Int = option(168, at_least=1)
    log_roll_jitter_hours: Int = option(0, at_least=0)
    log_roll_jitter_ms: Long | None = option(None, update=_LIVE)
    log_roll_ms: Long | None = option(None, update=_LIVE)
    log_segment_bytes: Int = option(1_073_741_824, at_least=1_048_576, update=_LIVE)
    log_segment_delete_delay_ms: Long = option(60_000, at_least=0, update=_LIVE)
    message_max_bytes: Int = option(1_048_588, at_least=0, update=_LIVE)

    # Maintenance of the logs.
    log_cleaner_backoff_ms: Long = option(15_000, at_least=0)
    log_cleaner_enable: Boolean = option(True)
    log_cleaner_dedupe_buffer_size: Long = option(134_217_728)
    log_flush_offset_checkpoint_interval_ms: Int = option(60_000, at_least=0)
    log_flush_start_offset_checkpoint_interval_ms: Int = option(60_000, at_least=0)
    log_initial_task_delay_ms: Long = option(30_000, at_least=0, internal=True)
    log_retention_check_interval_ms: Long = option(300_000, at_least=1)
    replica_high_watermark_checkpoint_interval_ms: Long = option(5000)

    # Groups and their offsets.
    group_initial_rebalance_delay_ms: Int = option(3000)
    group_max_session_timeout_ms: Int = option(1_800_000)
    group_max_size: Int = option(INT_MAX, at_least=1)
    group_min_session_timeout_ms: Int = option(6000)
    offset_metadata_max_bytes: Int = option(4096)
    offsets_retention_check_interval_ms: Long = option(600_000, at_least=1)
    offsets_retention_minutes: Int = option(10_080, at_least=1)
    offsets_topic_compression_codec: Int = option(0, at_least=0, at_most=4)
    offsets_topic_num_partitions: Int = option(50, at_least=1)
    offsets_topic_replication_factor: Short = option(1, at_least=1)
    offsets_topic_segment_bytes: Int = option(104_857_600, at_least=1)
    share_coordinator_state_topic_num_partitions: Int = option(50, at_least=1)
    share_coordinator_state_topic_replication_factor: Short = option(1, at_least=1)
    transaction_state_log_num_partitions: Int = option(50, at_least=1)
    transaction_state_log_replication_factor: Short = option(1, at_least=1)

    # Idempotent producers.
    producer_id_expiration_check_interval_ms: Int = option(600_000, at_least=1, internal=True)
    producer_id_expiration_ms: Int = option(86_400_000, at_least=1)

    # Accepted because many server.properties files have them, and reported at the start: they have no effect in one
    # process with one loop, one replica of each partition, no transactions, and no purgatory that must be purged.
    background_threads: Int = option(10, at_least=1, ignored=True)
    broker_heartbeat_interval_ms: Int = option(2000, ignored=True)
    broker_session_timeout_ms: Int = option(9000, ignored=True)
    compression_gzip_level: Int = option(-1, at_least=-1, at_most=9, excluded=(0,), update=_LIVE, ignored=True)
    compression_lz4_level: Int = option(9, at_least=1, at_most=17, update=_LIVE, ignored=True)
    compression_zstd_level: Int = option(3, at_least=-131_072, at_most=22, update=_LIVE, ignored=True)
    controller_quorum_bootstrap_servers: List = option((), ignored=True)
    controller_quorum_voters: List = option((), ignored=True)
    delete_records_purgatory_purge_interval_requests: Int = option(1, ignored=True)
    delegation_token_expiry_check_interval_ms: Long = option(3_600_000, at_least=1, ignored=True)
    fetch_purgatory_purge_interval_requests: Int = option(1000, ignored=True)
    group_consumer_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_consumer_min_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_consumer_min_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    group_consumer_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    inter_broker_listener_name: String | None = option(None, ignored=True)
    log_cleaner_io_buffer_size: Int = option(524_288, at_least=0, ignored=True)
    log_cleaner_threads: Int = option(1, at_least=0, ignored=True)
    log_local_retention_bytes: Long = option(-2, at_least=-2, ignored=True)
    log_local_retention_ms: Long = option(-2, at_least=-2, ignored=True)
    log_preallocate: Boolean = option(False, update=_LIVE, ignored=True)
    min_insync_replicas: Int = option(1, at_least=1, update=_LIVE, ignored=True)
    num_io_threads: Int = option(8, at_least=1, ignored=True)
    num_network_threads: Int = option(3, at_least=1, ignored=True)
    num_recovery_threads_per_data_dir: Int = option(2, at_least=1, ignored=True)
    num_replica_fetchers: Int = option(1, at_least=1, ignored=True)
    offsets_commit_timeout_ms: Int = option(5000, at_least=1, ignored=True)
    offsets_load_buffer_size: Int = option(5_242_880, at_least=1, ignored=True)
    process_roles: List = option(("broker", "controller"), choices=("broker", "controller"), ignored=True)
    producer_purgatory_purge_interval_requests: Int = option(1000, ignored=True)
    queued_max_requests: Int = option(500, at_least=1, ignored=True)
    replica_fetch_max_bytes: Int = option(1_048_576, at_least=0, ignored=True)
    replica_lag_time_max_ms: Long = option(30_000, ignored=True)
    request_timeout_ms: Int = option(30_000, ignored=True)
    sasl_mechanism_inter_broker_protocol: String = option("GSSAPI", ignored=True)
    security_inter_broker_protocol: String = option("PLAINTEXT", ignored=True)
    share_coordinator_state_topic_min_isr: Short = option(1, at_least=1, ignored=True)
    transaction_max_timeout_ms: Int = option(900_000, at_least=1, ignored=True)
    transaction_state_log_min_isr: Int = option(1, at_least=1, ignored=True)
    transactional_id_expiration_ms: Int = option(604_800_000, at_least=1, ignored=True)
    unclean_leader_election_enable: Boolean = option(False, update=_LIVE, ignored=True)

    # The listeners; `host` and `port` are those of the first one. Port 0 means any free port.
    endpoints: tuple[Endpoint, ...]
    host: str
    port: int

    @classmethod
    def is_known(cls, name: str) -> bool:
        return is_listener_property(name)

    def adjusted(self) -> dict[str, Any]:
        if self.unknown:
            name = self.unknown[0]
            close = suggestion(name) or closest_name(name, BROKER_OPTIONS)
            raise ConfigError(f"{name} is not a broker setting" + (f"; did you mean {close}?" if close else ""))
        endpoints = parse_endpoints(
            self.listeners,
            self.advertised_listeners,
            self.listener_security_protocol_map,
            self.controller_listener_names,
        )
        return {"endpoints": endpoints, "host": endpoints[0].host, "port": endpoints[0].port}

    def listener_settings(self, name: str) -> ListenerSettings:
        """Return the security properties of the listener with this name. ConfigError if one is not valid."""
        return ListenerSettings.of_listener(name, self.given)

    @property
    def super_user_names(self) -> frozenset[str]:
        """The principals of super.users."""
        return frozenset(filter(None, (name.strip() for name in self.super_users.split(";"))))

    @property
    def data_dir(self) -> str | None:
        """The data directory: log.dirs, else log.dir; None if neither is given."""
        directories = self.log_dirs or self.log_dir
        return directories[0] if directories else None

    def check(self) -> None:
        for name, directories in (("log.dirs", self.log_dirs), ("log.dir", self.log_dir)):
            if directories is not None and len(directories) != 1:
                raise ConfigError(f"{name} must name exactly one directory; got {','.join(directories) or 'none'}")
        if self.authorizer_class_name not in ("", STANDARD_AUTHORIZER):
            raise invalid_value("authorizer.class.name", self.authorizer_class_name, f"{STANDARD_AUTHORIZER} or empty")
        for name in self.super_user_names:
            if ":" not in name:
                raise invalid_value("super.users", name, "TYPE:NAME, such as User:admin, separated by semicolons")
        for endpoint in self.endpoints:
            if endpoint.protocol != "PLAINTEXT":
                self.listener_settings(endpoint.name)
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms {self.group_min_session_timeout_ms} is greater than "
                f"group.max.session.timeout.ms {self.group_max_session_timeout_ms}"
            )


BrokerConfig.SETTINGS |= {name: Option.of(definition) for name, definition in LISTENER_SETTINGS.items()}
BROKER_OPTIONS: dict[str, Option] = BrokerConfig.SETTINGS
