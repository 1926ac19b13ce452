"""kcli: a Kafka command line tool and Python library that speak the wire protocol themselves.

The library's face. Each name is imported when it is first used, so that `import kcli` takes no time:

- `Consumer` reads records, alone or as a member of a group.
- `Producer` writes records.
- `Admin` looks at topics, groups, offsets and assignments, and plans and applies changes to them.
- `AsyncAdmin` is `Admin` for asyncio: coroutines instead of methods that wait.
- `TopicPartition` names a partition; `OffsetAndMetadata` is a committed offset.
- `KcliError` is the base class of every error that kcli raises on purpose (`kcli.errors`).

**Non-obvious**

- `kcli/__init__.pyi` declares the same names for type checkers. The names here are strings, so that no import circle
  leads through the package and a start of the command imports only what it uses.
- `__version__` is a literal, because `kcli --version` answers before anything else is imported.
"""

__version__ = "0.1.0"

_HOME = {
    "Admin": "kcli.admin.client",
    "AsyncAdmin": "kcli.aio.admin",
    "Consumer": "kcli.consumer.consumer",
    "Producer": "kcli.producer.producer",
    "OffsetAndMetadata": "kcli.structs",
    "TopicPartition": "kcli.structs",
    "AuthenticationError": "kcli.errors",
    "BrokerError": "kcli.errors",
    "ConfigError": "kcli.errors",
    "KcliError": "kcli.errors",
    "NotFound": "kcli.errors",
    "Refused": "kcli.errors",
    "OutcomeUnknown": "kcli.errors",
    "SerializationError": "kcli.errors",
    "TimeoutExpired": "kcli.errors",
    "TransactionFailed": "kcli.errors",
    "WakeupError": "kcli.errors",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'kcli' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
