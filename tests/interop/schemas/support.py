"""A client of ours for a registry of the tests, and a comparison of decoded values that is exact in types."""

from __future__ import annotations

import math
from typing import Any

from kcli.schemas.registry_client import RegistrySettings, SchemaRegistry


def our_registry(url: str, **settings: str) -> SchemaRegistry:
    """Return a client of ours without a cache on disk."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SchemaRegistry(RegistrySettings.from_properties({"schema.registry.url": url, **named}))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same types; NaN equals NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and one == other
