"""Decoded keys and values as columns of the data source: `.option("value.decode", "avro")`.

- `sides` has the options of keys and values, and their `Decoding`: plain data that is sent to the tasks.
- `decode_plan.plan_decodings` asks the registry on the driver, for the newest schema of the subject.
- `column_types` has the types of columns, as SQL and as Arrow; `avro_types`, `protobuf_types` and `json_schema_types`
  make them of schemas.
- `column.DecodedColumn` decodes the payloads of a task with `kcli.schemas` and builds the Arrow arrays.

**Non-obvious**

- A query has the columns of one schema, the reader's. Each record is decoded by the schema it was written with, and
  resolved to the reader's: Avro by its rules, with defaults and aliases; Protobuf by field numbers.
- A payload that does not decode is a row: null, the reason in `value_error`, its bytes in `value_raw`. Only an
  unreachable registry fails the task, which Spark repeats.
- What Spark has no type for is its JSON text: recursive types, unions of several types.
"""
