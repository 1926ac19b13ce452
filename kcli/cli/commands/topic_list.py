"""`kcli topic list`: the topics of the cluster."""

from typing import Annotated

import typer

from kcli.cli.environment import Environment
from kcli.cli.options import Common


def run(
    env: Environment,
    common: Common,
    long: Annotated[bool, typer.Option("--long", "-l", help="Partitions, replication and id too.")] = False,
) -> int:
    """Names of the topics, sorted, one per line."""
    return 0
