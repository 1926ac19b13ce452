"""Bytes that people hand in, as records to be written."""
