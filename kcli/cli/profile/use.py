"""`kcli profile use`: the choice of the current profile."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument

_OTHERS = ("KCLI_PROFILE", "KCLI_BOOTSTRAP_SERVER", "KCLI_COMMAND_CONFIG")


def run(
    env: Environment, name: Annotated[str, Argument(metavar="PROFILE", help="Profile to use; none: no profile.")]
) -> int:
    """Make a profile the current one: commands without -P and KCLI_PROFILE use it.

    Its settings do not apply to a command that names another cluster, with -b, --command-config or -X
    bootstrap.servers. Only the line `current` of the file is changed; comments and permissions are kept.
    """
    from kcli.cli.profile.profile_file import NONE, choose_current, path_of, read_file

    file = read_file(path_of(env))
    if name != NONE:
        file.profile(name, "PROFILE")
    if name != NONE or file.current is not None:
        choose_current(file.path, None if name == NONE else name)
    env.report("kcli uses no profile" if name == NONE else f"kcli uses profile {name}")
    for variable in _OTHERS:
        if env.environ.get(variable):
            env.report(f"kcli: note: {variable} is set, and is used instead of the current profile")
    return exit_status.DONE
