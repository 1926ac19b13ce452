"""The grammar of conditions such as `lag>1000 or age>10m`: parsed once, evaluated for each group or row.

    condition  = comparisons joined by `and`, `or`, `not` and parentheses; `and` binds before `or`
    comparison = NAME  > >= < <= = !=  a number, for a count or a number
               | NAME  > >= < <=       a duration: 90s, 10m, 1h30m, 2d
               | NAME  = !=            a state, in any case

The caller gives the names and the kind of each; they are written in any case, with `-` or `_`. An unknown value makes
a comparison neither true nor false, unless the known part decides it: a lag of at least 5000 is above 1000 although
one partition did not answer. `and`, `or` and `not` follow Kleene's three-valued logic. Pure.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.text import duration_ms, format_duration


class Kind(Enum):
    """The kind of a name's value, which decides the comparisons and the values that its name takes."""

    COUNT = "count"  # a whole number of at least 0; 1_000 is allowed
    NUMBER = "number"  # 12, -0.5 or 20%
    DURATION = "duration"  # 90s, 10m, 1h30m; compared in milliseconds
    STATE = "state"  # a word, in any case
    TEXT = "text"  # cannot be compared


class Amount(NamedTuple):
    """A number that is known, or (not `exact`) a lower bound of it."""

    least: float
    exact: bool = True


Facts = Mapping[str, "Amount | str | None"]
"""The values by name; None or absent: not known."""
Verdict = bool | None
"""None: the facts do not decide."""
_Judge = Callable[[Facts], Verdict]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_EQUALITY = ("=", "==", "!=")
_TOKEN = re.compile(r"\s*(>=|<=|!=|==|[<>=()]|[\w.+%-]+)")
_KEYWORDS = ("and", "or", "not", "(", ")")


class Condition:
    """A parsed condition. `text` is as written, `names` are the names that it uses."""

    def __init__(self, text: str, kinds: Mapping[str, Kind], judge: _Judge) -> None:
        self.text = text
        self.names = frozenset(kinds)
        self._kinds = kinds
        self._judge = judge

    def __repr__(self) -> str:
        return f"<Condition {self.text}>"

    def judge(self, facts: Facts) -> Verdict:
        """Return True or False, or None when the facts do not decide."""
        return self._judge(facts)

    def describe(self, facts: Facts) -> str:
        """Return the values that the condition uses: `age is not known, lag is 5000 or more`."""
        return ", ".join(f"{name} is {self._format(name, facts.get(name))}" for name in sorted(self.names))

    def _format(self, name: str, fact: Amount | str | None) -> str:
        if not isinstance(fact, Amount):
            return fact or "not known"
        number = fact.least
        if self._kinds[name] is Kind.DURATION:
            text = format_duration(number)
        else:
            text = f"{number:.9g}" if isinstance(number, float) else str(number)
        return text if fact.exact else f"{text} or more"


def parse_condition(text: str, kinds: Mapping[str, Kind]) -> Condition:
    """Parse a condition on these names. `ConfigError` says what is wrong with the text."""
    parser = _Parser(text, kinds)
    judge = parser.any_of()
    if parser.rest:
        raise parser.error(f"unexpected '{parser.rest[0]}'; join comparisons with 'and' or 'or'")
    return Condition(text, {name: kinds[name] for name in parser.used}, judge)


class _Parser:
    """Recursive descent, one method for each level of binding; takes its tokens off `rest`."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self.used: set[str] = set()
        self._kinds = kinds
        self._by_spelling = {_spelling(name): name for name in kinds}
        self._names = ", ".join(name for name, kind in kinds.items() if kind is not Kind.TEXT)
        self.rest = self._tokens()

    def error(self, why: str) -> ConfigError:
        return ConfigError(f"'{self.text}' is not a valid condition: {why}")

    def _tokens(self) -> list[str]:
        tokens, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.error(f"unexpected '{self.text[at:].split()[0]}'")
            tokens.append(match[1])
            at = match.end()
        return tokens

    def _next(self, expected: str) -> str:
        if not self.rest:
            raise self.error(f"expected {expected}, but the text ends")
        return self.rest.pop(0)

    def _accept(self, keyword: str) -> bool:
        if self.rest and self.rest[0].lower() == keyword:
            self.rest.pop(0)
            return True
        return False

    def any_of(self) -> _Judge:
        judges = [self._all_of()]
        while self._accept("or"):
            judges.append(self._all_of())
        return judges[0] if len(judges) == 1 else lambda facts: _any(judge(facts) for judge in judges)

    def _all_of(self) -> _Judge:
        judges = [self._operand()]
        while self._accept("and"):
            judges.append(self._operand())
        return judges[0] if len(judges) == 1 else lambda facts: _not(_any(_not(judge(facts)) for judge in judges))

    def _operand(self) -> _Judge:
        if self._accept("not"):
            judge = self._operand()
            return lambda facts: _not(judge(facts))
        if self._accept("("):
            inner = self.any_of()
            if not self._accept(")"):
                raise self.error("missing ')'")
            return inner
        return self._comparison()

    def _comparison(self) -> _Judge:
        name = self._next(f"one of {self._names}")
        if _spelling(name) not in self._by_spelling:
            raise self.error(f"'{name}' is unknown; use one of {self._names}")
        name = self._by_spelling[_spelling(name)]
        kind = self._kinds[name]
        if kind is Kind.TEXT:
            raise self.error(f"'{name}' is text and cannot be compared; use one of {self._names}")
        sign = self._next(f"a comparison after '{name}'")
        if sign not in _COMPARE:
            raise self.error(f"expected one of > >= < <= = != after '{name}', got '{sign}'")
        value = self._next(f"a value after '{name}{sign}'")
        self.used.add(name)
        if kind is Kind.STATE:
            return self._state(name, sign, value)
        limit = self._limit(name, kind, sign, value)
        return lambda facts: _compare(facts.get(name), sign, limit)

    def _state(self, name: str, sign: str, value: str) -> _Judge:
        if sign not in _EQUALITY:
            raise self.error(f"{name} can only be compared with = or !=, got '{sign}'")
        if not re.fullmatch(r"[A-Za-z]+", value) or value.lower() in _KEYWORDS:
            raise self.error(f"'{value}' is not a valid {name}")
        equal = sign != "!="

        def judge(facts: Facts) -> Verdict:
            state = facts.get(name)
            return None if state is None else (str(state).lower() == value.lower()) is equal

        return judge

    def _limit(self, name: str, kind: Kind, sign: str, value: str) -> float:
        if kind is Kind.DURATION:
            if sign in _EQUALITY:
                raise self.error(f"{name} cannot be compared with '{sign}'; use > >= < or <=")
            ms = duration_ms(value)
            if ms is None:
                raise self.error(f"{name} takes a duration such as 90s, 10m or 1h30m, got '{value}'")
            return ms
        if kind is Kind.COUNT:
            if not re.fullmatch(r"\d[\d_]*", value):
                raise self.error(f"{name} takes a whole number, got '{value}'")
            return int(value.replace("_", ""))
        number = re.fullmatch(r"(-?\d+(?:\.\d+)?)(%?)", value)
        if number is None:
            raise self.error(f"{name} takes a number such as 10, 0.5 or 20%, got '{value}'")
        return float(f"{number[1]}e-2" if number[2] else number[1])  # 33.3e-2 is 0.333, 33.3 / 100 is not


def _spelling(name: str) -> str:
    """Return one spelling for TIME-LAG, time-lag and time_lag."""
    return name.lower().replace("_", "-")


def _compare(fact: Amount | str | None, sign: str, limit: float) -> Verdict:
    if not isinstance(fact, Amount):
        return None
    if fact.exact:
        return _COMPARE[sign](fact.least, limit)
    if sign in (">", ">="):
        return _COMPARE[sign](fact.least, limit) or None
    if sign in ("<", "<="):
        return None if _COMPARE[sign](fact.least, limit) else False
    return (sign == "!=") if fact.least > limit else None


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    known = list(verdicts)
    return True if True in known else None if None in known else False


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict
