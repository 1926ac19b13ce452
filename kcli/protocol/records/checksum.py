"""CRC-32C, computed by the C module of the `crc32c` package, or by numpy where that is not installed.

The package itself is not imported, because it reads its own metadata and for that loads parsers of e-mail, zip files
and command lines: 240 to 310 ms at the start of a command, where the C module alone takes 12 to 26 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TypeAlias

Checksum: TypeAlias = Callable[..., int]
Checksums: TypeAlias = Callable[[memoryview, Sequence[int], Sequence[int]], list[int]]


def _load() -> Checksum:
    package = find_spec("crc32c")
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations if package else None)
    if spec is None or spec.loader is None:  # a release with another layout
        from crc32c import crc32c as whole

        return whole
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.crc32c  # type: ignore[no-any-return]


def _one_by_one(data: memoryview, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    return [crc32c(data[start:end]) for start, end in zip(starts, ends, strict=True)]


def _choose() -> tuple[Checksum, Checksums]:
    try:
        return _load(), _one_by_one
    except ImportError:  # Spark's executors have numpy, but not necessarily crc32c
        from kcli.protocol.records import checksum_numpy

        return checksum_numpy.crc32c, checksum_numpy.crc32c_many


#: crc32c(data, crc=0): the checksum of `data`, continued from `crc`, the checksum of the bytes before it.
crc32c: Checksum
#: checksums(data, starts, ends): the checksums of many ranges; by numpy faster than one by one.
checksums: Checksums
crc32c, checksums = _choose()
