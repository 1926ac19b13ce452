"""kcli end to end: with a real Kafka, foreign clients, and faulty brokers."""
