"""Decoders and encoders of keys and values: JSON, numbers, Avro, Protobuf, JSON Schema, and the schema registry.

A program uses the names of this package: `SchemaSerializer` and `SchemaDeserializer` for the keys and values of a
`Producer` and a `Consumer`, and `SchemaRegistry`, which they ask. Each is imported when it is first used.

`serdes` has the interface of the command line and of Spark: a `Decoder` makes Python values of payloads, an `Encoder`
makes payloads of JSON-like values.
`registry_client` asks a schema registry. `json_values` makes JSON of decoded values.

The package knows neither connections to Kafka nor the command line: bytes in, values out. Its libraries come with the
extra `schema` and are imported when a decoder is made; Avro needs none.

**Non-obvious**

- Avro has readers and writers of its own (`avro_compile`, `avro_write`), not fastavro's. fastavro has no bound for
  items without bytes, reads recursive types with C recursion, so that a few bytes can crash the process, and loses
  digits and times outside datetime's years. Its writer neither takes JSON-like values nor names the place of an error.
- The compiled readers are also faster where records are read (medians of five alternating runs, 28 November 2026, kcli
  and fastavro 1.13 in microseconds per value: a flat record 1.1 and 2.3, logical types 3.7 and 5.8, nested records 12
  and 28, resolved to another schema 1.2 and 5.0), slower for long arrays of numbers (52 and 20 for 100 longs). The
  writer takes 1.5 to 3 times as long as fastavro's (7 and 3 for the flat record).
- fastavro is in the tests: random bytes must give what it reads, or an error.

Tests: `test_serializers` tests the names of this package; `test_avro`, `test_protobuf` and `test_json_schema` test a
format each, from the schema to the bytes; `test_hostile_registries` the client of the registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry as SchemaRegistry
    from kcli.schemas.serializers import SchemaDeserializer as SchemaDeserializer
    from kcli.schemas.serializers import SchemaSerializer as SchemaSerializer

_HOME = {
    "SchemaDeserializer": "kcli.schemas.serializers",
    "SchemaRegistry": "kcli.schemas.registry_client",
    "SchemaSerializer": "kcli.schemas.serializers",
}
__all__ = ["SchemaDeserializer", "SchemaRegistry", "SchemaSerializer"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'kcli.schemas' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
