"""The protocol, tested against Kafka: golden bytes, its message definitions, captures, and generated values."""
