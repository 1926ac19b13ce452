"""Changes of committed offsets: plan, show, check again, save a snapshot, apply, undo.

`offset_plan.OffsetPlan` is the object to know: rows with old and new offset and a reason. It is plain data that can be
saved (`plan_files`), read again (`plan_reading`), previewed (`preview`) and applied (`apply.apply_plan`).

- `offset_plan`: targets and the pure decision, one row per partition.
- `reset`: plans for reset, copy and delete from the current state; `undo`: plans from a snapshot.
- `positions`: complete committed offsets, for exports, copies and deletions.
- `apply` also deletes groups, after it has saved their committed offsets.
- `checks`: cluster, group states, unchanged offsets, log bounds. `commits`: the requests.

**Non-obvious**

- One refused row prevents the whole plan. There is no fallback to another offset unless a policy asks for it.
- `apply_plan` writes only if every committed offset, with its epoch and metadata, is still the one of the plan.
- The snapshot is on disk (flushed, renamed) before the first commit, so that an interrupted change can be undone.
- Commits come from outside the group (generation -1), which a broker accepts only for a group without members.
- A new offset has no leader epoch, because the epoch of the record before it is unknown; a copy keeps the epoch.
- Offsets are divided into requests that fit into one batch of `__consumer_offsets`; a request that is too large is
  halved and repeated. After a lost response the committed offsets are read: they show what was written.
- `topic_ids` in a snapshot detect a recreated topic, in which old offsets mean nothing.
"""
