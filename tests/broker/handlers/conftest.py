"""A connection to a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.wire import Wire
from tests.real_kafka import Kafka


@pytest.fixture
def wire(any_kafka: Kafka) -> Iterator[Wire]:
    """A connection to our broker and to Apache's in turn, for single requests."""
    with Wire(any_kafka.bootstrap_servers) as connection:
        yield connection
