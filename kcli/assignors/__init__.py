"""Kafka's assignors as pure functions, for group leaders and for forecasts.

An assignor takes topics and members (`model.Topics`, `model.Member`) and returns an `Assignment`: the partitions of
each member. There are two kinds. A `lookup.Strategy` runs in the leader of a classic group: `range`, `roundrobin`,
`sticky` (also cooperative). An assignor of the server (`lookup.SERVER_ASSIGNORS`) runs in the group coordinator of
KIP-848: `uniform`, and a range of its own. Each must return what Kafka's class returns, because a group may mix
clients.

Objects to know: `lookup` (the only place that finds an assignor by name or Java class), `model.Member` (subscription,
claim and generation), `forecast.Forecast` and `forecast.Comparison` (the next assignment, beside the current one).

No threads, no I/O, no clock: everything here is values in, values out, and deterministic.

**Non-obvious**

- `range` names two assignors. In a group whose coordinator assigns, `lookup.name_on_server` turns it into
  `server-range`.
- Kafka iterates over hash tables, so results depend on Java's hash codes. `java_hashing` reproduces that order;
  `server_order` applies it. Sorting by name instead would give each member as much, but other partitions.
- Strings sort as in Java, by UTF-16 code units (`model.java_order`), not by code points.
- A claim is valid only with the newest generation (`claims`): a member that missed a rebalance still claims partitions.
- Under the cooperative protocol one rebalance is not the result: a partition that moves is unassigned until the next
  one.
- User data of a sticky member that cannot be decoded counts as absent; it must not stop the group.
- The lookup imports every assignor, so commands import it inside `run`.

Tests: `test_properties` and `test_server` test all assignors, and `tests/interop/assignors` compares them with Kafka's
classes.
"""
