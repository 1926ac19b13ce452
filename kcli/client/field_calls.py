"""Calls of the serializers and deserializers that a program gives to a producer or a consumer.

Each is a callable with one argument. One that also has a method `serialize` or `deserialize` is called by that with the
topic, the field (key or value) and the headers, as Java's are: those of `kcli.schemas` name a subject after both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.errors import SerializationError

if TYPE_CHECKING:
    from kcli.protocol.records.record import Headers


def serialized(serializer: Callable[[Any], Any], topic: str, field: str, headers: Headers, value: Any) -> Any:
    """Return what a serializer makes of a key or value. Errors are those of the program."""
    of_topic = getattr(serializer, "serialize", None)
    return serializer(value) if of_topic is None else of_topic(topic, field, headers, value)


def deserialized(deserializer: Callable[[bytes], Any], topic: str, field: str, headers: Headers, data: bytes) -> Any:
    """Return what a deserializer makes of a key or value. Errors are those of the program."""
    of_topic = getattr(deserializer, "deserialize", None)
    return deserializer(data) if of_topic is None else of_topic(topic, field, headers, data)


def serialization_error(text: str, cause: Exception, **evidence: Any) -> SerializationError:
    """Return the error for an exception of the program; a SerializationError adds its own evidence, such as subject."""
    if isinstance(cause, SerializationError):
        return SerializationError(f"{text}: {cause.message}", **{**cause.evidence, **evidence})
    return SerializationError(f"{text}: {type(cause).__name__}: {cause}", **evidence)
