"""Kafka in Apache Spark through PySpark, without a connector jar."""
