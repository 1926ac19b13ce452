"""Replication between the nodes of a cluster: leaders, followers, and the in-sync replicas.

- `local_replicas.LocalReplicas`: makes the partitions of this node leaders or followers by the image.
- `isr`: the pure rules of a leader: the high watermark, which follower lags, which one may join.
- `isr_changes.IsrChanges`: changes of the in-sync replicas that leaders propose to the controller.
- `fetchers.ReplicaFetchers`: the followers of this node fetch from their leaders.

**Non-obvious**

- Between a proposal and its answer the replicas of the old and of the new ISR hold back the high watermark, because
  either may be the one by which the controller elects the next leader.
- A follower's position is the offset of its next fetch: everything below it is in its log.
- Batches are copied as they are: offsets and leader epochs are those that the leader has written.
"""
