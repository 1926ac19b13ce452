"""Where a streaming query is by its checkpoint: the last batch that Spark calls done, and the offsets it ended with.

Layout, as Spark 3.x and 4.x write it: `metadata` holds the query's id, `commits/N` is there when batch N is done,
`offsets/N` has a version line, a line of Spark's own, and then a line for each source.
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
_NONE = "-"  # a source that has no offset yet


class CheckpointError(KcliError):
    """What is there is not a checkpoint as it is known here."""


def local_path(location: str) -> Path | None:
    """A checkpoint's location as a local folder; None for another file system's."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else location)


def last_position(checkpoint: Path, source: int = 0) -> Position | None:
    """The position of a query with its checkpoint in a local folder; None before its first batch is done."""
    done = newest_batch(checkpoint / "commits")
    if done < 0:
        return None
    try:
        metadata = (checkpoint / "metadata").read_text()
        offsets = (checkpoint / "offsets" / str(done)).read_text()
    except OSError as error:
        raise CheckpointError(f"checkpoint {checkpoint} lacks {error.filename}") from error
    return position_of(metadata, done, offsets, source)


def position_of(metadata: str, batch: int, offsets: str, source: int = 0) -> Position | None:
    """The position from the texts of `metadata` and of `offsets/<batch>`; None if the source had no offset."""
    version, _, *sources = offsets.splitlines() if offsets.count("\n") > 1 else ["", ""]
    if version != _VERSION or source >= len(sources):
        raise CheckpointError(f"offsets/{batch} of the checkpoint has no source {source} in a form that is known here")
    if sources[source] == _NONE:
        return None
    try:
        query_id = json.loads(metadata)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError("the checkpoint's metadata does not tell the query's id") from error
    return Position(read_offsets(sources[source], f"offsets/{batch} of the checkpoint"), str(query_id), batch)


def newest_batch(folder: Path) -> int:
    """The highest number that a log of Spark's has reached, of a checkpoint or of a file sink; -1 if it has none.

    Spark keeps checksums and unfinished files beside them, with other names; `9.compact` is one of a sink.
    """
    if not folder.is_dir():
        return -1
    numbers = (entry.name.removesuffix(".compact") for entry in folder.iterdir())
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def positions_of_progress(progress: Mapping[str, object]) -> dict[int, Position]:
    """By source, the position that a progress event tells (its JSON): `{"id":..., "batchId":..., "sources":[...]}`.

    Sources whose offsets are not Kafka's are left out.
    """
    found = {}
    sources = progress.get("sources")
    for index, source in enumerate(sources if isinstance(sources, list) else []):
        end = source.get("endOffset") if isinstance(source, dict) else None
        if isinstance(end, str | dict) and end:
            try:
                offsets = read_offsets(end)
            except KcliError:
                continue
            found[index] = Position(offsets, str(progress["id"]), int(str(progress["batchId"])))
    return found
