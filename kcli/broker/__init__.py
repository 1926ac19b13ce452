"""The embedded broker: one process, one loop, a real log on disk. For laptops, demos and tests, not for production.

It is alone, or a node of a cluster with a controller.

A request goes from the `Selector` (kcli.network) through `serving.server.SocketServer` to the handler of its API in
`handlers/`. The handler uses the parts of `broker.Broker` and returns the response, None for no answer, or a
`Pending` that completes later.

- `broker.Broker`: all parts and the loop. `serving`: how it serves. `testing`: brokers and clusters for tests.
- `cluster`: the one truth: metadata log, image, decisions, and `cluster.view.ClusterView`, which handlers read.
- `alone.Alone`: the cluster of a broker without a controller. It decides, writes the records to its own metadata log,
  and applies them. `adoption` brings log and directories together at the start; `earlier_files` converts those of
  earlier versions.
- `node`: a node's life at its controller. `replication`: leaders and followers. `controller`: the controller of a
  cluster, a process of its own, or in that of a broker: `combined`.
- `replica_manager.ReplicaManager`: the partitions of this broker; appends, fetches, and the requests that wait for
  either: a `DelayedFetch` or `DelayedProduce` in a `Purgatory`, completed by an event or by the `Timer`.
- `log_manager.LogManager`: the data directory and a `log.Log` per partition. All disk access goes through `files`.
- `group.group_coordinator.GroupCoordinator` and `group.offset_store.OffsetStore`: classic groups and committed offsets.
- `transaction.transaction_coordinator.TransactionCoordinator`: transactional ids, from the start of a transaction to
  the markers that end it.
- `security`: listeners with TLS and SASL, users, delegation tokens, and the authorizer that every handler asks.

**Threads and ownership**: one thread, which calls `Broker.poll` or `run`, owns everything; there are no locks. From
other threads only `Broker.wakeup` and `Broker.call` are allowed. Time is passed in: `now_ms` is the steady clock,
`now_wall_ms` the wall clock.

**Non-obvious**

- The broker never imports `kcli.client`: a client bug could otherwise hide inside the broker that tests it.
- Most requests of idle consumers are never decoded: see `serving.idle_fetch`. A hook of `testing.control` on any API
  turns that off.
- A connection has one request at a time. While its answer is pending the connection is muted, so the order of answers
  needs no queue, and a client that pipelines waits in its socket buffer.
- The loop is the only thread: work that may take long pauses between its batches or partitions
  (`serving.long_work`), so that other clients are served.
- The port is bound before the data directory is opened, but it listens only after all logs are loaded: a client never
  sees a broker that is still recovering.
- An OSError of the disk takes the whole directory offline (`LogManager.failed`). Waiting requests are completed with
  KAFKA_STORAGE_ERROR, then `Broker.run` raises `BrokerFailed`: serving from a disk in an unknown state loses data.
  Where nothing acknowledged is at risk (no free descriptors; no space for a change of topics or settings, or for a
  checkpoint) the request is refused as a whole, and the broker goes on.
- Error or row: an error of one partition or topic is in its row of the response. A handler raises `BrokerError` only if
  the whole request fails, and `CloseConnection` if the protocol has no answer for it.
- Group modules and handlers are imported at their first use, because start-up time is a feature.
- The replicas of a node are made leaders and followers by the metadata image (`replication.local_replicas`). A broker
  alone has no followers: it leads all partitions, and the high watermark follows each append.
- `metrics` has what Kafka's MBeans count. The parts count in plain attributes; nothing is added up until somebody asks.
"""
