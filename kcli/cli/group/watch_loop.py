"""Looks at groups again and again until somebody has seen enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Protocol

from kcli.cli import exit_status
from kcli.cli.group.rates import Look, Watch
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.group.keys import Keys
    from kcli.cli.group.rates import TopicRow
    from kcli.cli.options import Common
    from kcli.client.consumer_network_client import ConsumerNetworkClient

# A broker that does not answer must not keep the screen, nor the key that quits, waiting for long.
_PATIENCE_MS = 5_000.0


class View(Protocol):
    """Shows one look after the other: `Lines` or `Live`."""

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None: ...


def watch(
    env: Environment, common: Common, names: Sequence[str], view: View, keys: Keys, interval_s: float, looks: int | None
) -> int:
    """Look and show, `looks` times or until `q`; the status is that of the last look.

    Groups that are not there at the first look are waited for only if another one is.
    """
    types: dict[str, str | None] = dict.fromkeys(names)
    so_far = Watch()
    failed: Mapping[str, KcliError] = {}
    with closing(common.connect()) as client:
        for number in count(1):
            began_ms = env.clock.now_ms()
            look = _look(client, types, common.timeout_ms if number == 1 else min(common.timeout_ms, _PATIENCE_MS))
            if number == 1 and not look.surveys:
                raise next(iter(look.errors.values()))
            failed = look.errors
            view.show(so_far.add(look), env.clock.wall_ms())
            if number == looks or _quits(client, keys, began_ms + interval_s * 1000 - env.clock.now_ms()):
                break
    return exit_status.status_of_all(failed.values())


def _look(client: ConsumerNetworkClient, types: dict[str, str | None], timeout_ms: float) -> Look:
    from kcli.admin.groups.survey import survey_groups

    try:
        found = survey_groups(client, types, client.clock.now_ms() + timeout_ms)
    except KcliError as error:  # nobody could be asked
        return Look({}, dict.fromkeys(types, error))
    types.update({name: survey.group.type for name, survey in found.values.items()})
    return Look(found.values, found.errors)


def _quits(client: ConsumerNetworkClient, keys: Keys, wait_ms: float) -> bool:
    """Wait for the next look; True as soon as `q` is pressed."""
    if not keys.come:
        client.sleep(max(0.0, wait_ms))
        return False
    now: Callable[[], float] = client.clock.now_ms
    until_ms = now() + wait_ms
    while True:
        if "q" in keys.wait((until_ms - now()) / 1000).lower():
            return True
        if now() >= until_ms:
            return False
