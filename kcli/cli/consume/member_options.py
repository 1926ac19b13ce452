"""What `consume topic --group` accepts, and what it makes of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcli.errors import ConfigError

_RESETS = {
    "start": "earliest",
    "beginning": "earliest",
    "earliest": "earliest",
    "end": "latest",
    "latest": "latest",
}


class MemberOptions(NamedTuple):
    """The options of `consume topic` that are about groups, as given."""

    group: str | None = None
    no_commit: bool = False
    assignor: str | None = None
    instance_id: str | None = None
    protocol: str | None = None


def refuse_without_group(options: MemberOptions) -> None:
    """ConfigError if there is no group, but options that need one."""
    given = {
        "--no-commit": options.no_commit,
        "--assignor": options.assignor is not None,
        "--instance-id": options.instance_id is not None,
        "--protocol": options.protocol is not None,
    }
    for option, is_given in given.items():
        if is_given and options.group is None:
            raise ConfigError(f"{option} is for members of a group: it needs --group")


def check_topics(wanted: Mapping[str, list[int] | None], partitions: Sequence[str]) -> list[str]:
    """The topics to subscribe to; ConfigError if single partitions were asked for."""
    chosen = ["-p"] * bool(partitions) or [f"{name}:..." for name, numbers in wanted.items() if numbers is not None]
    if chosen:
        raise ConfigError(f"{chosen[0]} does not go with --group: the group decides who reads which partitions")
    return list(wanted)


def member_properties(options: MemberOptions, offsets: Sequence[str]) -> dict[str, str]:
    """Kafka properties for the options; ConfigError for what does not go together."""
    if not options.group:
        raise ConfigError("--group needs the name of a group")
    own = {"group.id": options.group, "enable.auto.commit": "false"}
    if options.instance_id == "":
        raise ConfigError("--instance-id needs an id: '' is none, and the member would not be static")
    if options.instance_id is not None:
        own["group.instance.id"] = options.instance_id
    if options.protocol is not None:
        own["group.protocol"] = options.protocol
    if offsets:
        own["auto.offset.reset"] = _reset(offsets)
    return own


def assignor_property(assignor: str, protocol: str) -> dict[str, str]:
    """The property that `--assignor` is under a group protocol. A classic one that is not known: ConfigError."""
    if protocol == "consumer":
        return {"group.remote.assignor": assignor}
    from kcli.assignors.strategies import find_strategy

    return {"partition.assignment.strategy": find_strategy(assignor).name}


def _reset(offsets: Sequence[str]) -> str:
    reset = _RESETS.get(offsets[0].strip().lower())
    if reset is None or len(offsets) > 1:
        raise ConfigError(
            f"-o {' -o '.join(offsets)} does not go with --group: a member goes on at its group's committed offsets, "
            "and -o start or -o end says where to begin where there is none"
        )
    return reset
