"""Being a member of a group, in either of two ways, both a `Membership` to the consumer.

`coordinator` is the classic one, where members assign (`classic_*`, `leadership`, `rebalance`, `heartbeat*`);
`consumer_membership` that of KIP-848, where the broker does (`epoch_*`, `reconciliation`, `topic_names`).
"""
