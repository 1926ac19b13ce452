"""`kcli group wait`: what is waited for, and what each look at the group means for that. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kcli.cli.group.facts import shown_facts
from kcli.conditions import Condition, Facts, parse_condition
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError

WORDS = {"empty": "state=Empty", "stable": "state=Stable"}


def parse_until(text: str) -> Condition:
    """`empty`, `stable`, or any condition such as `lag<=100`."""
    try:
        return parse_condition(WORDS.get(text.strip().lower(), text))
    except ConfigError as error:
        raise ConfigError(f"--until takes empty, stable, or a condition such as lag<=0; {error}") from None


class Step(NamedTuple):
    """After one look: is the wait over, and in a few words how the group is now."""

    done: bool
    now: str


class Waiting:
    """A wait for a condition, look by look.

    A group that is not there may come yet, and is waited for, unless it is to become empty: then there never was such a
    group (GROUP_ID_NOT_FOUND is raised), or it was seen before and has gone, which is as empty as can be.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._to_be_empty = condition.text == WORDS["empty"]
        self._seen = False

    def saw(self, facts: Facts) -> Step:
        """The group was there."""
        self._seen = True
        verdict = self._condition.judge(facts)
        return Step(verdict is True, shown_facts(facts, self._condition))

    def failed(self, error: KcliError) -> Step:
        """The look failed: raised again when another one could not help."""
        if not isinstance(error, BrokerError) or error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            if error.retriable:
                return Step(False, str(error))
            raise error
        if self._to_be_empty and not self._seen:
            raise error
        return Step(self._to_be_empty, "there is no such group")
