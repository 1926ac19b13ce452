"""Fetched record sections into columns: all batches of a response jointly, damage reported as data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.records import batch, checks
from kcli.protocol.records.choose import choose_batches, rest_of
from kcli.protocol.records.decompression import Output
from kcli.protocol.records.gather import Results, gather
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.joint import Joint, cut_out, decode_messages, decode_payloads, merge
from kcli.protocol.records.legacy import Messages
from kcli.protocol.records.run import DecodedSection, RecordSection, Run
from kcli.protocol.records.sections import open_sections

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT_MAX_DECOMPRESSED_BYTES", "DecodedSection", "RecordSection", "decode_sections"]

DEFAULT_MAX_DECOMPRESSED_BYTES = 48 << 20
# Columns take some 60 bytes per record, and headers 100 per batch: what one call makes of a response is bounded.
MOST_RECORDS_PER_CALL = 1 << 19
MOST_BATCHES_PER_CALL = 1 << 16
_USUAL_EXPANSION = 6


def decode_sections(
    sections: Sequence[RecordSection],
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[DecodedSection]:
    """Decode the sections of one fetch response together. Bad data never raises: see `DecodedSection.error`.

    What compressed batches hold is bounded by `max_decompressed_bytes` for the whole call: a single batch of more is
    damage; what is too much together is left in `DecodedSection.rest`. So is what is beyond `MOST_RECORDS_PER_CALL`
    (but for a first batch of more) or `MOST_BATCHES_PER_CALL`.
    """
    if not sections:
        return []
    batches, runs = open_sections(sections, MOST_BATCHES_PER_CALL)
    checks.check_headers(batches, runs)
    if check_crcs:
        checks.check_crcs(batches, runs)
    wanted = choose_batches(batches, runs)
    _bound_records(batches, runs, wanted)
    in_place, moved = _divide(batches, runs, wanted)
    for pool in {run.pool: None for run in in_place}:
        members = [run for run in in_place if run.pool == pool]
        _share_out(_decode_in_place(batches, members, wanted), members)
    if moved:
        gathered = gather(batches, moved, wanted, _output(batches, wanted, max_decompressed_bytes), check_crcs)
        _share_out(_decode_gathered(batches, gathered), moved)
    return [run.result(batches, rest_of(batches, run)) for run in runs]


def _bound_records(batches: Batches, runs: list[Run], wanted: NDArray[np.bool_]) -> None:
    counts = np.where(wanted, batches.counts, 0)
    reached = np.cumsum(counts)
    if not len(reached) or reached[-1] <= MOST_RECORDS_PER_CALL:
        return
    beyond = np.flatnonzero((reached > MOST_RECORDS_PER_CALL) & (reached > counts))
    for run in runs if len(beyond) else ():
        run.interrupt(max(int(beyond[0]), run.lo))
        wanted[run.limit : run.hi] = False


def _divide(batches: Batches, runs: list[Run], wanted: NDArray[np.bool_]) -> tuple[list[Run], list[Run]]:
    """Runs that can be decoded where they lie, and those that hold compressed batches or mix old and new formats."""
    compressed = wanted & ((batches.attributes & batch.CODEC_MASK) != 0)
    old, new = wanted & (batches.magic < 2), wanted & (batches.magic == 2)
    if not (compressed.any() or old.any()):
        return runs, []
    moved = [
        compressed[run.lo : run.hi].any() or (old[run.lo : run.hi].any() and new[run.lo : run.hi].any()) for run in runs
    ]
    return (
        [run for run, moves in zip(runs, moved, strict=True) if not moves],
        [run for run, moves in zip(runs, moved, strict=True) if moves],
    )


def _decode_in_place(batches: Batches, runs: list[Run], wanted: NDArray[np.bool_]) -> Joint:
    """The records of `runs`, which are of one pool."""
    buffer = runs[0].buffer
    chosen = np.concatenate([np.flatnonzero(wanted[run.lo : run.limit]) + run.lo for run in runs])
    new = chosen[batches.magic[chosen] == 2]
    data = np.frombuffer(buffer, np.uint8)
    joint = decode_payloads(buffer, data, batches, new, batches.starts[new] + batch.HEADER_BYTES, batches.ends[new])
    if len(new) == len(chosen):
        return joint
    old = chosen[batches.magic[chosen] < 2]
    messages = Messages.plain(old, batches.starts[old], batches.ends[old], batches.base_offsets[old])
    return merge(joint, decode_messages(buffer, data, messages))


def _output(batches: Batches, wanted: NDArray[np.bool_], limit: int) -> Output:
    sizes = (batches.ends - batches.starts)[wanted]
    return Output(limit, _USUAL_EXPANSION * int(sizes.sum()))


def _decode_gathered(batches: Batches, gathered: Results) -> Joint:
    data = gathered.output.data[: gathered.output.used]
    buffer = memoryview(data)  # type: ignore[arg-type]
    joint = decode_payloads(buffer, data, batches, gathered.batches, gathered.starts, gathered.ends)
    if not len(gathered.messages.batches):
        return joint
    return merge(joint, decode_messages(buffer, data, gathered.messages))


def _share_out(joint: Joint, runs: list[Run]) -> None:
    """Give each run its records, up to the first batch that turned out to be damaged."""
    firsts = [run.lo for run in runs]
    for index, problem in joint.failures.items():
        runs[bisect_right(firsts, index) - 1].fail(index, problem)
    for run in runs:
        run.columns = cut_out(joint, run.lo, run.limit, run.section.fetch_offset)
