"""`kcli profile show`: the settings of a profile and of the command line, and the source of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.cli.profile.profile_file import Profile

COLUMNS = ["setting", "value", "source"]


def run(
    env: Environment,
    common: Common,
    name: Annotated[str | None, Argument(metavar="[PROFILE]", help="Profile to show; default: the one in use.")] = None,
) -> int:
    """Show the settings that a command would use, and the source of each: a file, the profile, a variable, an option.

    Secrets, unknown properties and values that are not valid are shown as [hidden]; the password command is shown and
    not run. Of several sources the strongest is shown: -X, options, environment, profile, file, default.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.client.config import is_property_name, may_be_shown
    from kcli.secret import Secret

    if name is not None:
        common = common.with_profile(name)
    profile, applied = common.profile
    items: list[Item] = [] if profile is None else _own_settings(profile)
    if profile is not None and applied is None:
        env.report(f"kcli: note: the properties of profile {profile.name} do not apply: another cluster is named")
    items += [
        {
            "setting": key,
            "value": value if may_be_shown(key, value) else str(Secret(value)),
            "source": common.sources[key],
        }
        for key, value in sorted(common.given.items())
        if is_property_name(key, value)
    ]
    print_report(env, Report("profile.show", COLUMNS, items), common.output)
    return exit_status.DONE


def _own_settings(profile: Profile) -> list[Item]:
    """Return the settings of the profile that are not Kafka's."""
    source = f"profile {profile.name}"
    settings = {
        "profile": profile.name,
        "command-config": profile.command_config,
        "password-command": " ".join(profile.password_command) or None,
        "password-property": profile.password_property,
        "read-only": "true" if profile.read_only else None,
        "colour": profile.colour,
    }
    return [
        {"setting": name, "value": value, "source": source} for name, value in settings.items() if value is not None
    ]
