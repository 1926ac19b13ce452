"""Functions of ours for Spark's tasks (mapInArrow), on machines that may have nothing of kcli."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def by_value(*modules: ModuleType) -> Iterator[None]:
    """While entered, what these modules define is pickled whole for tasks, not by name.

    They must not import kcli, not in functions either. What is called in the job must be pickled in here: call the
    action, not only the transformation.
    """
    from pyspark import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
