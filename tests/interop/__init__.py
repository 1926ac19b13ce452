"""kcli end to end: real Kafka, foreign clients, and brokers that misbehave."""
