"""The messages, proved against Kafka's own: golden bytes, its definitions, and generated values."""
