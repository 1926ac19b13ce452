"""The measurement of Avro decoding on a few records: all values equal those of confluent-kafka's deserialiser."""

from __future__ import annotations

import pytest

from tests.bench.decode_avro import CASES, measure
from tests.needs import needs_package

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", CASES)
def test_values_equal_those_of_the_deserialiser(name: str):
    needs_package("confluent_kafka.schema_registry.avro", "test")
    measure(name, records=500, rounds=1)  # it compares the values of both
