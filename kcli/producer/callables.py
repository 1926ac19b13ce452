"""Python callables of a producer in the place of Java's serializers and interceptors; see `Producer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli import logs
from kcli.client.field_calls import serialization_error, serialized
from kcli.errors import KcliError
from kcli.producer.batches import RecordMetadata

if TYPE_CHECKING:
    from kcli.client.metadata import TopicInfo

Serializer = Callable[[Any], "bytes | None"]


class ProducerRecord(NamedTuple):
    """A record as `send` gets it, before it is serialized. `partition` None: chosen by the key."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


#: Returns the partition of a record, or None for the default, from the serialized record and the number of partitions.
Partitioner = Callable[[ProducerRecord, int], "int | None"]
OnSend = Callable[[ProducerRecord], "ProducerRecord | None"]
OnAck = Callable[[RecordMetadata, "KcliError | None"], object]


class SendCallables(NamedTuple):
    """The callables of one producer; None: not given."""

    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    partitioner: Partitioner | None = None
    on_send: OnSend | None = None
    on_ack: OnAck | None = None

    def prepared(self, record: ProducerRecord, partitions: Callable[[str], TopicInfo]) -> ProducerRecord:
        """Return the record after `on_send`, serialized and with its partition. Raise SerializationError."""
        if self.on_send is not None:
            try:
                record = ProducerRecord(*(self.on_send(record) or record))
            except Exception:
                _log_failure("on_send")
        key = self._serialized("key", self.key_serializer, record, record.key)
        record = record._replace(key=key, value=self._serialized("value", self.value_serializer, record, record.value))
        if self.partitioner is not None and record.partition is None:
            count = len(partitions(record.topic).partitions)
            record = record._replace(partition=self.partitioner(record, count))
        return record

    def acknowledged(self, metadata: RecordMetadata, error: KcliError | None) -> None:
        """Call `on_ack`."""
        if self.on_ack is not None:
            call_on_ack(self.on_ack, metadata, error)

    def _serialized(self, field: str, serialize: Serializer | None, record: ProducerRecord, data: Any) -> Any:
        if serialize is None or data is None:
            return data
        try:
            return serialized(serialize, record.topic, field, record.headers, data)
        except Exception as cause:
            text = f"the {field} of a record for {record.topic} cannot be serialized"
            error = serialization_error(text, cause, topic=record.topic, field=field)
            partition = -1 if record.partition is None else record.partition
            self.acknowledged(RecordMetadata(record.topic, partition, -1, -1), error)
            raise error from cause


NO_CALLABLES = SendCallables()


def call_on_ack(on_ack: OnAck, metadata: RecordMetadata, error: KcliError | None) -> None:
    """Call `on_ack`; an exception is logged."""
    try:
        on_ack(metadata, error)
    except (Exception, SystemExit):
        _log_failure("on_ack")


def _log_failure(name: str) -> None:
    logs.warning("kcli.producer", "%s has failed; its exception is ignored", name, with_traceback=True)
