"""CRC-32C, computed by the `crc32c` package's C module; by numpy where that is not installed.

The package itself is not imported: it reads its own metadata when it is, for which it loads the parsers of e-mail, zip
and command lines. That took 240 to 310 ms of a command's start where the C module alone takes 12 to 26 ms.
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
    if spec is None or spec.loader is None:  # a release that is built otherwise
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
    except ImportError:  # Spark's executors have numpy, and need not have more
        from kcli.protocol.records import checksum_numpy

        return checksum_numpy.crc32c, checksum_numpy.crc32c_many


#: crc32c(data, crc=0): the checksum of `data`, going on from that of what came before it.
crc32c: Checksum
#: checksums(data, starts, ends): those of many ranges, which is quicker than one by one where numpy computes them.
checksums: Checksums
crc32c, checksums = _choose()
