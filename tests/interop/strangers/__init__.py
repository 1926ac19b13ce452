"""Foreign clients against a broker: written on Apache Kafka, run on ours as well. One module per client."""
