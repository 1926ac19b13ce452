"""Golden batches by name, from tests/vectors/record_batches.txt."""

from pathlib import Path

_FILE = Path(__file__).parents[2] / "vectors" / "record_batches.txt"
VECTORS = {
    name: bytes.fromhex(data)
    for name, data in (line.split() for line in _FILE.read_text().splitlines() if line and line[0] != "#")
}
