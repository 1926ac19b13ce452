"""Broker settings: Kafka's names, types, defaults and bounds, as attributes with underscores for dots.

Source: https://kafka.apache.org/documentation/#brokerconfigs for 4.3. Defaults that differ: listeners is loopback only,
node.id is 1, and internal topics have one replica, because there is one node. max.decompressed.batch.bytes is not
Kafka's: the largest decompressed size of a batch that is produced (a record of which counts for 64 bytes at least),
compacted, or searched by time.
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
    MAX_DECOMPRESSED_BYTES,
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
_PROTOCOLS = ("classic", "consumer", "share", "streams")
_MIGRATIONS = ("disabled", "upgrade", "downgrade", "bidirectional")
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
    max_decompressed_batch_bytes: Int = option(MAX_DECOMPRESSED_BYTES, at_least=1, internal=True)
    message_max_bytes: Int = option(1_048_588, at_least=0, update=_LIVE)
    min_insync_replicas: Int = option(1, at_least=1, update=_LIVE)

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
    group_consumer_assignment_interval_ms: Int = option(1000, at_least=0, update=_LIVE)
    group_consumer_assignors: List = option(("uniform", "range"), choices=("uniform", "range"))
    group_consumer_heartbeat_interval_ms: Int = option(5000, at_least=1)
    group_consumer_max_assignment_interval_ms: Int = option(15_000, at_least=0)
    group_consumer_max_heartbeat_interval_ms: Int = option(15_000, at_least=1)
    group_consumer_max_session_timeout_ms: Int = option(60_000, at_least=1)
    group_consumer_max_size: Int = option(INT_MAX, at_least=1)
    group_consumer_migration_policy: String = option("bidirectional", choices=_MIGRATIONS, ignore_case=True)
    group_consumer_min_assignment_interval_ms: Int = option(0, at_least=0)
    group_consumer_min_heartbeat_interval_ms: Int = option(5000, at_least=1)
    group_consumer_min_session_timeout_ms: Int = option(45_000, at_least=1)
    group_consumer_regex_refresh_interval_ms: Int = option(600_000, at_least=10_000, internal=True)
    group_consumer_session_timeout_ms: Int = option(45_000, at_least=1)
    group_coordinator_rebalance_protocols: List = option(("classic", "consumer", "streams"), choices=_PROTOCOLS)
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
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Int = option(10_000, at_least=1)
    transaction_max_timeout_ms: Int = option(900_000, at_least=1)
    transaction_remove_expired_transaction_cleanup_interval_ms: Int = option(3_600_000, at_least=1)
    transaction_state_log_min_isr: Int = option(1, at_least=1, of_nodes=True)
    transaction_state_log_num_partitions: Int = option(50, at_least=1)
    transaction_state_log_replication_factor: Short = option(1, at_least=1)
    transaction_state_log_segment_bytes: Int = option(104_857_600, at_least=1)
    transactional_id_expiration_ms: Int = option(604_800_000, at_least=1)

    # Producers and their transactions.
    add_partitions_to_txn_retry_backoff_max_ms: Int = option(100, at_least=0)
    add_partitions_to_txn_retry_backoff_ms: Int = option(20, at_least=1)
    producer_id_expiration_check_interval_ms: Int = option(600_000, at_least=1, internal=True)
    producer_id_expiration_ms: Int = option(86_400_000, at_least=1)
    transaction_partition_verification_enable: Boolean = option(True, update=_LIVE)

    # Quotas: the windows over which rates are measured.
    quota_window_num: Int = option(11, at_least=1)
    quota_window_size_seconds: Int = option(1, at_least=1)
    follower_replication_throttled_rate: Long = option(LONG_MAX, at_least=0, update=_LIVE, internal=True, of_nodes=True)
    leader_replication_throttled_rate: Long = option(LONG_MAX, at_least=0, update=_LIVE, internal=True, of_nodes=True)
    replication_quota_window_num: Int = option(11, at_least=1)
    replication_quota_window_size_seconds: Int = option(1, at_least=1)

    # Replication.
    replica_fetch_backoff_ms: Int = option(1000, at_least=0, of_nodes=True)
    replica_fetch_max_bytes: Int = option(1_048_576, at_least=0, of_nodes=True)
    replica_fetch_min_bytes: Int = option(1, of_nodes=True)
    replica_fetch_response_max_bytes: Int = option(10_485_760, at_least=0, of_nodes=True)
    replica_fetch_wait_max_ms: Int = option(500, of_nodes=True)
    replica_socket_timeout_ms: Int = option(30_000, of_nodes=True)
    replica_lag_time_max_ms: Long = option(30_000)
    replica_selector_class: String | None = option(None)

    # Decisions of a controller.
    auto_leader_rebalance_enable: Boolean = option(True, of_nodes=True)
    leader_imbalance_check_interval_seconds: Long = option(300, at_least=1, of_nodes=True)
    unclean_leader_election_interval_ms: Long = option(300_000, at_least=1, internal=True)

    # Membership in a cluster.
    broker_heartbeat_interval_ms: Int = option(2000, of_nodes=True)
    broker_session_timeout_ms: Int = option(9000, of_nodes=True)
    controlled_shutdown_enable: Boolean = option(True, of_nodes=True)
    controller_quorum_bootstrap_servers: List = option((), of_nodes=True)
    controller_quorum_voters: List = option((), of_nodes=True)
    initial_broker_registration_timeout_ms: Int = option(60_000, of_nodes=True)
    inter_broker_listener_name: String | None = option(None, of_nodes=True)
    process_roles: List = option(("broker", "controller"), choices=("broker", "controller"))
    request_timeout_ms: Int = option(30_000, at_least=0, of_nodes=True)
    security_inter_broker_protocol: String = option("PLAINTEXT", of_nodes=True)

    # The metadata log of a controller.
    metadata_log_max_record_bytes_between_snapshots: Long = option(20_971_520, at_least=1, of_nodes=True)
    metadata_log_max_snapshot_interval_ms: Long = option(3_600_000, at_least=0, of_nodes=True)

    # Accepted because many server.properties files have them, and reported at the start: they have no effect in one
    # process with one loop, one replica of each partition, and no purgatory that must be purged.
    background_threads: Int = option(10, at_least=1, ignored=True)
    compression_gzip_level: Int = option(-1, at_least=-1, at_most=9, excluded=(0,), update=_LIVE, ignored=True)
    compression_lz4_level: Int = option(9, at_least=1, at_most=17, update=_LIVE, ignored=True)
    compression_zstd_level: Int = option(3, at_least=-131_072, at_most=22, update=_LIVE, ignored=True)
    delete_records_purgatory_purge_interval_requests: Int = option(1, ignored=True)
    delegation_token_expiry_check_interval_ms: Long = option(3_600_000, at_least=1, ignored=True)
    fetch_purgatory_purge_interval_requests: Int = option(1000, ignored=True)
    group_coordinator_append_linger_ms: Int = option(-1, at_least=-1, ignored=True)
    group_coordinator_threads: Int = option(4, at_least=1, ignored=True)
    group_share_assignment_interval_ms: Int = option(1000, at_least=0, update=_LIVE, ignored=True)
    group_share_delivery_count_limit: Int = option(5, at_least=2, at_most=10, ignored=True)
    group_share_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_share_max_assignment_interval_ms: Int = option(15_000, at_least=0, ignored=True)
    group_share_max_delivery_count_limit: Int = option(10, at_least=5, at_most=25, ignored=True)
    group_share_max_heartbeat_interval_ms: Int = option(15_000, at_least=1, ignored=True)
    group_share_max_partition_max_record_locks: Int = option(4000, at_least=2000, at_most=10_000, ignored=True)
    group_share_max_record_lock_duration_ms: Int = option(60_000, at_least=30_000, at_most=3_600_000, ignored=True)
    group_share_max_session_timeout_ms: Int = option(60_000, at_least=1, ignored=True)
    group_share_min_assignment_interval_ms: Int = option(0, at_least=0, ignored=True)
    group_share_min_delivery_count_limit: Int = option(2, at_least=2, at_most=5, ignored=True)
    group_share_min_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_share_min_partition_max_record_locks: Int = option(100, at_least=100, at_most=2000, ignored=True)
    group_share_min_record_lock_duration_ms: Int = option(15_000, at_least=1000, at_most=30_000, ignored=True)
    group_share_min_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    group_share_partition_max_record_locks: Int = option(2000, at_least=100, at_most=10_000, ignored=True)
    group_share_record_lock_duration_ms: Int = option(30_000, at_least=1000, at_most=3_600_000, ignored=True)
    group_share_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    group_streams_assignment_interval_ms: Int = option(1000, at_least=0, update=_LIVE, ignored=True)
    group_streams_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_streams_initial_rebalance_delay_ms: Int = option(3000, at_least=0, ignored=True)
    group_streams_max_assignment_interval_ms: Int = option(15_000, at_least=0, ignored=True)
    group_streams_max_heartbeat_interval_ms: Int = option(15_000, at_least=1, ignored=True)
    group_streams_max_session_timeout_ms: Int = option(60_000, at_least=1, ignored=True)
    group_streams_max_standby_replicas: Int = option(2, at_least=0, ignored=True)
    group_streams_min_assignment_interval_ms: Int = option(0, at_least=0, ignored=True)
    group_streams_min_heartbeat_interval_ms: Int = option(5000, at_least=1, ignored=True)
    group_streams_min_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    group_streams_num_standby_replicas: Int = option(0, at_least=0, ignored=True)
    group_streams_session_timeout_ms: Int = option(45_000, at_least=1, ignored=True)
    log_cleaner_io_buffer_size: Int = option(524_288, at_least=0, ignored=True)
    log_cleaner_threads: Int = option(1, at_least=0, ignored=True)
    log_local_retention_bytes: Long = option(-2, at_least=-2, ignored=True)
    log_local_retention_ms: Long = option(-2, at_least=-2, ignored=True)
    log_preallocate: Boolean = option(False, update=_LIVE, ignored=True)
    num_io_threads: Int = option(8, at_least=1, ignored=True)
    num_network_threads: Int = option(3, at_least=1, ignored=True)
    num_recovery_threads_per_data_dir: Int = option(2, at_least=1, ignored=True)
    num_replica_fetchers: Int = option(1, at_least=1, ignored=True)
    offsets_commit_timeout_ms: Int = option(5000, at_least=1, of_nodes=True)
    offsets_load_buffer_size: Int = option(5_242_880, at_least=1, ignored=True)
    producer_purgatory_purge_interval_requests: Int = option(1000, ignored=True)
    queued_max_requests: Int = option(500, at_least=1, ignored=True)
    sasl_mechanism_inter_broker_protocol: String = option("GSSAPI", ignored=True)
    share_coordinator_state_topic_min_isr: Short = option(1, at_least=1, ignored=True)
    transaction_state_log_load_buffer_size: Int = option(5_242_880, at_least=1, ignored=True)
    transaction_two_phase_commit_enable: Boolean = option(False, ignored=True)
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
            of_controller=self.is_controller,
        )
        return {"endpoints": endpoints, "host": endpoints[0].host, "port": endpoints[0].port}

    def listener_settings(self, name: str) -> ListenerSettings:
        """Return the security properties of the listener with this name. ConfigError if one is not valid."""
        return ListenerSettings.of_listener(name, self.given)

    def protocol_of(self, listener: str) -> str:
        """Return the security protocol of a listener; PLAINTEXT for an unknown one."""
        return next((endpoint.protocol for endpoint in self.endpoints if endpoint.name == listener), "PLAINTEXT")

    @property
    def super_user_names(self) -> frozenset[str]:
        """The principals of super.users."""
        return frozenset(filter(None, (name.strip() for name in self.super_users.split(";"))))

    @property
    def data_dir(self) -> str | None:
        """The data directory: log.dirs, else log.dir; None if neither is given."""
        directories = self.log_dirs or self.log_dir
        return directories[0] if directories else None

    @property
    def is_node(self) -> bool:
        """True for a broker whose controller is another process; otherwise this process is a cluster of its own."""
        return self.process_roles == ("broker",)

    @property
    def wants_controller(self) -> bool:
        """True if both roles are given, with a controller that others can reach: its listener, and its address."""
        names = {name.upper() for name in self.controller_listener_names}
        return (
            "process.roles" in self.given
            and set(self.process_roles) == {"broker", "controller"}
            and bool(self.controller_quorum_bootstrap_servers or self.controller_quorum_voters)
            and any(listener.partition("://")[0].upper() in names for listener in self.listeners)
        )

    @property
    def is_controller(self) -> bool:
        """True for a controller whose brokers are other processes."""
        return tuple(self.process_roles) == ("controller",)

    @property
    def controllers(self) -> tuple[tuple[str, int], ...]:
        """The addresses of controller.quorum.bootstrap.servers, else of controller.quorum.voters (ID@HOST:PORT)."""
        if self.controller_quorum_bootstrap_servers:
            name, texts = "controller.quorum.bootstrap.servers", self.controller_quorum_bootstrap_servers
        else:
            name, texts = "controller.quorum.voters", self.controller_quorum_voters
            texts = tuple(text.partition("@")[2] for text in texts)
        return tuple(_host_and_port(name, text) for text in texts)

    @property
    def inter_broker_endpoint(self) -> Endpoint:
        """The listener that other brokers use. ConfigError if there is none."""
        if self.inter_broker_listener_name is not None:
            found = [endpoint for endpoint in self.endpoints if endpoint.name == self.inter_broker_listener_name]
            if not found:
                raise ConfigError(f"inter.broker.listener.name: listeners has no {self.inter_broker_listener_name}")
        else:
            found = [
                endpoint for endpoint in self.endpoints if endpoint.protocol == self.security_inter_broker_protocol
            ]
            if not found:
                protocol = self.security_inter_broker_protocol
                raise ConfigError(f"security.inter.broker.protocol {protocol}: no listener has this protocol")
        return found[0]

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
        if self.is_node:
            self._check_node()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms {self.group_min_session_timeout_ms} is greater than "
                f"group.max.session.timeout.ms {self.group_max_session_timeout_ms}"
            )
        self._check_consumer_groups()

    def _check_consumer_groups(self) -> None:
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("group.coordinator.rebalance.protocols must contain classic")
        for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            value = self.value(f"group.consumer.{name}")
            low, high = self.value(f"group.consumer.min.{name}"), self.value(f"group.consumer.max.{name}")
            if not low <= value <= high:
                raise ConfigError(
                    f"group.consumer.{name} {value} must be from group.consumer.min.{name} {low} to "
                    f"group.consumer.max.{name} {high}"
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms {self.group_consumer_heartbeat_interval_ms} must be less than "
                f"group.consumer.session.timeout.ms {self.group_consumer_session_timeout_ms}"
            )

    def _check_node(self) -> None:
        if not self.controllers:
            raise ConfigError(
                "process.roles=broker needs a controller; set controller.quorum.bootstrap.servers to its HOST:PORT"
            )
        endpoint = self.inter_broker_endpoint
        if endpoint.protocol != "PLAINTEXT":
            raise ConfigError(
                f"inter.broker.listener.name {endpoint.name} has protocol {endpoint.protocol}; "
                "nodes connect to each other and to the controller by PLAINTEXT only"
            )


def _host_and_port(name: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise invalid_value(name, text, "HOST:PORT" if name.endswith("servers") else "ID@HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


BrokerConfig.SETTINGS |= {name: Option.of(definition) for name, definition in LISTENER_SETTINGS.items()}
BROKER_OPTIONS: dict[str, Option] = BrokerConfig.SETTINGS
