"""Secured clusters: real Kafka and our broker, with Kafka's tools, kcli and foreign clients."""
