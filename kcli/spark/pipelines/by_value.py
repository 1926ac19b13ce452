"""Pickling by value of functions for Spark's tasks (mapInArrow), for machines without kcli."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def by_value(*modules: ModuleType) -> Iterator[None]:
    """Pickle these modules whole instead of by name, while the context is entered.

    The modules must not import kcli, not even in functions. Pickling happens when the job starts: call the action in
    the context, not only the transformation.
    """
    from pyspark import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
