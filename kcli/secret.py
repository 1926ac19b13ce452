"""A password, key or token that is never printed. Ground: imports nothing."""

from __future__ import annotations


class Secret:
    """A text that only `reveal` returns; `str`, `repr` and formats give `[hidden]`. It compares, hashes and pickles.

    Settings of the kind `Password` have values of this type. Call `reveal` only where the text is sent, or given to
    the library that needs it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return str(self)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)
