"""Bytes <-> messages, records <-> columns. Pure: no sockets, no clock, no printing."""
