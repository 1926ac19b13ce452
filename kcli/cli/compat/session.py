"""What every action of the group tool needs: where to print, what was given, whom to ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.compat.problems import failure

if TYPE_CHECKING:
    from kcli.cli.compat.words import Given
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError


class Session(NamedTuple):
    """One run of the tool against a cluster."""

    env: Environment
    given: Given
    client: ConsumerNetworkClient
    deadline_ms: float

    def print(self, text: str) -> None:
        """Lines on standard output, as they are."""
        self.env.stdout.write(text)

    def print_error(self, message: str) -> None:
        """The tool's way to say that something went wrong: on standard output, behind an empty line."""
        self.print(f"\nError: {message}\n")

    def groups(self) -> list[str]:
        """The groups of --group, or of --all-groups; each once."""
        if "all-groups" in self.given:
            from kcli.cli.compat.listing import consumer_groups

            return [group.group for group in consumer_groups(self)]
        return list(dict.fromkeys(self.given.values("group")))


def raise_first(errors: Iterable[KcliError], *, wrapped: bool = False) -> None:
    """The tool gives up at the first error."""
    for error in errors:
        raise failure(error, wrapped=wrapped)
