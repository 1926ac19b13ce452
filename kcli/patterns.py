"""Regular expressions of clients, in the syntax of RE2 (https://github.com/google/re2), matched in linear time.

KIP-848 lets the broker resolve them over the names of topics, KIP-1152 over transactional ids. Python's `re` has
another syntax, and an expression such as `(a+)+b` can occupy it for hours, together with the only thread of a broker,
or with a command that looks at a group whose member has subscribed to it. Ground: imports nothing of kcli.

The library is google-re2, in the extra `regex`; nothing else in kcli imports it. Apache Kafka uses RE2/J: the syntax is
the same but for details (`\\C`, a name given to two groups), and the wording of errors differs.
"""

from __future__ import annotations

from typing import Any


class InvalidRegex(ValueError):
    """The expression is not valid, or cannot be used here; the text says why."""


class LibraryMissing(InvalidRegex):
    """google-re2 is not installed; the text says what to install."""


class Regex:
    """A compiled expression."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"<Regex {self._compiled.pattern}>"

    def matches(self, text: str) -> bool:
        """Return whether the expression matches the whole text."""
        return self._compiled.fullmatch(text) is not None

    def matches_part(self, text: str) -> bool:
        """Return whether the expression matches a part of the text."""
        return self._compiled.search(text) is not None


def compile_regex(pattern: str) -> Regex:
    """Compile an expression. InvalidRegex if it is not valid or too large; LibraryMissing without google-re2."""
    try:
        import re2
    except ImportError:
        raise LibraryMissing(
            "regular expressions of clients need the package google-re2: pip install 'kcli-kafka[regex]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return Regex(re2.compile(pattern, options))
    except re2.error as error:
        text = error.args[0] if error.args else ""
        raise InvalidRegex(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from None
    except UnicodeError:
        raise InvalidRegex("it has characters that are not valid Unicode") from None
