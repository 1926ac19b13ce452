"""Property names of librdkafka, and their translation to Kafka's. Pure.

kcat, confluent-kafka and other clients built on librdkafka share these names; a property that has one meaning gets one
name here, so that the rest of kcli knows Kafka's only. Properties that Kafka lacks are settings of their own
(`sasl.username`, `ssl.key.location`). Source: librdkafka's CONFIGURATION.md, 2.12.

`TUNING` are properties of librdkafka's own machinery, without effect here; `REFUSED` are those that kcli would have to
honour and cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.errors import ConfigError
from kcli.settings import Value, format_value

KAFKA_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.jwt.template.file": "sasl.oauthbearer.assertion.template.file",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "compression.codec": "compression.type",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}

#: Settings that only librdkafka's names give: `kcli.security.security_settings` and `kcli.client.login` define them.
_OWN_NAMES = """
    sasl.username sasl.password sasl.kerberos.keytab sasl.kerberos.principal sasl.oauthbearer.method
    sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type enable.sasl.oauthbearer.unsecure.jwt
    ssl.certificate.location ssl.key.location enable.ssl.certificate.verification https.ca.location https.ca.pem
    """
OWN_NAMES = frozenset(_OWN_NAMES.split())

TUNING_REASON = "it tunes librdkafka"
_TUNING = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms auto.commit.enable batch.num.messages
    broker.address.family broker.address.ttl broker.version.fallback builtin.features compression.level
    connect.retry.max consume.callback.max.messages coordinator.query.interval.ms debug delivery.report.only.error
    enable.auto.offset.store enable.gapless.guarantee enable.partition.eof enable.random.seed enabled_events
    fetch.error.backoff.ms fetch.queue.backoff.ms group.protocol.type internal.termination.signal
    log.connection.close log.queue log.thread.name log_level message.copy.max.bytes
    offset.store.method offset.store.path offset.store.sync.interval.ms partitioner plugin.library.paths
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queued.max.messages.kbytes queued.min.messages receive.message.max.bytes reconnect.backoff.jitter.ms
    socket.blocking.max.ms socket.keepalive.enable socket.max.fails socket.nagle.disable ssl.ca.certificate.stores
    statistics.interval.ms sticky.partitioning.linger.ms topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """
TUNING = frozenset(_TUNING.split())

REFUSED = {
    "sasl.oauthbearer.assertion.private.key.pem": "use sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.metadata.authentication.type": "kcli does not ask cloud metadata services for tokens",
    "ssl.crl.location": "kcli does not check revocation lists",
    "ssl.curves.list": "Python cannot choose curves",
    "ssl.engine.id": "kcli does not load OpenSSL engines",
    "ssl.engine.location": "kcli does not load OpenSSL engines",
    "ssl.providers": "kcli does not load OpenSSL providers",
    "ssl.sigalgs.list": "Python cannot choose signature algorithms",
}


def is_known(name: str) -> bool:
    """Return whether librdkafka has a property of this name that Kafka lacks."""
    return name in KAFKA_NAMES or name in OWN_NAMES or name in TUNING or name in REFUSED


def name_in_kafka(name: str) -> str:
    """Return Kafka's name of a property, or a name that is not librdkafka's as it is."""
    name = _without_prefix(name)
    return KAFKA_NAMES.get(name, name)


def _without_prefix(name: str) -> str:
    """Return a name without librdkafka's prefix of the settings of topics."""
    has_prefix = name.startswith("topic.") and name not in KAFKA_NAMES and name not in TUNING
    return name[len("topic.") :] if has_prefix else name


def translated(properties: Mapping[str, Value | None]) -> dict[str, Value | None]:
    """Return the properties under Kafka's names, with values in Kafka's form.

    Raise ConfigError if one property is given under both names with different values.
    """
    result: dict[str, Value | None] = {}
    origin: dict[str, str] = {}
    for name, value in properties.items():
        name = _without_prefix(name)
        kafka_name = KAFKA_NAMES.get(name, name)
        if value is not None and name in _CONVERSIONS:
            value = _CONVERSIONS[name](format_value(value).strip())
        earlier = result.get(kafka_name)
        if earlier is not None and value is not None and format_value(earlier) != format_value(value):
            raise ConfigError(f"{origin[kafka_name]} and {name} are names of one property; remove one of them")
        result[kafka_name], origin[kafka_name] = value, name
    return result


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Return texts under Kafka's names, without those that mean the default. Raise ConfigError as `translated` does."""
    return {name: format_value(value) for name, value in translated(properties).items() if value is not None}


def _with_ports(text: str) -> str:
    """The addresses with librdkafka's default port."""
    addresses = (address.strip() for address in text.split(","))
    return ",".join(a if ":" in a.rpartition("]")[2] or not a else f"{a}:9092" for a in addresses)


def _trust_store(text: str) -> str | None:
    return None if text in ("", "probe") else text  # both mean the certificates of the system


def _buffer_size(text: str) -> str:
    return "-1" if text == "0" else text


def _offset_reset(text: str) -> str:
    return {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"}.get(
        text, text
    )


_CONVERSIONS: dict[str, Callable[[str], str | None]] = {
    "auto.offset.reset": _offset_reset,
    "metadata.broker.list": _with_ports,
    "socket.receive.buffer.bytes": _buffer_size,
    "socket.send.buffer.bytes": _buffer_size,
    "ssl.ca.location": _trust_store,
    "ssl.cipher.suites": lambda text: text.replace(":", ","),
    "ssl.endpoint.identification.algorithm": lambda text: "" if text == "none" else text,
}
