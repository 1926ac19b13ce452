"""The client's configuration under Kafka's own property names, with Kafka 4.x's defaults and checks. Pure."""

from __future__ import annotations

from typing import Any

from kcli.client.properties_file import load_properties
from kcli.client.settings import LONG_MAX, Settings, Value, prop
from kcli.errors import ConfigError

__all__ = [
    "ClientConfig",
    "ConsumerConfig",
    "ProducerConfig",
    "Value",
    "load_properties",
    "nearest_name",
    "parse_bootstrap",
]


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`a:9092,[::1]:9093` as hosts and ports. A port is required, as in Kafka; IPv6 needs its brackets."""
    addresses = [_parse_address(item.strip()) for item in text.split(",") if item.strip()]
    if not addresses:
        raise ConfigError("bootstrap.servers is empty: name at least one broker as host:port")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    address = text.split("://", 1)[-1]  # a listener copied from server.properties, PLAINTEXT://host:port
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not host:
        raise ConfigError(f"bootstrap.servers: {text!r} is not host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"bootstrap.servers: the IPv6 address in {text!r} needs brackets, as in [::1]:9092")
    if len(port) > 5 or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers: the port in {text!r} is not between 1 and 65535")
    return host, int(port)


def _parse_security_protocol(name: str, text: str) -> str:
    if text.upper() == "PLAINTEXT":
        return "PLAINTEXT"
    if text.upper() in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ConfigError(f"{name}={text} is not supported yet, only PLAINTEXT is")
    raise ConfigError(f"{name}={text} is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")


def _parse_dns_lookup(name: str, text: str) -> str:
    if text == "use_all_dns_ips":
        return text
    raise ConfigError(f"{name}={text} is not supported, only use_all_dns_ips is")


def _parse_bootstrap_servers(name: str, text: str) -> str:
    parse_bootstrap(text)
    return text


class ClientConfig(Settings):
    """What every client needs: where to connect, and how patiently."""

    bootstrap_servers: str = prop(
        "localhost:9092", "Brokers to ask first, host:port, separated by commas.", parse=_parse_bootstrap_servers
    )
    client_id: str = prop("kcli", "The name that brokers show for us in logs, metrics and quotas.")
    client_rack: str = prop("", "Where we are; brokers then name a replica close by to fetch from (KIP-392).")
    client_dns_lookup: str = prop("use_all_dns_ips", "Try every address of a host name.", parse=_parse_dns_lookup)
    security_protocol: str = prop("PLAINTEXT", "How to talk to the brokers.", parse=_parse_security_protocol)
    request_timeout_ms: int = prop(30_000, "How long one request may stay unanswered.", at_least=0)
    default_api_timeout_ms: int = prop(60_000, "How long one operation may take, retries included.", at_least=0)
    retry_backoff_ms: int = prop(100, "Wait before the first retry.", at_least=0, at_most=LONG_MAX)
    retry_backoff_max_ms: int = prop(1_000, "Longest wait between retries.", at_least=0, at_most=LONG_MAX)
    reconnect_backoff_ms: int = prop(50, "Wait before connecting to a node anew.", at_least=0, at_most=LONG_MAX)
    reconnect_backoff_max_ms: int = prop(1_000, "Longest wait before reconnecting.", at_least=0, at_most=LONG_MAX)
    socket_connection_setup_timeout_ms: int = prop(
        10_000, "How long a connection may take to stand; doubles with each failure.", at_least=0, at_most=LONG_MAX
    )
    socket_connection_setup_timeout_max_ms: int = prop(
        30_000, "Longest time a connection may take to stand.", at_least=0, at_most=LONG_MAX
    )
    connections_max_idle_ms: int = prop(
        300_000, "Close connections unused for so long; negative: never.", at_most=LONG_MAX
    )
    metadata_max_age_ms: int = prop(300_000, "Learn leaders anew after so long.", at_least=0, at_most=LONG_MAX)
    metadata_recovery_strategy: str = prop(
        "rebootstrap",
        "When no known broker is available: ask the bootstrap servers again (KIP-899), or none.",
        choices=("rebootstrap", "none"),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = prop(
        300_000,
        "Go back to the bootstrap servers when metadata could not be had for so long.",
        at_least=0,
        at_most=LONG_MAX,
    )
    send_buffer_bytes: int = prop(131_072, "TCP send buffer; -1: the system's default.", at_least=-1)
    receive_buffer_bytes: int = prop(65_536, "TCP receive buffer; -1: the system's default.", at_least=-1)
    allow_auto_create_topics: bool = prop(
        False, "Let brokers create topics that are asked for (Kafka's default: true)."
    )

    @classmethod
    def is_known(cls, name: str) -> bool:
        """Another client's property, or one of Kafka's that kcli has no use for: no typo."""
        return name in _known_names() or name.startswith(_KNOWN_PREFIXES)

    def adjusted(self) -> dict[str, Any]:
        """A base raised above the default maximum, with no maximum given, raises that too."""
        return {
            f"{base}_max_ms": max(getattr(self, f"{base}_max_ms"), getattr(self, f"{base}_ms"))
            for base in _BACKED_OFF
            if f"{base}_max_ms".replace("_", ".") not in self.given
        }

    def check(self) -> None:
        for base in _BACKED_OFF:
            self._require_at_least(f"{base}_max_ms", f"{base}_ms")

    def _require_at_least(self, larger: str, smaller: str) -> None:
        if getattr(self, larger) < getattr(self, smaller):
            raise ConfigError(
                f"{larger.replace('_', '.')}={getattr(self, larger)} is below "
                f"{smaller.replace('_', '.')}={getattr(self, smaller)}"
            )


_BACKED_OFF = ("retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout")


def _parse_offset_reset(name: str, text: str) -> str:
    if text.lower() in ("latest", "earliest", "none"):
        return text.lower()
    if text.startswith("by_duration:"):
        raise ConfigError(f"{name}={text} is not supported yet, only latest, earliest and none are")
    raise ConfigError(f"{name}={text} is not one of latest, earliest, none")


class ConsumerConfig(ClientConfig):
    """What a consumer needs besides: how to fetch, where to start, which group."""

    connections_max_idle_ms: int = prop(
        540_000, "Close connections unused for so long; negative: never.", at_most=LONG_MAX
    )
    fetch_min_bytes: int = prop(1, "A broker waits until it has so much.", at_least=0)
    fetch_max_wait_ms: int = prop(500, "A broker answers after so long even with less.", at_least=0)
    fetch_max_bytes: int = prop(52_428_800, "Most bytes in one answer; a larger first batch still comes.", at_least=0)
    max_partition_fetch_bytes: int = prop(1_048_576, "Most bytes of one partition in one answer.", at_least=0)
    max_poll_records: int = prop(500, "Most records that one poll hands out.", at_least=1)
    max_poll_interval_ms: int = prop(300_000, "Longest time between polls before a member leaves.", at_least=1)
    check_crcs: bool = prop(True, "Verify the checksum of every record batch.")
    auto_offset_reset: str = prop(
        "latest", "Where to start without a position: latest, earliest, or none (an error).", parse=_parse_offset_reset
    )
    isolation_level: str = prop(
        "read_uncommitted",
        "read_committed hides aborted and unfinished transactions.",
        choices=("read_uncommitted", "read_committed"),
    )
    group_id: str | None = prop(None, "The consumer group.")
    group_instance_id: str | None = prop(None, "A member id that survives restarts (KIP-345).")
    group_protocol: str = prop("classic", "Who assigns: members or the broker.", choices=("classic", "consumer"))
    group_remote_assignor: str | None = prop(None, "The broker-side assignor for group.protocol=consumer.")
    session_timeout_ms: int = prop(45_000, "A member unheard of for so long is expelled.", at_least=1)
    heartbeat_interval_ms: int = prop(3_000, "How often a member says that it lives.", at_least=1)
    partition_assignment_strategy: list[str] = prop(
        ["range", "cooperative-sticky"], "Assignors that this member supports, best first."
    )
    enable_auto_commit: bool = prop(True, "Commit positions in the background.")
    auto_commit_interval_ms: int = prop(5_000, "How often positions are committed.", at_least=0)
    exclude_internal_topics: bool = prop(True, "A pattern subscription leaves out internal topics.")

    def adjusted(self) -> dict[str, Any]:
        adjusted = super().adjusted()
        if self.group_id is None and "enable.auto.commit" not in self.given:
            adjusted["enable_auto_commit"] = False
        return adjusted

    @property
    def reads_committed(self) -> bool:
        """Whether records of transactions are read only once these are committed. As an int: what requests say."""
        return self.isolation_level == "read_committed"

    def check(self) -> None:
        super().check()
        if self.request_timeout_ms <= self.fetch_max_wait_ms:
            raise ConfigError(
                f"request.timeout.ms={self.request_timeout_ms} must be above "
                f"fetch.max.wait.ms={self.fetch_max_wait_ms}, or an idle fetch looks like a dead broker"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} must be below "
                f"session.timeout.ms={self.session_timeout_ms}"
            )
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable.auto.commit=true needs a group.id to commit for")
        for name in self.given:
            if name in _OF_THE_OTHER_PROTOCOL[self.group_protocol]:
                who = "the broker decides it" if self.group_protocol == "consumer" else "the members assign"
                raise ConfigError(f"{name} cannot be set with group.protocol={self.group_protocol}: {who}")


_OF_THE_OTHER_PROTOCOL = {
    "classic": ("group.remote.assignor",),
    "consumer": ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
}


def _parse_acks(name: str, text: str) -> int:
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(text.lower())
    if acks is None:
        raise ConfigError(f"{name}={text} is not one of all, -1, 0, 1")
    return acks


class ProducerConfig(ClientConfig):
    """What a producer needs besides: how safe, how large, how late."""

    connections_max_idle_ms: int = prop(
        540_000, "Close connections unused for so long; negative: never.", at_most=LONG_MAX
    )
    receive_buffer_bytes: int = prop(32_768, "TCP receive buffer; -1: the system's default.", at_least=-1)
    acks: int = prop(
        -1, "Who must have a record: 0 nobody, 1 the leader, all (-1) the in-sync replicas.", parse=_parse_acks
    )
    batch_size: int = prop(16_384, "Bytes of records of one partition that are sent together.", at_least=0)
    linger_ms: int = prop(5, "How long a record may wait for company.", at_least=0, at_most=LONG_MAX)
    compression_type: str = prop("none", "Codec of the batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    max_request_size: int = prop(1_048_576, "Most bytes in one request, and so in one record.", at_least=0)
    delivery_timeout_ms: int = prop(120_000, "How long a record may take from send to acknowledgement.", at_least=0)
    retries: int = prop(2**31 - 1, "How often a failed batch is sent again.", at_least=0)
    enable_idempotence: bool = prop(True, "Let brokers drop what a retry would store twice.")
    max_in_flight_requests_per_connection: int = prop(
        5, "Requests that may await their answer on one connection.", at_least=1
    )
    buffer_memory: int = prop(33_554_432, "Bytes of records that may wait to be sent.", at_least=0, at_most=LONG_MAX)
    max_block_ms: int = prop(60_000, "How long send may wait for memory and metadata.", at_least=0, at_most=LONG_MAX)
    partitioner_ignore_keys: bool = prop(False, "Spread records over partitions whatever their keys.")
    transactional_id: str | None = prop(None, "The name under which transactions are fenced.")
    transaction_timeout_ms: int = prop(60_000, "A transaction open for so long is aborted.", at_least=1)

    def adjusted(self) -> dict[str, Any]:
        adjusted = super().adjusted()
        if "delivery.timeout.ms" not in self.given:
            adjusted["delivery_timeout_ms"] = max(self.delivery_timeout_ms, self.linger_ms + self.request_timeout_ms)
        if "enable.idempotence" not in self.given and self._idempotence_breaker():
            adjusted["enable_idempotence"] = False
        return adjusted

    def check(self) -> None:
        super().check()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is below linger.ms + request.timeout.ms "
                f"= {self.linger_ms + self.request_timeout_ms}"
            )
        if self.enable_idempotence and (breaker := self._idempotence_breaker()):
            raise ConfigError(f"enable.idempotence=true needs {breaker}")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional.id needs enable.idempotence=true")

    def _idempotence_breaker(self) -> str | None:
        if self.acks != -1:
            return "acks=all"
        if self.retries == 0:
            return "retries above 0"
        if self.max_in_flight_requests_per_connection > 5:
            return "max.in.flight.requests.per.connection of at most 5"
        return None


# Properties of Kafka's own clients that mean nothing here, but that a shared configuration file may well carry.
_KNOWN_PREFIXES = ("ssl.", "sasl.", "metrics.", "metric.", "config.providers", "share.", "compression.", "partitioner.")
_KNOWN_ELSEWHERE = (
    "bootstrap.controllers",
    "enable.metrics.push",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "metadata.max.idle.ms",
    "security.providers",
    "transaction.two.phase.commit.enable",
    "value.deserializer",
    "value.serializer",
)


def _known_names() -> set[str]:
    return {*ConsumerConfig.PROPERTIES, *ProducerConfig.PROPERTIES, *_KNOWN_ELSEWHERE}


def nearest_name(name: str) -> str | None:
    """The known property that `name` was probably meant to be."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, sorted(_known_names()), n=1, cutoff=0.7)), None)
