"""A page as drawn by a headless Chromium without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import NamedTuple

from tests.needs import skip_or_fail


class Dom(NamedTuple):
    """Content of the drawn page: `charts`, `bars` and `lines` in them, their texts; `failures` of scripts, and blocked
    requests.
    """

    title: str
    charts: int
    bars: int
    lines: int
    chart_texts: list[str]
    failures: list[str]


def rendered(page: Path, width: int = 1280) -> Dom:
    """Open the page in a window of this width, and wait until it is drawn."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        skip_or_fail("no chromium on the PATH")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += [f"--window-size={width},900"]
        command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=10000"]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr[-2000:]
    text = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)
    title = re.search(r"<title>(.*?)</title>", text)
    return Dom(
        unescape(title[1]) if title else "",
        charts=len(re.findall(r'class="js-plotly-plot|class="[^"]* js-plotly-plot', text)),
        bars=len(re.findall(r'<g class="point">', text)),
        lines=len(re.findall(r'class="trace scatter ', text)),
        chart_texts=[unescape(words) for words in re.findall(r"<text[^>]*>([^<]+)</text>", text)],
        failures=[line for line in done.stderr.splitlines() if "CONSOLE" in line],
    )
