"""kcli: a Kafka command line tool that speaks the wire protocol itself."""

__version__ = "0.1.0"
