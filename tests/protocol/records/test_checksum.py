"""The checksum of record batches."""

import subprocess
import sys

from kcli.protocol.records.checksum import crc32c


def test_the_check_value_of_crc_32c() -> None:
    """The value that RFC 3720's polynomial gives for "123456789", as in every catalogue of CRCs."""
    assert crc32c(b"123456789") == 0xE3069283


def test_it_goes_on_from_an_earlier_part() -> None:
    assert crc32c(memoryview(b"456789"), crc32c(bytearray(b"123"))) == 0xE3069283


def test_loading_it_leaves_the_rest_of_its_package_alone() -> None:
    code = "import sys, kcli.protocol.records.checksum; print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
