"""Speed of Avro decoding beside confluent-kafka's AvroDeserializer, on the same payloads.

    python -m tests.bench.decode_avro [--records 1000000] [--rounds 5]

Payloads are written by confluent-kafka's AvroSerializer, with a registry in its memory. Both decoders read all of them
in rounds, in turn, and the table has the least CPU time of a round per record. All values must be equal. It fails if
kcli is not at least 3 times as fast as the deserialiser for each schema.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kcli.schemas.serdes import make_decoder
from tests.schemas.known_registry import KnownRegistry

AT_LEAST = 3.0
BATCH = 2048
DISTINCT = 20_000

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}},
    ],
}
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "sensor", "type": "int"}, {"name": "celsius", "type": "double"}],
}
INVOICE = {
    "type": "record",
    "name": "Invoice",
    "fields": [
        *({"name": f"text{n}", "type": ["null", "string"]} for n in range(6)),
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {**READING, "name": "Line"}}},
    ],
}


def order(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(2**40),
        "customer": f"customer-{rng.randrange(10_000)}",
        "price": rng.choice([None, rng.random()]),
        "at": datetime.datetime.fromtimestamp(rng.randrange(2**31), datetime.timezone.utc),
        "items": [f"item-{n}" for n in range(rng.randrange(4))],
        "status": rng.choice(["NEW", "PAID"]),
    }


def reading(rng: random.Random) -> dict[str, Any]:
    return {"sensor": rng.randrange(100_000), "celsius": rng.random()}


def invoice(rng: random.Random) -> dict[str, Any]:
    return {
        **{f"text{n}": rng.choice([None, "some text"]) for n in range(6)},
        "amount": Decimal(rng.randrange(10**9)).scaleb(-2),
        "day": datetime.date.fromordinal(rng.randrange(700_000, 740_000)),
        "labels": {f"label{n}": "x" for n in range(3)},
        "lines": [reading(rng) for _ in range(3)],
    }


CASES: dict[str, tuple[dict[str, Any], Callable[[random.Random], dict[str, Any]]]] = {
    "reading": (READING, reading),
    "order": (ORDER, order),
    "invoice": (INVOICE, invoice),
}


def measure(name: str, records: int, rounds: int) -> tuple[float, float]:
    """Return the microseconds of CPU per record of kcli and of confluent-kafka. Fail if their values differ."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    schema, make = CASES[name]
    client = SchemaRegistryClient.new_client({"url": "mock://bench"})
    serialize = AvroSerializer(client, json.dumps(schema))
    deserialize = AvroDeserializer(client)
    context = SerializationContext(name, MessageField.VALUE)
    rng = random.Random(1)
    payloads = [serialize(make(rng), context) for _ in range(min(DISTINCT, records))]
    number = int.from_bytes(payloads[0][1:5], "big")
    registry = KnownRegistry({f"/schemas/ids/{number}": {"schema": json.dumps(schema)}})
    decoder = make_decoder("avro", "value", registry=registry)
    assert decoder.decode(name, payloads) == [deserialize(payload, context) for payload in payloads]
    batches = [payloads[at : at + BATCH] for at in range(0, len(payloads), BATCH)]
    turns = max(1, records // len(payloads) // rounds)

    def ours() -> None:
        for batch in batches:
            decoder.decode(name, batch)

    def theirs() -> None:
        for payload in payloads:
            deserialize(payload, context)

    best = {ours: float("inf"), theirs: float("inf")}
    for _ in range(rounds):
        for run in (ours, theirs):
            start = time.process_time()
            for _ in range(turns):
                run()
            best[run] = min(best[run], (time.process_time() - start) / turns / len(payloads) * 1e6)
    return best[ours], best[theirs]


def main() -> None:
    """Print the table; the exit status is 0 if kcli is fast enough for each schema."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    good = True
    print("| schema | kcli us | confluent-kafka us | times as fast |\n|---|---|---|---|")
    for name in CASES:
        ours, theirs = measure(name, options.records, options.rounds)
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |")
        good &= theirs / ours >= AT_LEAST
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
