"""Administration of a cluster: topics, configuration, groups, committed offsets, forecasts of assignments.

`client.Admin` is the public face. Its methods call the functions of these modules, and so do the commands of
`kcli.cli`; everything that a command decides is here. The functions take a `ConsumerNetworkClient` and a `deadline_ms`
of its clock.

- `plan`: plans of changes of any resources, and their outcome.
- `topics`, `cluster`, `configs`: topics, brokers, API versions, settings. `topic_changes`: plans that change topics.
- `logs`: facts about logs: start and end offsets, record times, sizes, open transactions.
- `groups`: lists, descriptions, committed offsets, lag, conditions, rates, removal.
- `offsets`: plans that change committed offsets, their application, snapshots, and files.
- `explain`: findings about groups that make no progress.
- `snapshots`: the values that a change replaces, on disk, for its undo.
- `health`: findings about the cluster.
- `assignments`: a live group as an assignor sees it.

There is no thread. All requests go through the one client that the caller passes, in the thread of the caller.

**Non-obvious**

- Admin never imports consumer: looking at a group must never be able to join it.
- The error of one topic, group or partition is a value in `Results.errors` or in its row; an exception means that the
  call as a whole failed. A sum over partitions must not hide a failed one.
- A function with several requests in sequence gives each of them half of the remaining time (`half_deadline`), so that
  a broker that is down does not use up the time of the others.
- Mutations are plans: plan, show, check again, save a snapshot, apply, undo. Plans are data and pure decisions; only
  `topics`, `groups.removal`, `offsets.commits` and `offsets.apply` send requests that change something.
- Protocol messages are imported in the function that sends them, because compiling all of them slows start-up.
"""
