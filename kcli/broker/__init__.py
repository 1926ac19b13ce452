"""The embedded broker: one process, one loop, a real log on disk. For laptops, demos and tests; not for production."""
