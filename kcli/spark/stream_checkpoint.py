"""Position of a streaming query from its checkpoint: the last completed batch and its end offsets.

Layout, as written by Spark 3.x and 4.x: `metadata` has the query's id, `commits/N` exists when batch N is completed,
`offsets/N` has a version line, a line of Spark's own, and one line for each source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kcli.errors import KcliError
from kcli.spark.group_commits import Position
from kcli.spark.offset_json import read_offsets

_VERSION = "v1"
_NONE = "-"  # a source without an offset


class CheckpointError(KcliError):
    """The checkpoint does not have the known layout."""


def local_path(location: str) -> Path | None:
    """Return the location of a checkpoint as a local path; None for other file systems."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else location)


def last_position(checkpoint: Path, source: int = 0) -> Position | None:
    """Return the position in a local checkpoint; None before the first batch is completed."""
    completed = newest_batch(checkpoint / "commits")
    if completed < 0:
        return None
    try:
        metadata = (checkpoint / "metadata").read_text()
        offsets = (checkpoint / "offsets" / str(completed)).read_text()
    except OSError as error:
        raise CheckpointError(f"checkpoint {checkpoint}: cannot read {error.filename}") from error
    return position_of(metadata, completed, offsets, source)


def position_of(metadata: str, batch: int, offsets: str, source: int = 0) -> Position | None:
    """Return the position from the texts of `metadata` and `offsets/<batch>`; None if the source has no offset."""
    version, _, *sources = offsets.splitlines() if offsets.count("\n") > 1 else ["", ""]
    if version != _VERSION or source >= len(sources):
        raise CheckpointError(f"offsets/{batch} of the checkpoint has no source {source}, or has an unknown format")
    if sources[source] == _NONE:
        return None
    try:
        query_id = json.loads(metadata)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError("the checkpoint's metadata has no query id") from error
    return Position(read_offsets(sources[source], f"offsets/{batch} of the checkpoint"), str(query_id), batch)


def newest_batch(folder: Path) -> int:
    """Return the highest number in a log of Spark's, of a checkpoint or of a file sink; -1 for none.

    The folder also has checksums and unfinished files, with other names; `9.compact` is a file of a sink.
    """
    if not folder.is_dir():
        return -1
    numbers = (entry.name.removesuffix(".compact") for entry in folder.iterdir())
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def positions_of_progress(progress: Mapping[str, object]) -> dict[int, Position]:
    """Return the positions in a progress event, by source index.

    The event is JSON: `{"id":..., "batchId":..., "sources":[...]}`. Sources with other offsets than Kafka's are
    omitted.
    """
    positions = {}
    sources = progress.get("sources")
    for index, source in enumerate(sources if isinstance(sources, list) else []):
        end = source.get("endOffset") if isinstance(source, dict) else None
        if isinstance(end, str | dict) and end:
            try:
                offsets = read_offsets(end)
            except KcliError:
                continue
            positions[index] = Position(offsets, str(progress["id"]), int(str(progress["batchId"])))
    return positions
