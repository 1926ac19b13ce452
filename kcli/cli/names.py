"""Values as Kafka's own tools write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


def kafka_uuid(value: UUID | None) -> str | None:
    """A topic id as Kafka prints it: its 16 bytes in URL-safe base64 without padding. None for none."""
    if value is None:
        return None
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(value.bytes).decode().rstrip("=")
