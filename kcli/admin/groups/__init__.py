"""Groups of all types (classic, consumer, share, streams): observation and removal. Nothing here joins or commits.

`group.Group` is the one shape of a described group, `lag.PartitionLag` the row of a partition, and `survey.GroupSurvey`
both together at one moment.

- `listing`: lists by broker, and the selection by name, pattern, state, type or topic.
- `describe`, `committed_offsets`, `lag`, `survey`: descriptions, offsets, and lag.
- `group_conditions`: conditions such as `lag>1000 or age>10m`, alarms, and waits.
- `rates`: consumption and production rates from successive surveys.
- `removal`: plans to delete groups and remove members, and their execution.

**Non-obvious**

- Committed offsets are read before end offsets. The lag is then too large by the records written in between, but never
  negative for a group that keeps up.
- No API returns the type of a single group. `describe` tries the APIs of the types in an order in which a wrong
  type always gives a clear error; a caller that knows the type saves these requests.
- Until a classic group has finished a rebalance, its members have no subscription, and `owned` is the old assignment.
- Partitions without a committed offset are in no sum; `LagTotals.unknown` counts them. For a wait they make the lag
  unknown, because a group that has not begun has not caught up.
- A share group has no committed offsets. Its start offset takes their place, and its broker counts the lag.
- Delete and leave requests may be repeated after a lost response, so "not found" in a repeated request is success.

Tests: `test_survey` tests the requests of a listing, `tests/cli/group/test_watch.py` the rates.
"""
