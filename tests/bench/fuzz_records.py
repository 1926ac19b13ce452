"""Decoding of hundreds of thousands of mutated record batches: `python -m tests.bench.fuzz_records [count] [seed]`."""

from __future__ import annotations

import argparse
import random
import resource
import time
import warnings

from tests.protocol.records.mutations import check_hostile, hostile_sections, seeds

SECTIONS_PER_CALL = 8


def main(count: int = 200_000, seed: int = 1) -> None:
    """Decode `count` mutated batches. An unexpected exception, a warning or a broken invariant ends the run."""
    warnings.simplefilter("error")
    good = seeds(random.Random(seed))
    errors = records = 0
    slowest = (0.0, 0)
    began = time.perf_counter()
    for number in range(count // SECTIONS_PER_CALL):
        rng = random.Random(seed * 1_000_003 + number)
        sections = hostile_sections(rng, good, SECTIONS_PER_CALL)
        started = time.perf_counter()
        try:
            decoded = check_hostile(sections, check_crcs=rng.random() < 0.5)
        except BaseException:
            print(f"round {number} of seed {seed}")
            raise
        slowest = max(slowest, (time.perf_counter() - started, number))
        errors += sum(it.error is not None for it in decoded)
        records += sum(len(it.columns) for it in decoded)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} mutated batches in {seconds:.0f} s: {errors} corrupt, {records} records read; slowest call "
        f"{slowest[0] * 1e3:.0f} ms (round {slowest[1]}); peak memory {peak:.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=200_000)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    options = parser.parse_args()
    main(options.count, options.seed)
