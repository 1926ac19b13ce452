"""Conditions on a group, such as `lag>1000 or age>10m`: parsed once, judged for each group. Pure.

    condition  = one or more comparisons joined by `and`, `or`, `not` and parentheses; `and` binds before `or`
    comparison = lag, members or uncommitted  > >= < <= = !=  a whole number
               | age                          > >= < <=       a length of time: 90s, 10m, 1h30m, 2d
               | state                        = !=            a state's name, in any case

What is not known makes a comparison neither true nor false, unless what is known settles it: a lag of at least 5000 is
above 1000 though one partition did not answer. `and`, `or` and `not` carry this on as Kleene's logic does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.text import duration_ms


class Amount(NamedTuple):
    """A number that is known, or (not `exact`) of which only a part is known: it is that or more."""

    least: float
    exact: bool = True


Facts = Mapping[str, "Amount | str | None"]  # by name; None or absent: not known
Verdict = bool | None  # None: cannot be told
Judge = Callable[[Facts], Verdict]

NUMBERS = ("lag", "members", "uncommitted")
DURATIONS = ("age",)
WORDS = ("state",)
NAMES = (*NUMBERS, *DURATIONS, *WORDS)

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_TOKEN = re.compile(r"\s*(>=|<=|!=|==|[<>=()]|[\w.+-]+)")
_JOINING = ("and", "or", "not", "(", ")")


class Condition:
    """A condition that can be judged. `names` are the facts it asks for."""

    def __init__(self, text: str, names: frozenset[str], judge: Judge) -> None:
        self.text = text
        self.names = names
        self._judge = judge

    def __repr__(self) -> str:
        return f"<Condition {self.text}>"

    def judge(self, facts: Facts) -> Verdict:
        """Is it so? None when the facts do not tell."""
        return self._judge(facts)


def parse_condition(text: str) -> Condition:
    """The condition that a person wrote. ConfigError says what is wrong with it."""
    parser = _Parser(text)
    judge = parser.alternatives()
    if parser.rest:
        raise parser.wrong(f"'{parser.rest[0]}' is out of place")
    return Condition(text, frozenset(parser.names), judge)


class _Parser:
    """Recursive descent, one method for each level of binding; takes its tokens off `rest`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.rest = self._tokens()

    def wrong(self, why: str) -> ConfigError:
        return ConfigError(f"'{self.text}' is not a condition: {why}")

    def _tokens(self) -> list[str]:
        tokens, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.wrong(f"'{self.text[at:].split()[0]}' means nothing in it")
            tokens.append(match[1])
            at = match.end()
        return tokens

    def _next(self, expected: str) -> str:
        if not self.rest:
            raise self.wrong(f"{expected} is missing at the end")
        return self.rest.pop(0)

    def _took(self, word: str) -> bool:
        if self.rest and self.rest[0].lower() == word:
            self.rest.pop(0)
            return True
        return False

    def alternatives(self) -> Judge:
        judges = [self._all_of()]
        while self._took("or"):
            judges.append(self._all_of())
        return judges[0] if len(judges) == 1 else lambda facts: _any(judge(facts) for judge in judges)

    def _all_of(self) -> Judge:
        judges = [self._one()]
        while self._took("and"):
            judges.append(self._one())
        return judges[0] if len(judges) == 1 else lambda facts: _not(_any(_not(judge(facts)) for judge in judges))

    def _one(self) -> Judge:
        if self._took("not"):
            judge = self._one()
            return lambda facts: _not(judge(facts))
        if self._took("("):
            inner = self.alternatives()
            if not self._took(")"):
                raise self.wrong("a ')' is missing")
            return inner
        return self._comparison()

    def _comparison(self) -> Judge:
        name = self._next(f"one of {', '.join(NAMES)}")
        if name.lower() not in NAMES:
            raise self.wrong(f"'{name}' is not one of {', '.join(NAMES)}")
        name = name.lower()
        sign = self._next(f"a comparison after '{name}'")
        if sign not in _COMPARE:
            raise self.wrong(f"after '{name}' comes one of > >= < <= = !=, not '{sign}'")
        value = self._next(f"a value after '{name}{sign}'")
        self.names.add(name)
        if name in WORDS:
            return self._word(name, sign, value)
        wanted = self._duration(name, sign, value) if name in DURATIONS else self._number(name, value)
        return lambda facts: _compared(facts.get(name), sign, wanted)

    def _word(self, name: str, sign: str, value: str) -> Judge:
        if sign not in ("=", "==", "!="):
            raise self.wrong(f"a {name} can only be equal or not: {name}={value}")
        if not re.fullmatch(r"[A-Za-z]+", value) or value.lower() in _JOINING:
            raise self.wrong(f"'{value}' is not a {name}")
        equal = sign != "!="

        def judge(facts: Facts) -> Verdict:
            found = facts.get(name)
            return None if found is None else (str(found).lower() == value.lower()) is equal

        return judge

    def _duration(self, name: str, sign: str, value: str) -> float:
        if sign in ("=", "==", "!="):
            raise self.wrong(f"an {name} is never exactly so: use > or <")
        wanted = duration_ms(value)
        if wanted is None:
            raise self.wrong(f"an {name} is a length of time such as 90s, 10m or 1h30m, not '{value}'")
        return wanted

    def _number(self, name: str, value: str) -> float:
        if not re.fullmatch(r"\d[\d_]*", value):
            raise self.wrong(f"{name} is compared with a whole number, not '{value}'")
        return int(value.replace("_", ""))


def _compared(found: Amount | str | None, sign: str, wanted: float) -> Verdict:
    if not isinstance(found, Amount):
        return None
    if found.exact:
        return _COMPARE[sign](found.least, wanted)
    if sign in (">", ">="):
        return _COMPARE[sign](found.least, wanted) or None
    if sign in ("<", "<="):
        return None if _COMPARE[sign](found.least, wanted) else False
    return (sign == "!=") if found.least > wanted else None


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    answers = list(verdicts)
    return True if True in answers else None if None in answers else False


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict
