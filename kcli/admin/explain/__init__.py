"""Explanation of groups that are stuck or make no progress.

`observe.observe_twice` surveys each group twice, some seconds apart, and returns `Observations`: both surveys and facts
about the topics that the group reads (`ClusterFacts`). `rules.explain` applies every rule to the observations and
returns findings. A `Finding` has evidence with values, and advice. The rules are pure functions, grouped by subject:
`member_rules`, `rebalance_rules`, `offset_rules` and `log_rules`.

Threads: none. `observe_twice` sleeps between the two surveys through the client, so that a test can step the clock.

**Non-obvious**

- One survey cannot tell a slow consumer from a stopped one, hence two. The interval should be longer than the commit
  interval of the consumers (auto.commit.interval.ms, 5 seconds by default).
- A fact that could not be requested is absent and its rules find nothing. The finding `unreadable` reports the error,
  so that missing facts are not mistaken for a healthy group.
- The time between two commits (`committing_ms`) differs from the time between two end offsets (`elapsed_ms`), because a
  survey reads the committed offsets before the end offsets.
- Rules about assignments apply only while the group is stable (`Observations.is_stable`): a partition without an
  owner is normal during a rebalance.
- Kafka does not report which members of a classic group have rejoined. A member that still owns partitions of the
  previous generation, and commits them, has not.
- The `kind` of a finding is an interface for scripts. Its sentences are not.

Tests: `test_offset_rules` and `test_member_rules` test all rules,
`tests/cli/group/test_explain.py` tests the observation.
"""
