"""Foreign clients on Apache Kafka and on our broker, one module per client."""
