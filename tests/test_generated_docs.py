"""Generated files: up to date with the commands. Manual pages: complete, and valid for troff."""

from __future__ import annotations

from pathlib import Path

from kcli.cli.docs.__main__ import generated
from kcli.cli.docs.man import page
from kcli.cli.docs.page import troff
from kcli.cli.docs.tree import CommandDoc, OptionDoc, read_tree

ROOT = Path(__file__).parent.parent
CODE = {"kcli/__init__.pyi", "kcli/client/keyword_types.py"}


def test_the_stored_pages_and_completions_are_up_to_date() -> None:
    stored = {str(path.relative_to(ROOT)) for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    elsewhere = {"kcli/cli/completion/command_table.json", *CODE}
    assert stored | elsewhere == set(generated()), "run python -m kcli.cli.docs"
    for name, text in generated().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run python -m kcli.cli.docs"


def test_every_command_has_a_page_with_every_option() -> None:
    for command in read_tree():
        text = (ROOT / "man" / f"kcli-{'-'.join(command.words)}.1").read_text()
        for option in command.options:
            assert all(rf"\fB{name.replace('-', chr(92) + '-')}\fR" in text for name in option.names)


def test_text_that_looks_like_a_troff_request_is_escaped() -> None:
    option = OptionDoc(("--null", "-Z"), "TEXT", "'quoted", repeatable=False)
    text = troff(page(CommandDoc(("x",), "Does x.", ".hidden\n\nA back\\slash.", (), (option,))))
    assert r"\&.hidden" in text
    assert r"A back\eslash." in text
    assert r"\&'quoted" in text
