"""CRC-32C as loaded for record batches."""

import subprocess
import sys

from kcli.protocol.records.checksum import crc32c


def test_the_check_value_of_crc_32c() -> None:
    """The CRC of "123456789" by the polynomial of RFC 3720, as in catalogues of CRCs."""
    assert crc32c(b"123456789") == 0xE3069283


def test_it_continues_from_an_earlier_part() -> None:
    assert crc32c(memoryview(b"456789"), crc32c(bytearray(b"123"))) == 0xE3069283


def test_loading_it_does_not_import_the_package() -> None:
    code = "import sys, kcli.protocol.records.checksum; print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stdout == "False\n"
