"""The lowest versions of dependencies: none with a known CVE in what reads data of others.

A new CVE is a new line here. The sources are the changelogs and advisories of the packages, on 28 November 2026.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
FIXED = {
    # jq 1.8.2, which jq 1.12 of PyPI contains: heap overflows, stack overflows, and values cut at NUL.
    "jq": ("1.12", "CVE-2026-32316 CVE-2026-33947 CVE-2026-33948 CVE-2026-40164 CVE-2026-54679"),
    # Depth of Any in json_format.ParseDict, which encodes the values of produce; recursion of the Python parser.
    "protobuf": ("6.33.5", "CVE-2026-0994 CVE-2025-4565"),
    # Elliptic curves, name constraints, buffers, PKCS#7; OpenSSL within the wheels.
    "cryptography": ("50", "CVE-2026-69247 CVE-2026-39892 CVE-2026-34073 CVE-2024-12797"),
    # A read after a failed one.
    "msgpack": ("1.2.1", "GHSA-6v7p-g79w-8964"),
    # Keys of encrypted Parquet files.
    "pyarrow": ("26", "CVE-2026-92287"),
    # PackageIndex writes outside its folder.
    "setuptools": ("78.1.1", "CVE-2025-47273"),
}


def floors() -> dict[str, list[str]]:
    """The lowest versions by package, of all extras and of the build."""
    from packaging.requirements import Requirement

    given = PROJECT["project"]
    texts = [*given["dependencies"], *PROJECT["build-system"]["requires"]]
    texts += [text for extra in given["optional-dependencies"].values() for text in extra]
    found: dict[str, list[str]] = {}
    for requirement in map(Requirement, texts):
        lowest = [it.version for it in requirement.specifier if it.operator == ">="]
        if lowest:
            found.setdefault(requirement.name, []).extend(lowest)
    return found


@pytest.mark.parametrize("name", FIXED)
def test_lowest_version_has_no_known_cve(name: str) -> None:
    from packaging.version import Version

    fixed, advisories = FIXED[name]
    assert all(Version(lowest) >= Version(fixed) for lowest in floors()[name]), f"{name} below {fixed}: {advisories}"


def test_each_installed_package_is_not_below_its_lowest_version() -> None:
    from importlib import metadata

    from packaging.version import Version

    for name, lowest in floors().items():
        try:
            installed = Version(metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
        assert all(installed >= Version(it) for it in lowest), name
