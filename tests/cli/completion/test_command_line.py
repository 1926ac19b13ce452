"""Lines that are being typed: the command, the kind of value at the cursor, and the words of bash. Literals."""

from __future__ import annotations

import pytest

from kcli.cli.completion.command_line import COMMAND, OPTION, PAGE, Table, question, split_words

TABLE: Table = {
    "families": {"topic": "", "consume": ""},
    "short_forms": {"consume": "topic"},
    "commands": {
        "topic describe": {
            "arguments": [{"value": "topic", "many": True}],
            "options": [
                {"names": ["--bootstrap-server", "-b"], "value": ""},
                {"names": ["--by"], "value": "", "choices": ["key", "value", "time"], "list": True},
                {"names": ["--file"], "value": "file"},
                {"names": ["--long", "-l"]},
                {"names": ["--output", "-O"], "value": "", "choices": ["table", "json"]},
            ],
        },
        "consume topic": {"arguments": [{"value": "topic", "many": True}], "options": []},
        "group copy": {"arguments": [{"value": "group"}], "options": []},
        "help": {"arguments": [{"value": "page"}], "options": []},
    },
    "properties": {},
}
DESCRIBE = ["topic", "describe"]


@pytest.mark.parametrize(
    ("words", "kind", "text", "prefix"),
    [
        (["to"], COMMAND, "to", ""),
        (["topic", ""], COMMAND, "", ""),
        (["unknown", ""], "", "", ""),
        (["topic", "unknown", ""], "", "", ""),
        ([*DESCRIBE, "or"], "topic", "or", ""),
        ([*DESCRIBE, "orders", "-l", "pay"], "topic", "pay", ""),
        ([*DESCRIBE, "-"], OPTION, "-", ""),
        ([*DESCRIBE, "--lo"], OPTION, "--lo", ""),
        ([*DESCRIBE, "--output", "j"], "", "j", ""),
        ([*DESCRIBE, "-O", "-"], "", "-", ""),
        ([*DESCRIBE, "--output=j"], "", "j", "--output="),
        ([*DESCRIBE, "-Oj"], "", "j", "-O"),
        ([*DESCRIBE, "-lOj"], "", "j", "-lO"),
        ([*DESCRIBE, "-lO", ""], "", "", ""),
        ([*DESCRIBE, "--file", "a"], "file", "a", ""),
        ([*DESCRIBE, "--by", "key,v"], "", "v", "key,"),
        ([*DESCRIBE, "--", "-l"], "topic", "-l", ""),
        ([*DESCRIBE, "--unknown", ""], "topic", "", ""),
        (["consume", "or"], "topic", "or", ""),
        (["consume", "orders", "or"], "topic", "or", ""),
        (["consume", "topic", "or"], "topic", "or", ""),
        (["group", "copy", ""], "", "", ""),
        (["help", "to"], PAGE, "to", ""),
        (["help", "topic", "de"], COMMAND, "de", ""),
    ],
)
def test_the_word_at_the_cursor_has_a_kind(words: list[str], kind: str, text: str, prefix: str) -> None:
    asked = question(words, TABLE)
    assert (asked.kind, asked.text, asked.prefix) == (kind, text, prefix)


def test_values_that_a_list_has_already_are_not_offered() -> None:
    assert question([*DESCRIBE, "--by", "key,"], TABLE).choices == ["value", "time"]
    assert question([*DESCRIBE, "--output", ""], TABLE).choices == ["table", "json"]


def test_the_options_before_the_cursor_are_known_by_their_long_names() -> None:
    asked = question([*DESCRIBE, "-b", "one:1", "--bootstrap-server=two:2", "-lb", "three:3", "orders", "x"], TABLE)
    assert asked.options == {"--bootstrap-server": ["one:1", "two:2", "three:3"], "--long": [""]}
    assert asked.arguments == ["orders"]


def test_a_short_form_may_be_completed_to_the_whole_command() -> None:
    assert question(["consume", ""], TABLE).choices == ["topic"]
    assert question(["consume", "orders", ""], TABLE).choices == ()


@pytest.mark.parametrize(
    ("line", "words", "kept", "quote"),
    [
        ("kcli ", ["kcli", ""], "", ""),
        ("kcli to", ["kcli", "to"], "", ""),
        ("kcli  topic\tlist", ["kcli", "topic", "list"], "", ""),
        ("kcli a=b:c", ["kcli", "a=b:c"], "a=b:", ""),
        ("kcli a=b x", ["kcli", "a=b", "x"], "", ""),
        ("kcli a\\ b", ["kcli", "a b"], "", ""),
        ("kcli a\\=b", ["kcli", "a=b"], "", ""),
        ("kcli 'a b", ["kcli", "a b"], "", "'"),
        ("kcli x'a=b", ["kcli", "xa=b"], "x", "'"),
        ('kcli "a\\"b', ["kcli", 'a"b'], "", '"'),
        ("kcli 'a\\b", ["kcli", "a\\b"], "", "'"),
        ("kcli '' ", ["kcli", "", ""], "", ""),
        ("kcli ''", ["kcli", ""], "", ""),
    ],
)
def test_a_line_of_bash_is_split_at_its_cursor(line: str, words: list[str], kept: str, quote: str) -> None:
    assert split_words(line, "=:") == (words, kept, quote)
