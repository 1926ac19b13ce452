"""Requests, futures, metadata, back-off and routing over the network."""
