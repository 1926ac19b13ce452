"""A partition's records on disk, in Kafka's own format."""
