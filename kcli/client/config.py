"""Configuration of clients: Kafka's property names, types, defaults and bounds. Pure.

Source: https://kafka.apache.org/documentation/#consumerconfigs and #producerconfigs for 4.3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from kcli import other_clients
from kcli.arguments import form_of
from kcli.client import librdkafka
from kcli.client.login import LoginSettings
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.registry_settings import RegistrySettings
from kcli.settings import (
    MAX_DECOMPRESSED_BYTES,
    Boolean,
    Int,
    List,
    Long,
    String,
    Value,
    format_value,
    invalid_value,
    is_secret,
    setting,
)
from kcli.text import closest_name, parse_duration

C = TypeVar("C", bound="ClientConfig")


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of `a:9092,[::1]:9093`. A port is required, as in Kafka; IPv6 needs brackets."""
    addresses = [_parse_address(address.strip()) for address in text.split(",") if address.strip()]
    if not addresses:
        raise ConfigError("bootstrap.servers is empty; name at least one broker as host:port")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    address = text.split("://", 1)[-1]  # a listener copied from server.properties, PLAINTEXT://host:port
    if "@" in text:  # the part before it may be a password
        raise ConfigError("bootstrap.servers: an address with '@' is not valid; use host:port, and sasl.username")
    if fault := _copied_with(text):
        raise ConfigError(f"bootstrap.servers: {text!r} is not valid: {fault}")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not host:
        raise invalid_value("bootstrap.servers", text, "host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise invalid_value("bootstrap.servers", text, "brackets around an IPv6 address, as in [::1]:9092")
    if len(port) > 5 or not 0 < int(port) < 65536:
        raise invalid_value("bootstrap.servers", text, "a port from 1 to 65535")
    return host, int(port)


def _copied_with(text: str) -> str | None:
    """Return what an address has that other files and shells take away, and the cure; None if there is nothing."""
    if set(text) & set("\"'"):
        return "quotes are part of a property's value; write it without them"
    if "#" in text:
        return "a comment needs a line of its own, because it is part of a property's value"
    if ";" in text or len(text.split()) > 1:
        return "separate brokers by commas, as in a:9092,b:9092"
    return None


def _parse_dns_lookup(name: str, text: str) -> str:
    if text == "use_all_dns_ips":
        return text
    raise ConfigError(f"{name}: {text!r} is not supported; use use_all_dns_ips")


def _parse_bootstrap_servers(name: str, text: str) -> str:
    parse_bootstrap(text)
    return text


def _parse_optional(_name: str, text: str) -> str | None:
    return text or None


def _parse_names(_name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_INTERCEPTORS = "interceptors are Java classes; in Python pass on_consume, on_commit, on_send or on_ack"
_TOKENS = "brokers check the claims of tokens"


class ClientConfig(LoginSettings):
    """Settings of every client: bootstrap servers, security, timeouts, backoff, connections, metadata.

    Names of librdkafka are accepted, and translated to Kafka's.
    """

    bootstrap_servers: String = setting(
        "localhost:9092",
        "Brokers for the first connection: host:port, separated by commas.",
        parse=_parse_bootstrap_servers,
    )
    client_id: String = setting("kcli", "Name of this client in the brokers' logs, metrics and quotas.")
    client_rack: String = setting(
        "", "Rack of this client; brokers then suggest a replica in it to fetch from (KIP-392)."
    )
    client_dns_lookup: String = setting("use_all_dns_ips", "Try every address of a host name.", parse=_parse_dns_lookup)
    request_timeout_ms: Int = setting(30_000, "Timeout of one request.", at_least=0)
    default_api_timeout_ms: Int = setting(60_000, "Timeout of one operation, retries included.", at_least=0)
    retry_backoff_ms: Long = setting(100, "Backoff before the first retry.", at_least=0)
    retry_backoff_max_ms: Long = setting(1_000, "Largest backoff between retries.", at_least=0)
    reconnect_backoff_ms: Long = setting(50, "Backoff before the first reconnection to a node.", at_least=0)
    reconnect_backoff_max_ms: Long = setting(1_000, "Largest backoff between reconnections to a node.", at_least=0)
    socket_connection_setup_timeout_ms: Long = setting(
        10_000, "Timeout of connection setup; doubles with each failure.", at_least=0
    )
    socket_connection_setup_timeout_max_ms: Long = setting(30_000, "Largest timeout of connection setup.", at_least=0)
    connections_max_idle_ms: Long = setting(300_000, "Close a connection that is idle for this time; negative: never.")
    max_decompressed_batch_bytes: Int = setting(
        MAX_DECOMPRESSED_BYTES,
        "Largest decompressed size of a record batch. A larger one is an error that names the offset after it.",
        at_least=1,
    )
    metadata_max_age_ms: Long = setting(300_000, "Refresh metadata at least this often.", at_least=0)
    metadata_recovery_strategy: String = setting(
        "rebootstrap",
        "When no known broker is available: rebootstrap (KIP-899), or none.",
        choices=("rebootstrap", "none"),
        ignore_case=True,
    )
    metadata_recovery_rebootstrap_trigger_ms: Long = setting(
        300_000,
        "Rebootstrap when no metadata was received for this time.",
        at_least=0,
    )
    send_buffer_bytes: Int = setting(131_072, "Size of the TCP send buffer; -1: the system's default.", at_least=-1)
    receive_buffer_bytes: Int = setting(
        65_536, "Size of the TCP receive buffer; -1: the system's default.", at_least=-1
    )
    allow_auto_create_topics: Boolean = setting(
        False, "Let brokers create a missing topic when its metadata is requested (Kafka's default: true)."
    )

    #: The class of the library that takes these settings as keywords.
    CLIENT: ClassVar[str] = "Admin"

    #: Properties of Java's clients that have no effect here, with the reason. A name that ends with a dot is a prefix.
    NO_EFFECT: ClassVar[Mapping[str, str]] = {
        "enable.metrics.push": "no metrics are pushed to brokers",
        "interceptor.classes": _INTERCEPTORS,
        "metric.reporters": "reporters are Java classes; see `metrics`",
        "metrics.": "the samples of a metric are two windows of 30 s",
        "sasl.kerberos.kinit.cmd": "Kerberos libraries use the credential cache or the keytab",
        "sasl.kerberos.min.time.before.relogin": "a ticket is taken for each connection",
        "sasl.kerberos.ticket.renew.jitter": "a ticket is taken for each connection",
        "sasl.kerberos.ticket.renew.window.factor": "a ticket is taken for each connection",
        "sasl.oauthbearer.clock.skew.seconds": _TOKENS,
        "sasl.oauthbearer.expected.": _TOKENS,
        "sasl.oauthbearer.jwks.": _TOKENS,
        "sasl.oauthbearer.scope.claim.name": _TOKENS,
        "sasl.oauthbearer.sub.claim.name": _TOKENS,
        "security.providers": "providers are Java classes",
        "ssl.keymanager.algorithm": "OpenSSL selects the key",
        "ssl.provider": "providers are Java classes",
        "ssl.secure.random.implementation": "OpenSSL makes random numbers",
        "ssl.trustmanager.algorithm": "OpenSSL checks certificates",
        **dict.fromkeys(sorted(librdkafka.TUNING), librdkafka.TUNING_REASON),
    }

    #: Security properties that would have to be honoured, and cannot, with the reason.
    REFUSED: ClassVar[Mapping[str, str]] = {
        "ssl.engine.factory.class": "kcli cannot run Java classes",
        **librdkafka.REFUSED,
    }

    @property
    def no_effect(self) -> dict[str, str]:
        """The given properties of this kind of client that have no effect, with the reason. Empty values are left out.

        Those of other kinds of clients, which a shared file contains, are not among them.
        """
        unused = dict(self.NO_EFFECT)
        has_tls = self.uses_tls or (self.sasl_oauthbearer_token_endpoint_url or "").lower().startswith("https:")
        has_tls = has_tls or RegistrySettings.takes_tls_of_client(self.given)
        for prefix, is_used in (("ssl.", has_tls), ("https.", self.uses_sasl), ("sasl.", self.uses_sasl)):
            if not is_used:
                unused[prefix] = f"security.protocol is {self.security_protocol}"
        reasons = {name: _matching(unused, name) for name, value in self.given.items() if value}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @classmethod
    def from_properties(cls: type[C], properties: Mapping[str, Value | None]) -> C:
        """Parse and check; names may be librdkafka's. Raise ConfigError, one sentence."""
        return super().from_properties(librdkafka.translated(properties))

    def with_properties(self: C, properties: Mapping[str, Value | None]) -> C:
        """Return a copy with some settings replaced; None restores the default."""
        return super().with_properties(librdkafka.translated(properties))

    @classmethod
    def from_keywords(cls: type[C], settings: Mapping[str, Any], *, base: C | None = None) -> C:
        """Make a configuration from Python keywords: Kafka's names with underscores, completing `base` if given.

        Unlike a properties file, keywords are written for this client: an unknown name, and one without effect here,
        such as that of a producer for a consumer, raise ConfigError; a value that is not text raises TypeError.
        References to config providers are replaced, and a JAAS login file is read.
        """
        for keyword, value in settings.items():
            cls._check_name(keyword)
            if not _is_value(value):
                allowed = "text, a number, True, False or a list of str"
                raise TypeError(
                    f"{cls.CLIENT}: {keyword} must be {allowed}; got {form_of('list[str]').describe(value)}"
                )
        properties = _completed({name.replace("_", "."): value for name, value in settings.items()})
        config = cls.from_properties(properties) if base is None else base.with_properties(properties)
        for name, reason in config.no_effect.items():
            if name in properties:
                raise without_effect(name.replace(".", "_"), reason)
        return config

    @classmethod
    def _check_name(cls, keyword: str) -> None:
        """Raise ConfigError unless a keyword names a setting of this kind of client."""
        name, keyword = keyword.replace("_", "."), keyword.replace(".", "_")
        if (advice := other_clients.SETTINGS.get(name)) is not None:
            cure = advice if advice.startswith("remove it") else f"use {advice}"
            raise ConfigError(f"there is no setting {keyword} in kcli; {cure}")
        name = librdkafka.name_in_kafka(name)
        if not cls.is_known(name):
            close = nearest_name(name)
            hint = f"; did you mean {close.replace('.', '_')}?" if close else ""
            raise ConfigError(f"there is no setting {keyword}{hint}")
        own = {*cls.SETTINGS, *cls.NO_EFFECT}
        for other in (ConsumerConfig, ProducerConfig):
            # Admin(**properties) takes those of a file that all clients share.
            if cls is not ClientConfig and name in {*other.SETTINGS, *other.NO_EFFECT} - own:
                close = closest_name(name, own, cutoff=0.85)
                cure = f"use {close.replace('.', '_')}" if close else "remove it"
                raise ConfigError(f"{keyword} is for {other.CLIENT}, not for {cls.CLIENT}; {cure}")

    @classmethod
    def is_known(cls, name: str) -> bool:
        """Return whether `name` is a property of another client, a registry's, or one that has no effect here."""
        return name in _known_names() or name.startswith(_KNOWN_PREFIXES) or RegistrySettings.is_known(name)

    def adjusted(self) -> dict[str, Any]:
        """Raise a maximum that was not given to its base, where the base is above it; make the login."""
        return super().adjusted() | {
            f"{base}_max_ms": max(getattr(self, f"{base}_max_ms"), getattr(self, f"{base}_ms"))
            for base in _BACKED_OFF
            if f"{base}_max_ms".replace("_", ".") not in self.given
        }

    def check(self) -> None:
        super().check()
        for name, reason in self.REFUSED.items():
            is_used = self.uses_sasl if name.startswith("sasl.") else self.uses_tls
            if self.given.get(name) and is_used:
                raise ConfigError(f"{name} is not supported: {reason}; remove it")
        for base in _BACKED_OFF:
            self._require_at_least(f"{base}_max_ms", f"{base}_ms")

    def _require_at_least(self, larger: str, smaller: str) -> None:
        if getattr(self, larger) < getattr(self, smaller):
            raise ConfigError(
                f"{larger.replace('_', '.')}={getattr(self, larger)} must be at least "
                f"{smaller.replace('_', '.')}={getattr(self, smaller)}"
            )


def _is_value(value: object) -> bool:
    """Return whether a value of a keyword can be written in a properties file."""
    if isinstance(value, list | tuple):
        return all(isinstance(element, str) for element in value)
    return isinstance(value, str | Secret | os.PathLike | None) or hasattr(type(value), "__float__")


def _completed(properties: Mapping[str, Value | None]) -> dict[str, Value | None]:
    """Return the properties with the values that are kept in files and variables."""
    texts = {name: format_value(value) for name, value in properties.items() if value is not None}
    is_complete = not any("${" in text or name == "security.protocol" for name, text in texts.items())
    if is_complete and "config.providers" not in texts:
        return dict(properties)
    from kcli.client.external_values import complete

    values = complete(texts, os.environ)
    removed = dict.fromkeys(texts.keys() - values.keys())
    return {**properties, **{name: text for name, text in values.items() if text != texts.get(name)}, **removed}


def check_callables(**named: object) -> None:
    """Raise ConfigError for an argument that is neither None nor callable, such as the name of a Java class."""
    for name, given in named.items():
        if given is not None and not callable(given):
            raise ConfigError(
                f"{name}: a {type(given).__name__} is not valid; use a function, because Java classes are not"
                + other_clients.CALLABLES.get(name, "")
            )


def not_settings(given: object, expected: str, advice: str) -> TypeError:
    """Return the error for settings that were not passed as keywords; without their values, which may be secret."""
    return TypeError(f"{type(given).__name__} is not {expected}; use {advice}")


def without_effect(name: str, reason: str) -> ConfigError:
    """Return the error for a setting that was given on purpose and has no effect."""
    return ConfigError(f"{name} has no effect in kcli: {reason}; remove it")


def _matching(reasons: Mapping[str, str], name: str) -> str | None:
    for known, reason in reasons.items():
        if name == known or (known.endswith(".") and name.startswith(known)):
            return reason
    return None


_BACKED_OFF = ("retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout")


def _parse_offset_reset(name: str, text: str) -> str:
    if text.lower() in ("latest", "earliest", "none"):
        return text.lower()
    policy, colon, duration = text.partition(":")
    if colon and policy.lower() == "by_duration" and duration[:1] in ("P", "p"):
        with suppress(ConfigError):
            parse_duration(duration)
            return f"by_duration:{duration.upper()}"
    raise invalid_value(name, text, "latest, earliest, none, or by_duration: with a duration such as PT1H or P7D")


class ConsumerConfig(ClientConfig):
    """Settings of a consumer: fetch sizes, start without a committed offset, group membership."""

    connections_max_idle_ms: Long = setting(540_000, "Close a connection that is idle for this time; negative: never.")
    fetch_min_bytes: Int = setting(1, "Bytes that a broker collects before it answers a fetch.", at_least=0)
    fetch_max_wait_ms: Int = setting(500, "Longest time a broker waits for fetch.min.bytes.", at_least=0)
    fetch_max_bytes: Int = setting(
        52_428_800, "Most bytes in one fetch response; a larger first batch is still returned.", at_least=0
    )
    max_partition_fetch_bytes: Int = setting(
        1_048_576, "Most bytes of one partition in one fetch response.", at_least=0
    )
    max_poll_interval_ms: Int = setting(
        300_000, "Longest time between polls; after it the member leaves the group.", at_least=1
    )
    max_poll_records: Int | None = setting(
        None,
        "Most records that one poll of Consumer returns; not set: 500 in a group, else those of one response.",
        at_least=1,
    )
    check_crcs: Boolean = setting(True, "Verify the checksum of every record batch.")
    auto_offset_reset: String = setting(
        "latest",
        "Start without a committed offset: latest, earliest, none (raise an error), or by_duration:PT1H (KIP-1106).",
        parse=_parse_offset_reset,
    )
    isolation_level: String = setting(
        "read_uncommitted",
        "read_committed skips records of aborted and open transactions.",
        choices=("read_uncommitted", "read_committed"),
        ignore_case=True,
    )
    group_id: String | None = setting(None, "The consumer group.", parse=_parse_optional)
    group_instance_id: String | None = setting(
        None, "Static member id, kept across restarts (KIP-345).", parse=_parse_optional
    )
    group_protocol: String = setting(
        "classic",
        "Rebalance protocol: classic (a member assigns) or consumer (the broker assigns).",
        choices=("classic", "consumer"),
        ignore_case=True,
    )
    group_remote_assignor: String | None = setting(
        None, "Server-side assignor for group.protocol=consumer.", parse=_parse_optional
    )
    session_timeout_ms: Int = setting(
        45_000, "The coordinator removes a member without heartbeats for this time.", at_least=1
    )
    heartbeat_interval_ms: Int = setting(3_000, "Interval between heartbeats.", at_least=1)
    partition_assignment_strategy: List = setting(
        ("range", "cooperative-sticky"), "Assignors that this member supports, preferred first.", parse=_parse_names
    )
    enable_auto_commit: Boolean = setting(True, "Commit positions in the background.")
    auto_commit_interval_ms: Int = setting(5_000, "Interval between automatic commits.", at_least=0)
    exclude_internal_topics: Boolean = setting(True, "A pattern subscription excludes internal topics.")

    CLIENT: ClassVar[str] = "Consumer"
    NO_EFFECT: ClassVar[Mapping[str, str]] = {
        **ClientConfig.NO_EFFECT,
        "key.deserializer": "keys are bytes; in Python pass a callable",
        "share.": "a share consumer of kcli has no settings of its own",
        "value.deserializer": "values are bytes; in Python pass a callable",
    }

    def adjusted(self) -> dict[str, Any]:
        adjusted = super().adjusted()
        if self.group_id is None and "enable.auto.commit" not in self.given:
            adjusted["enable_auto_commit"] = False
        return adjusted

    @property
    def reads_committed(self) -> bool:
        """True if isolation.level is read_committed; as an int, the isolation level in requests."""
        return self.isolation_level == "read_committed"

    def check(self) -> None:
        super().check()
        if self.request_timeout_ms <= self.fetch_max_wait_ms:
            raise ConfigError(
                f"request.timeout.ms={self.request_timeout_ms} must be above "
                f"fetch.max.wait.ms={self.fetch_max_wait_ms}, or an idle fetch times out"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} must be below "
                f"session.timeout.ms={self.session_timeout_ms}"
            )
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable.auto.commit=true requires group.id")
        for name in self.given:
            if name in _OTHER_PROTOCOL[self.group_protocol]:
                reason = "the broker decides it" if self.group_protocol == "consumer" else "a member assigns"
                raise ConfigError(f"{name} cannot be set with group.protocol={self.group_protocol}: {reason}")


_OTHER_PROTOCOL = {
    "classic": ("group.remote.assignor",),
    "consumer": ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
}


def _parse_acks(name: str, text: str) -> int:
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(text.lower())
    if acks is None:
        raise invalid_value(name, text, "all, -1, 0 or 1")
    return acks


class ProducerConfig(ClientConfig):
    """Settings of a producer: acknowledgement, batching, delivery timeout, idempotence."""

    connections_max_idle_ms: Long = setting(540_000, "Close a connection that is idle for this time; negative: never.")
    receive_buffer_bytes: Int = setting(
        32_768, "Size of the TCP receive buffer; -1: the system's default.", at_least=-1
    )
    acks: Int = setting(
        -1,
        "Replicas that must store a record before the answer: 0 none, 1 the leader, all (-1) the in-sync replicas.",
        parse=_parse_acks,
    )
    batch_size: Int = setting(16_384, "Largest size of a batch, in bytes.", at_least=0)
    linger_ms: Long = setting(5, "Longest time a record waits for its batch to fill.", at_least=0)
    compression_type: String = setting(
        "none", "Compression codec of batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"), ignore_case=True
    )
    max_request_size: Int = setting(1_048_576, "Largest size of a request, and so of a record, in bytes.", at_least=0)
    delivery_timeout_ms: Int = setting(120_000, "Longest time from send to acknowledgement of a record.", at_least=0)
    retries: Int = setting(2**31 - 1, "Most retries of a failed batch.", at_least=0)
    enable_idempotence: Boolean = setting(True, "Let brokers drop duplicates that retries cause.")
    max_in_flight_requests_per_connection: Int = setting(5, "Most unanswered requests on one connection.", at_least=1)
    buffer_memory: Long = setting(33_554_432, "Most bytes of records that wait to be sent.", at_least=0)
    metadata_max_idle_ms: Long = setting(
        300_000, "Refresh no longer the metadata of a topic that was not used for this time.", at_least=5_000
    )
    max_block_ms: Long = setting(60_000, "Longest time send waits for buffer memory and metadata.", at_least=0)
    partitioner_ignore_keys: Boolean = setting(False, "Choose partitions without regard to keys.")
    transactional_id: String | None = setting(
        None,
        "Write in transactions under this id; of two producers with it, the older one is fenced.",
        parse=_parse_optional,
    )
    transaction_timeout_ms: Int = setting(
        60_000, "The coordinator aborts a transaction that is open for this time.", at_least=1
    )

    CLIENT: ClassVar[str] = "Producer"
    NO_EFFECT: ClassVar[Mapping[str, str]] = {
        **ClientConfig.NO_EFFECT,
        "compression.gzip.level": "the level is the library's default",
        "compression.lz4.level": "the level is the library's default",
        "compression.zstd.level": "the level is the library's default",
        "key.serializer": "keys are bytes; in Python pass a callable",
        "partitioner": "a key selects the partition that Java's default selects, librdkafka's murmur2_random",
        "partitioner.adaptive.partitioning.enable": "records without a key fill one partition after another",
        "partitioner.availability.timeout.ms": "partitions without a leader are left out",
        "value.serializer": "values are bytes; in Python pass a callable",
    }

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
                f"delivery.timeout.ms={self.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms "
                f"= {self.linger_ms + self.request_timeout_ms}"
            )
        if self.enable_idempotence and (breaker := self._idempotence_breaker()):
            raise ConfigError(f"enable.idempotence=true requires {breaker}")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError(f"transactional.id requires {self._idempotence_breaker() or 'enable.idempotence=true'}")
        for name, reason in _REFUSED_BY_PRODUCER.items():
            if self.given.get(name, "").lower() not in ("", "false"):
                raise ConfigError(f"{name} is not supported: {reason}; remove it")

    def _idempotence_breaker(self) -> str | None:
        if self.acks != -1:
            return "acks=all"
        if self.retries == 0:
            return "retries above 0"
        if self.max_in_flight_requests_per_connection > 5:
            return "max.in.flight.requests.per.connection of at most 5"
        return None


# Without these the records would not be what the user asked for: prepared, and in the partitioner's partitions.
_REFUSED_BY_PRODUCER = {
    "transaction.two.phase.commit.enable": "kcli does not prepare transactions for an external coordinator",
    "partitioner.class": "partitioners are Java classes; kcli chooses partitions as Java's default partitioner does",
}
_WITHOUT_EFFECT = {*ConsumerConfig.NO_EFFECT, *ProducerConfig.NO_EFFECT}
_KNOWN_PREFIXES = (*(name for name in _WITHOUT_EFFECT if name.endswith(".")), "config.providers.")
_KNOWN_ELSEWHERE = {
    *_WITHOUT_EFFECT.difference(_KNOWN_PREFIXES),
    *ClientConfig.REFUSED,
    *_REFUSED_BY_PRODUCER,
    "bootstrap.controllers",
    "config.providers",
    "java.security.auth.login.config",
}


def _known_names() -> set[str]:
    return {
        *ConsumerConfig.SETTINGS,
        *ProducerConfig.SETTINGS,
        *RegistrySettings.SETTINGS,
        *librdkafka.KAFKA_NAMES,
        *_KNOWN_ELSEWHERE,
    }


def is_secret_property(name: str) -> bool:
    """Return whether the value of a property of any client must not be shown."""
    if RegistrySettings.is_known(name):
        return RegistrySettings.is_secret(name)
    for cls in (ConsumerConfig, ProducerConfig):
        if name in cls.SETTINGS:
            return cls.is_secret(name)
    return is_secret(name)


def may_be_shown(name: str, text: str) -> bool:
    """Return True if a value may be printed: the property is not secret, and the value is valid.

    The value of an unknown property, or one that is not valid, may be a password that was meant for another property.
    """
    if is_secret_property(name):
        return False
    for cls in (ConsumerConfig, ProducerConfig, RegistrySettings):
        if name in cls.SETTINGS:
            try:
                cls.SETTINGS[name].parse(text)
            except ConfigError:
                return False
            return True
    return ClientConfig.is_known(name)


def is_property_name(name: str, text: str) -> bool:
    """Return whether `name` is, or resembles, the name of a property with the value `text`.

    Otherwise it can be a line of a value that was not continued, such as a private key or a JAAS text.
    """
    is_name = text and re.fullmatch(r"[a-z][a-z0-9]*([._-][a-z0-9]+)+", name)
    return bool(is_name) or nearest_name(name) is not None


def nearest_name(name: str) -> str | None:
    """The known property that a misspelled `name` most resembles."""
    return closest_name(name, _known_names(), cutoff=0.7)
