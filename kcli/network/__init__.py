"""Frames, channels and the selector: bytes on sockets, no Kafka requests."""
