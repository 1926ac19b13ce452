"""`kcli completion`: the script that completes kcli's command lines in a shell."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument


def run(
    env: Environment,
    shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Print the script that completes the command lines of kcli in a shell.

    It completes commands, options and their values, files, the names of profiles and properties, and the names of the
    cluster that the line means (-P, -b, --command-config, -X): topics, groups, members. Load it in the start file of
    the shell:

    \b
    bash, in ~/.bashrc:                    source <(kcli completion bash)
    zsh, in ~/.zshrc:                      source <(kcli completion zsh)
    fish, in ~/.config/fish/config.fish:   kcli completion fish | source

    A package of kcli may have installed the script in share/, where shells find it without this.

    The names of a cluster are kept for ten seconds in $XDG_CACHE_HOME/kcli/completion, by default
    ~/.cache/kcli/completion, readable for the user only. A cluster that does not answer delays a TAB by less than 0.2
    seconds. Nothing asks for a password: with -X sasl.password=prompt, and with a profile that has a password-command,
    the names of the cluster are not completed.
    """
    from kcli.cli.completion.scripts import SCRIPTS
    from kcli.cli.options import check_choice

    check_choice("SHELL", shell, SCRIPTS)
    env.stdout.write(SCRIPTS[shell])
    return exit_status.DONE
