"""Methods of joining the values of a fetch response into one buffer of lines, for `kcli.cli.consume.text_columns`.

    python -m tests.bench.join_values [--records 40000] [--least 90] [--most 110]

It prints records per second of CPU for each method, the best of several runs; all must give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from kcli.cli.consume.text_columns import Literal, Spans, join_columns

Join = Callable[[bytes, "np.ndarray", "np.ndarray"], bytes | memoryview]


def slices(buffer: bytes, starts: np.ndarray, lengths: np.ndarray) -> bytes:
    ends = (starts + lengths).tolist()
    return b"\n".join([*(buffer[a:b] for a, b in zip(starts.tolist(), ends, strict=True)), b""])


def mapped_slices(buffer: bytes, starts: np.ndarray, lengths: np.ndarray) -> bytes:
    spans = map(slice, starts.tolist(), (starts + lengths).tolist())
    return b"\n".join([*map(buffer.__getitem__, spans), b""])


def slices_with_delimiter_in_place(buffer: bytes, starts: np.ndarray, lengths: np.ndarray) -> bytes:
    copy = np.frombuffer(buffer, np.uint8).copy()
    copy[starts + lengths] = 10
    ends = (starts + lengths + 1).tolist()
    data = copy.tobytes()
    return b"".join([data[a:b] for a, b in zip(starts.tolist(), ends, strict=True)])


def mask(buffer: bytes, starts: np.ndarray, lengths: np.ndarray) -> memoryview:
    copy = np.frombuffer(buffer, np.uint8).copy()
    ends = starts + lengths
    copy[ends] = 10
    steps = np.zeros(len(copy) + 1, np.int8)
    steps[starts] = 1
    steps[ends + 1] -= 1
    return copy[np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)].data


def moves_of_elements(buffer: bytes, starts: np.ndarray, lengths: np.ndarray) -> memoryview:
    return join_columns([Spans(buffer, starts, lengths), Literal(b"\n")], len(starts)).data


WAYS: tuple[Join, ...] = (slices, mapped_slices, slices_with_delimiter_in_place, mask, moves_of_elements)


def response(records: int, least: int, most: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return a buffer like a fetch response: values with 9 to 11 bytes between them, and some batch headers."""
    random = np.random.default_rng(1)
    lengths = random.integers(least, most + 1, records)
    gaps = random.integers(9, 12, records)
    gaps[::140] += 61
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    return random.bytes(int(starts[-1] + lengths[-1] + 1)), starts, lengths


def best_seconds(way: Join, *given: object, runs: int = 20) -> float:
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        way(*given)  # type: ignore[arg-type]
        best = min(best, time.process_time() - begun)
    return best


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.join_values")
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--least", type=int, default=90)
    parser.add_argument("--most", type=int, default=110)
    options = parser.parse_args(arguments)
    given = response(options.records, options.least, options.most)
    expected = slices(*given)
    for way in WAYS:
        assert bytes(way(*given)) == expected, way
        print(f"{way.__name__:32}{options.records / best_seconds(way, *given) / 1e6:6.1f} million records/s")


if __name__ == "__main__":
    main(sys.argv[1:])
