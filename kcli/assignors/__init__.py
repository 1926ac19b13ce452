"""Who in a group reads which partitions: Kafka's assignors as pure functions, for leaders and for forecasts."""
