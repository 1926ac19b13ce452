"""Protocol: bytes <-> messages, and record batches <-> columns. Pure: no sockets, no clock, no output.

`wire` is the vocabulary of message declarations: a class per message for all its versions, with the wire type as
annotation. `compiler` makes a reader and a writer per class and version, `codec` applies them, `headers` adds request
and response headers, and `registry` finds the classes of an API in `messages/`. `primitives` has varints and bounded
spans, `scalars` the codecs of single values. `records/` has record batches. `consumer_protocol` and `offsets_topic` are
the formats of opaque bytes: subscriptions and assignments, and the records of __consumer_offsets.

Threads and ownership: functions are pure and thread-safe. Compiled codecs are cached for the process; two threads may
compile the same codec, and both results are equal. A decoded message owns its values, except `Records` fields, which
are views over the frame and keep it in memory.

**Non-obvious**

- The version belongs to the connection, not to the class: `encode(message, version)`.
- A value that a version cannot carry is an error, not dropped, unless the field is `ignorable`, as in Kafka.
- Every count and length is compared with the bytes left before anything is allocated for it.
- Arrays of structs are read by generated code (`bulk_arrays`) without error places, once there were 64 elements of the
  class; on an error the closures read the array again and report the place.
- ApiVersions responses have header v0 in every version, and error 35 is decoded as v0 (KIP-511).
- The client id stays a classic string in flexible request headers.
- `decode` ignores bytes after the message, as Kafka does; record sets may be cut off at their end.
- Client and broker share these codecs, so their agreement proves nothing about Kafka: tests compare with bytes from
  Kafka's own classes and with captures of foreign clients.
"""
