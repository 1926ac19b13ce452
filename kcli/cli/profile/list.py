"""`kcli profile list`: the profiles of the file."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import OUTPUTS, check_choice
from kcli.cli.parser import Option

COLUMNS = ["profile", "current", "bootstrap_servers", "read_only", "colour"]


def run(
    env: Environment,
    output: Annotated[
        str | None,
        Option("--output", "-O", metavar="|".join(OUTPUTS), help="Set the output format. [KCLI_OUTPUT; table]"),
    ] = None,
) -> int:
    """List the profiles in $XDG_CONFIG_HOME/kcli/config.toml, by default ~/.config/kcli/config.toml.

    A profile is a table of that file; all keys are optional:

    \b
    current = "staging"               # used without -P and KCLI_PROFILE

    \b
    [profile.prod]
    bootstrap-servers = "kafka-1.example:9093,kafka-2.example:9093"
    command-config = "prod.properties"            # relative to this file
    password-command = ["pass", "show", "kafka/prod"]
    password-property = "sasl.password"           # the property it sets
    read-only = true                  # refuse what changes the cluster
    colour = "red"                    # report changes in this colour

    \b
    [profile.prod.properties]
    "security.protocol" = "SASL_SSL"

    `password-command` runs a program, without a shell; its first line of output is the password. Without
    `password-property` it is the password of the mechanism: sasl.password, with OAUTHBEARER the client secret, without
    SASL ssl.keystore.password. Colours are red, green, yellow, blue, magenta and cyan.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.profile.profile_file import path_of, read_file, report_exposure

    form = output if output is not None else env.environ.get("KCLI_OUTPUT") or None
    if form is not None:
        check_choice("KCLI_OUTPUT" if output is None else "--output", form, OUTPUTS)
    file = read_file(path_of(env))
    report_exposure(env, file)
    items = [
        {
            "profile": profile.name,
            "current": profile.name == file.current,
            "bootstrap_servers": profile.bootstrap_servers,
            "read_only": profile.read_only,
            "colour": profile.colour,
        }
        for profile in sorted(file.profiles.values())
    ]
    print_report(env, Report("profile.list", COLUMNS, items), form)
    if not items:
        env.report(f"there are no profiles in {file.path}; see kcli profile list --help")
    return exit_status.DONE
