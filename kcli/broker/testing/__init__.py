"""Brokers and clusters for tests and demos, in threads of this process or in processes of their own.

- `embedded.EmbeddedBroker`: a broker in a thread. `embedded_cluster.EmbeddedCluster`: a controller and nodes, in
  threads, too; `process_cluster.ProcessCluster`: in processes. `cluster_controls` is what both can do to their nodes.
- `cluster_directory.ClusterDirectory`: the directory of a cluster, also that of `kcli broker run --nodes`.
- `control`: hooks that answer, drop or delay requests; the requests and the refused connections of a broker.
- `memory_files`: files in memory with faults. It is here and not in the tests, because it is the second implementation
  of `files.Files`.

`kcli.broker.pytest_plugin` makes fixtures of them, and adds refused connections to the report of a failed test.

Tests: `test_refusals` tests what is refused, with clients of each wrong protocol; `test_embedded_cluster` tests the
cluster and its controls; the files in memory are used by most tests of the broker, such as
`tests/broker/test_alone.py`.
"""
