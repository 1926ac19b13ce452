"""The commands that the demo runs, in their order, each with what it is there to show. Pure."""

from __future__ import annotations

import json
from typing import NamedTuple


class Step(NamedTuple):
    """`words` follow `kcli`; `input` is piped into it by an `echo` that is shown."""

    remark: str
    words: tuple[str, ...]
    input: str | None = None

    @property
    def shown(self) -> str:
        """The command line as one would type it."""
        import shlex

        command = shlex.join(("kcli", *self.words))
        return command if self.input is None else f"echo {shlex.quote(self.input)} | {command}"


def tour(topic: str) -> list[Step]:
    order = {"order": 99_999, "event": "placed", "customer": "c007", "item": "lamp", "cents": 3900, "city": "Porto"}
    line = "c007|" + json.dumps(order, separators=(",", ":"))
    return [
        Step("Who answers here?", ("cluster", "describe")),
        Step("Which topics are there?", ("topic", "list")),
        Step("How full is this one?", ("topic", "describe", topic, "--offsets")),
        Step("The last two records of each partition.", ("consume", topic, "-o", "-2", "-e", "-f", r"%p %o %k %s\n")),
        Step(
            "What was refunded in the last half hour, from the app, as JSON?",
            _words(f"consume {topic} -o @-30m -e --grep refunded --header source=app -n 3 --output jsonl"),
        ),
        Step("One more order.", ("produce", topic, "-K", "|"), line),
        Step("And there it is.", ("consume", topic, "-o", "-1", "-e", "--grep", "99999", "-f", r"%k at %p:%o %s\n")),
        Step("Who reads this topic?", ("group", "list", "--topic", topic)),
        Step("How far is mailing, and how old is what it has not read?", ("group", "describe", "mailing")),
        Step(
            "Take part in a new group, for three records ...",
            (*_words(f"consume {topic} --group newsletter -o start -n 3 -f"), r"%p:%o %k\n"),
        ),
        Step(
            "... and again: what was printed was committed, so it goes on from there.",
            (*_words(f"consume {topic} --group newsletter -o start -n 2 -f"), r"%p:%o %k\n"),
        ),
        Step("A line for each group, for scripts; --fail-if 'lag>1000' makes it an alarm.", ("group", "lag", "--all")),
    ]


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


def to_try(address: str, topic: str) -> list[str]:
    """What a person may type next, with the broker still there."""
    return [
        f"export KCLI_BOOTSTRAP_SERVER={address}",
        f"kcli consume {topic}                                # follow it",
        f"kcli produce {topic} -K '|'                         # type key|value lines",
        f"kcli consume {topic} -o @-1h:-30m -e --output csv   # a window in time",
        "kcli group explain mailing                         # why it is behind",
        "kcli group watch mailing                           # lag and rates, live",
        f"kcat -b {address} -C -t {topic} -o beginning -e     # any Kafka client will do",
    ]
