"""The client with in-memory and real brokers."""
