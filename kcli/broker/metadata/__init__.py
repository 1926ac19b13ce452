"""The state of a cluster as the records of its metadata log tell it: pure, without files, sockets or clock.

A `MetadataImage` is what all records together say: brokers, topics, partitions, settings. The controller has one, and
decides by it; each node has one, and serves by it. `apply` changes it by one record, and a `Changes` collects what the
records of a batch have changed, so that a node looks only at that. Values in the image (a partition's state, a broker's
registration) are immutable and replaced as a whole; the image itself is not copied, because only one thread has it.
"""
