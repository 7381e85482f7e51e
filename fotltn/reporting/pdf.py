"""Print pages as PDF with an installed browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from fotltn.errors import DataError
from fotltn.files import write_files
from fotltn.reporting.html import check_place

#: Browsers that print pages without a window, by the names of their programs.
BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge",
)  # fmt: skip

#: The mark at the end of every PDF that fotltn writes.
_MARK = b"% written by fotltn\n"

#: Seconds that printing may take.
_LIMIT = 300


def browser() -> str:
    """Return the program of a browser that can print.

    Raises:
        DataError: no such browser is installed.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        hint = "install Chromium, or open the page in any browser and print it to a file"
        raise DataError("printing a PDF needs Chromium, Chrome or Edge", hint=hint)
    return program


def check_pdf(path: Path, *, force: bool = False) -> None:
    """Raise an error if a PDF would replace a file that fotltn did not write.

    Raises:
        DataError: the path holds another file, or there is no browser that prints.
    """
    browser()
    ours = path.is_file() and path.read_bytes().endswith(_MARK)
    check_place(path, force=force or ours)


def write_pdf(page: str, path: Path) -> None:
    """Print a page into a file, completely or not at all.

    Raises:
        DataError: the browser does not print.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        unfolded = re.sub("<details( open)?", "<details open", page)
        write_files({source: unfolded.encode()})
        write_files({path: printed(source) + _MARK}, parents=True)


def printed(source: Path) -> bytes:
    """Return the PDF of a page that is in a file.

    Raises:
        DataError: the browser does not print.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.pdf"
        alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        call = [
            browser(), "--headless", *alone, "--disable-gpu", f"--user-data-dir={folder}/user",
            "--no-pdf-header-footer", f"--print-to-pdf={target}", source.absolute().as_uri(),
        ]  # fmt: skip
        try:
            ended = subprocess.run(call, capture_output=True, timeout=_LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DataError(f"the browser '{call[0]}' does not print: {error}") from None
        if not target.exists():
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise DataError(f"the browser '{call[0]}' did not print the page: {' '.join(last)}")
        return target.read_bytes()
