"""`kcli profile list`, `show` and `use`, and the effect of a profile on other commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli import command_table
from kcli.cli.command_table import CHANGES, COMMANDS, changes_cluster
from kcli.cli.parser import build_tree
from kcli.protocol.messages.create_topics import CreateTopicsRequest
from kcli.protocol.registry import READING, api_name
from tests.cli.command_lines import ARGUMENTS, words_of
from tests.cli.fake import FakeEnvironment, Result, run_kcli
from tests.cli.loopback import loopback_broker

SECRET = "hunter2"
FILE = f"""
current = "dev"
[profile.dev]
bootstrap-servers = "dev:9092"
[profile.prod]
bootstrap-servers = "prod:9093"
read-only = true
colour = "red"
[profile.prod.properties]
"client.id" = "profile"
"sasl.password" = "{SECRET}"
[profile.stage]
bootstrap-servers = "stage:9093"
colour = "yellow"
"""


class Home:
    """A folder with a file of profiles; `run` runs kcli with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "kcli" / "config.toml"
        self.file.parent.mkdir()
        self.write(FILE)

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.file.chmod(0o600)

    def run(self, *argv: str, terminal: bool = False, stdin: bytes = b"", **environ: str) -> Result:
        return run_kcli(*argv, environ={"XDG_CONFIG_HOME": str(self.folder), **environ}, terminal=terminal, stdin=stdin)

    def shown(self, *argv: str, **environ: str) -> dict[str, tuple[str, str]]:
        """Return value and source of each setting of `kcli profile show`."""
        result = self.run("profile", "show", "-O", "json", *argv, **environ)
        assert result.status == 0, result.err
        return {item["setting"]: (item["value"], item["source"]) for item in result.document["items"]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_list_marks_the_current_profile(home: Home) -> None:
    assert home.run("profile", "list", "-O", "tsv").text == (
        "profile\tcurrent\tbootstrap_servers\tread_only\tcolour\terror\n"
        "dev\tyes\tdev:9092\tno\t\t\n"
        "prod\tno\tprod:9093\tyes\tred\t\n"
        "stage\tno\tstage:9093\tno\tyellow\t\n"
    )


def test_an_empty_list_names_the_file(tmp_path: Path) -> None:
    result = run_kcli("profile", "list", environ={"XDG_CONFIG_HOME": str(tmp_path)})
    assert result.status == 0
    assert f"there are no profiles in {tmp_path}/kcli/config.toml" in result.err


def test_the_file_is_in_the_configuration_folder_of_the_home(home: Home, tmp_path: Path) -> None:
    (tmp_path / ".config").symlink_to(tmp_path)
    assert "stage" in run_kcli("profile", "list", environ={"HOME": str(tmp_path)}).text
    assert run_kcli("profile", "list").err.startswith("kcli: there is no folder for profiles")


def test_use_changes_the_current_profile(home: Home) -> None:
    assert home.run("profile", "use", "stage").err == "kcli uses profile stage\n"
    assert home.shown()["bootstrap.servers"] == ("stage:9093", "profile stage")
    assert home.run("profile", "use", "none").status == 0
    assert home.shown()["bootstrap.servers"] == ("localhost:9092", "default")
    assert home.run("profile", "use", "prud").status == 2
    assert "KCLI_BOOTSTRAP_SERVER is set" in home.run("profile", "use", "dev", KCLI_BOOTSTRAP_SERVER="k:1").err


def test_each_source_overrides_the_next(home: Home, tmp_path: Path) -> None:
    """-X over options over environment over profile over file."""
    (tmp_path / "client.properties").write_text("bootstrap.servers=file:1\nclient.id=file\nclient.rack=file\n")
    given = ["-P", "prod", "--command-config", str(tmp_path / "client.properties")]
    shown = home.shown(*given)
    assert shown["client.rack"] == ("file", str(tmp_path / "client.properties"))
    assert shown["client.id"] == ("profile", "profile prod")
    assert shown["bootstrap.servers"] == ("prod:9093", "profile prod")
    variables = {"KCLI_BOOTSTRAP_SERVER": "variable:1", "KCLI_PROPERTY": "client.id=variable"}
    shown = home.shown(*given, **variables)
    assert shown["client.id"] == ("variable", "KCLI_PROPERTY")
    assert shown["bootstrap.servers"] == ("variable:1", "KCLI_BOOTSTRAP_SERVER")
    given += ["-b", "option:1"]
    assert home.shown(*given, **variables)["bootstrap.servers"] == ("option:1", "--bootstrap-server")
    given += ["-X", "bootstrap.servers=x:1"]
    assert home.shown(*given, **variables)["bootstrap.servers"] == ("x:1", "-X")


def test_the_option_overrides_the_variable_and_the_current_profile(home: Home) -> None:
    assert home.shown(KCLI_PROFILE="stage")["profile"][0] == "stage"
    assert home.shown("-P", "prod", KCLI_PROFILE="stage")["profile"][0] == "prod"
    assert home.shown("prod", KCLI_PROFILE="stage")["profile"][0] == "prod"
    assert "profile" not in home.shown("-P", "none", KCLI_PROFILE="stage")
    assert home.run("topic", "list", KCLI_PROFILE="stag").err == (
        f"kcli: KCLI_PROFILE: there is no profile 'stag' in {home.file}; did you mean stage?\n"
    )


@pytest.mark.parametrize("naming", [["-b", "other:1"], ["-X", "bootstrap.servers=other:1"]])
def test_the_current_profile_does_not_apply_to_another_cluster(home: Home, naming: list[str]) -> None:
    home.write(FILE.replace('current = "dev"', 'current = "prod"'))
    shown = home.shown(*naming)
    assert shown["bootstrap.servers"][0] == "other:1"
    assert "sasl.password" not in shown
    assert home.shown("-P", "prod", *naming)["sasl.password"] == ("[hidden]", "profile prod")
    refused = home.run("topic", "create", "t", *naming)
    assert refused.status == 4
    assert refused.err.endswith("nothing was sent; use -P none for a cluster without a profile\n")


def test_a_current_profile_that_does_not_apply_is_a_note_on_a_terminal(home: Home) -> None:
    note = "kcli: note: profile dev does not apply to this cluster; use -P dev to apply it"
    shown = ["profile", "show", "-b", "other:1"]
    assert note in home.run(*shown, terminal=True).err
    assert note not in home.run(*shown, "-P", "none", terminal=True).err
    assert note not in home.run(*shown).err


def test_a_variable_that_leads_a_profile_to_another_cluster_is_a_warning(home: Home) -> None:
    warning = "kcli: warning: KCLI_BOOTSTRAP_SERVER overrides bootstrap-servers of profile prod\n"
    assert home.run("profile", "show", "-P", "prod", KCLI_BOOTSTRAP_SERVER="other:1").err == warning
    assert home.run("profile", "show", "-P", "prod", KCLI_BOOTSTRAP_SERVER="prod:9093").err == ""
    assert home.run("profile", "show", "-P", "prod", "-b", "other:1").err == ""


def test_a_secret_is_not_shown(home: Home) -> None:
    for argv in (
        ["profile", "show", "prod"],
        ["profile", "list"],
        ["topic", "list", "-P", "prod", "-v", "--timeout", "x"],
    ):
        result = home.run(*argv)
        assert SECRET not in result.text + result.err


def test_secrets_that_others_can_read_are_a_note(home: Home) -> None:
    home.file.chmod(0o644)
    expected = f"kcli: note: other users can read the secrets in {home.file}; run: chmod 600 {home.file}\n"
    assert home.run("profile", "list").err == expected
    home.file.chmod(0o600)
    assert home.run("profile", "list").err == ""


def test_the_profiles_properties_file_is_read(home: Home) -> None:
    (home.file.parent / "c.properties").write_text("client.id=from-file\n")
    home.write('[profile.a]\ncommand-config = "c.properties"\n')
    assert home.shown("a")["client.id"] == ("from-file", str(home.file.parent / "c.properties"))


def test_a_profile_connects_a_command(home: Home) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        home.write(f'[profile.a]\nbootstrap-servers = "{broker.address}"\n')
        assert home.run("topic", "list", "-P", "a").text == "orders\n"


@pytest.mark.parametrize("path", list(CHANGES), ids=" ".join)
def test_a_read_only_profile_refuses_each_change_and_sends_nothing(home: Home, path: tuple[str, ...]) -> None:
    with loopback_broker(topics={"t": 1}) as broker:
        home.write(f'[profile.a]\nbootstrap-servers = "{broker.address}"\nread-only = true\n')
        as_member = ["--group", "g"] if path == ("consume", "topic") else []
        result = home.run(*words_of(path), *as_member, "-P", "a")
    name = " ".join(path)
    assert result.status == 4
    assert result.err == f"kcli: profile a is read-only: {name} changes the cluster; nothing was sent\n"
    assert broker.requests == []


@pytest.mark.parametrize(
    "action",
    [
        "--delete --group g",
        "--delete-offsets --group g --topic t",
        "--reset-offsets --group g --all-topics --to-earliest --execute",
    ],
)
def test_a_read_only_profile_refuses_changes_of_apaches_tool(home: Home, action: str) -> None:
    with loopback_broker(topics={"t": 1}) as broker:
        argv = ["compat", "consumer-groups", "--bootstrap-server", broker.address, *action.split()]
        result = home.run(*argv, KCLI_PROFILE="prod")
    assert result.status == 4
    assert "profile prod is read-only: compat consumer-groups changes the cluster" in result.text + result.err
    assert broker.requests == []


def test_a_read_only_profile_refuses_a_spark_query_that_commits(home: Home) -> None:
    result = home.run("spark", "gaps", "t", "--option", "commitGroup=g", "-P", "prod")
    assert result.status == 4
    assert result.err.startswith("kcli: profile prod is read-only: a query with commitGroup changes the cluster")


def test_a_read_only_profile_permits_plans(home: Home) -> None:
    assert not changes_cluster(("topic", "delete"), {"execute": False, "yes": False})
    assert not changes_cluster(("topic", "create"), {"dry_run": True})
    assert changes_cluster(("topic", "create"), {"dry_run": False})


@pytest.mark.usefixtures("without_java")
def test_a_command_that_is_not_in_changes_sends_only_requests_that_change_nothing(tmp_path: Path) -> None:
    """A command that changes the cluster belongs to `CHANGES`, or a read-only profile does not refuse it."""
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 1)
        at = ("-b", broker.address, "--timeout", "5")
        assert (
            run_kcli("offsets", "reset", "billing", "--topic", "orders", "--to-earliest", "--execute", *at).status == 0
        )
        for path in ARGUMENTS.keys() - CHANGES.keys():
            before = len(broker.requests)
            options = ("--bootstrap-server", broker.address) if path[0] == "compat" else at
            result = run_kcli(*words_of(path), *options)
            assert "internal error" not in result.err, path
            assert {request.api for request in broker.requests[before:]} <= {api_name(key) for key in READING}, path


def test_every_command_with_execute_is_known_to_change_the_cluster() -> None:
    tree = build_tree(FakeEnvironment(), lambda *_args, **_more: 1, whole=True)
    for path in COMMANDS:
        command = tree
        for word in path:
            command = command.commands[word]
        names = {parameter.name for parameter in command.params}
        if names & {"execute", "yes"} and path != ("compat", "consumer-groups"):
            assert "execute" in CHANGES[path], path
        assert set(CHANGES.get(path, ())) <= names


def test_a_command_that_is_not_marked_cannot_change_the_cluster(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_table, "CHANGES", {})
    with loopback_broker({CreateTopicsRequest: lambda _request: None}) as broker:
        home.write(f'[profile.a]\nbootstrap-servers = "{broker.address}"\nread-only = true\n')
        result = home.run("topic", "create", "t", "-P", "a")
    assert (result.status, result.err) == (
        4,
        "kcli: profile a is read-only: CreateTopics changes the cluster; it was not sent\n",
    )
    assert not any(isinstance(request, CreateTopicsRequest) for request in broker.requests)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_change_is_announced_in_the_colour_of_the_profile(home: Home, terminal: bool) -> None:
    result = home.run("topic", "create", "t", "-P", "stage", "-b", "127.0.0.1:1", "--timeout", "0.1", terminal=terminal)
    line = "kcli: profile stage: topic create changes the cluster at 127.0.0.1:1"
    assert result.err.startswith(f"\x1b[1;33m{line}\x1b[0m\n" if terminal else f"{line}\n")
    plain = home.run("topic", "list", "-P", "stage", "-b", "127.0.0.1:1", "--timeout", "0.1", terminal=terminal)
    assert "profile stage" not in plain.err


def password_home(home: Home, program: str, more: str = "") -> None:
    command = json.dumps([sys.executable, "-c", program])
    home.write(f'[profile.a]\nbootstrap-servers = "127.0.0.1:1"\npassword-command = {command}\n{more}')


def test_a_password_command_that_fails_is_an_error_without_its_output(home: Home) -> None:
    password_home(home, f"print('{SECRET}'); raise SystemExit(3)")
    result = home.run("topic", "list", "-P", "a", "-v")
    assert result.status == 2
    assert result.err == f"kcli: profile a: password-command: '{sys.executable}' failed with status 3\n"


def test_a_password_command_must_exist_and_print(home: Home) -> None:
    password_home(home, "pass")
    assert "printed nothing; it must print the password" in home.run("topic", "list", "-P", "a").err
    home.write('[profile.a]\npassword-command = ["/nowhere/pass"]')
    assert home.run("topic", "list", "-P", "a").err == (
        "kcli: profile a: password-command: cannot run '/nowhere/pass': No such file or directory\n"
    )


def test_the_password_command_is_shown_and_not_run(home: Home, tmp_path: Path) -> None:
    password_home(home, f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "password-command" in home.shown("a")
    assert not (tmp_path / "ran").exists()
