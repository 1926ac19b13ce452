"""`kcli produce`: records from lines, delimited bytes or JSON.

`produce` is the command, with its `options`, and reports; `records` makes records of delimited bytes and JSON lines,
whose keys and values `encoding` encodes with -s; `feed` reads the input in chunks, splits it, and passes the records to
a `Producer`, whose outcomes it counts in a `WriteTally`.

**Non-obvious**

- The producer has no thread, so `feed` flushes whenever the input pauses; otherwise records would wait in the buffer.
- Memory is bounded: input is read in chunks, and a segment longer than max.request.size is counted and dropped.
- A record that fails does not end the command: failures are counted by kind and reported at the end, with status 1.
- The defaults of the producer's settings are for bulk (`BULK`), except those that the user sets.
"""
