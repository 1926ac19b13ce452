"""Texts of strangers in sentences, on terminals and in commands to paste."""

from __future__ import annotations

import pickle
import shutil
import subprocess

import pytest

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.visible import shell_word, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nkcli: forged", r"a\nkcli: forged"),
        ("\x1b]52;c;eA==\x07", r"\x1b]52;c;eA==\x07"),
        ("\x9b2J\x85", r"\u009b2J\u0085"),
        ("pay\u200bments\ufeff\u2060\xad", r"pay\u200bments\ufeff\u2060\u00ad"),
        ("\u200e\u200f\u061c\u202e\u2066", r"\u200e\u200f\u061c\u202e\u2066"),
        ("\u3164\u115f\U000e0041", r"\u3164\u115f\U000e0041"),
        ("\u2028\u2029\udcff", r"\u2028\u2029\udcff"),
        ("größe 订单 \\n 'x'", "größe 订单 \\n 'x'"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_control_and_format_character_of_unicode_is_escaped() -> None:
    import sys
    import unicodedata

    hidden = (
        chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
    )
    assert [f"{ord(char):04x}" for char in hidden if visible(char) == char] == []


def test_a_name_in_an_error_adds_no_line_to_its_sentence() -> None:
    error = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, "no group a\nkcli: forged", group="a\nkcli: \x1b[2J")
    assert str(error) == r"GROUP_ID_NOT_FOUND: no group a\nkcli: forged (group a\nkcli: \x1b[2J)"
    assert error.evidence["group"] == "a\nkcli: \x1b[2J"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


HOSTILE_NAMES = [
    "a; touch forged",
    "$(touch forged)",
    "it's",
    "a\nb'\\n",
    "\x1b[2J1",
    "-rf",
    "größe \u200b7",
    "`x`",
    "",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_bash_reads_a_quoted_name_as_one_word(name: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    word = shell_word(name)
    assert word.isprintable()
    script = f"count() {{ printf '%s %s' $# \"$1\"; }}; count {word}"
    result = subprocess.run([bash, "-c", script], capture_output=True, check=True, timeout=20)
    assert result.stdout == f"1 {name}".encode()
