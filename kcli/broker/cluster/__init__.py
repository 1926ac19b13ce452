"""The one truth of a cluster: the records of its metadata log, and the image that they make (KIP-631).

- `image.MetadataImage`: what all records together say: brokers, topics, partitions, settings, ACLs, users, quotas.
  `apply` changes it by one record, and a `Changes` collects what the records of a batch have changed. Pure.
- `view.ClusterView`: the topics, brokers and settings of an image as handlers read them.
- `journal.Journal`: the log on the disk, with everything applied that is in it. `metadata_log.MetadataLog`: its files,
  which Apache Kafka reads and continues. `snapshot_records`: the records of a snapshot.
- `decide`: the decisions that change a cluster: a draft in, records and a response out.
- `dynamic_config`, `topic_configs`, `group_configs`, `client_metrics_configs`: the settings that can be changed at run
  time; `config_entries` describes them; `topic_rules`: names and counts of topics. `features`: levels of features.

A controller and a broker alone have a journal, decide, and apply their own records. A node reads them from its
controller. All three read the same image.

**Non-obvious**

- Values in the image (a partition's state, a broker's registration) are immutable and replaced as a whole; the image
  itself is not copied, because only one thread has it.
- `limits` is the one list of what the broker lacks. `features` are what the brokers of kcli support; a broker alone
  deliberately lacks some: `FEATURES_OF_SINGLE`.

Tests: `test_view` tests what is read; the journal and its snapshots are in `tests/broker/test_alone.py` and
`tests/broker/controller`.
"""
