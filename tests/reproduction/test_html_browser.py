"""The report of a sweep in a real browser."""

from __future__ import annotations

import pytest

from reproduction.report.html import sweep_content, sweep_page
from reproduction.report.records import record
from tests.browser import browser as browser
from tests.report.browser import look_at
from tests.reproduction.synthetic import TRUTH, values

pytest.importorskip("matplotlib")


def test_a_page_in_a_browser(browser, tmp_path):
    runs = [
        record(values(method=method, fraction=f, repetition=i))
        for method in ("FOT-LTN+BK", "HTGNN") for f in (0.1, 0.2) for i in range(2)
    ]  # fmt: skip
    content = sweep_content(runs, "sweep", version="0.1.0", truth=TRUTH, all_false=1.0)
    path = tmp_path / "sweep.html"
    path.write_text(sweep_page(content), "utf-8")
    look_at(browser, path)
