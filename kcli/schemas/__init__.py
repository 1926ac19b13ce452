"""Decoders and encoders of keys and values: JSON, numbers, Avro, Protobuf, JSON Schema, and the schema registry.

`serdes` has the interface: a `Decoder` makes Python values of payloads, an `Encoder` makes payloads of
JSON-like values.
`registry_client` asks a schema registry. `json_values` makes JSON of decoded values.

Avro needs no library: its readers are compiled, see `avro_compile`; fastavro resolves values to a reader's schema.
The package knows neither connections to Kafka nor the command line: bytes in, values out. Its libraries come with the
extra `schema` and are imported when a decoder is made.
"""
