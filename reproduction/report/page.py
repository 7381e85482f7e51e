"""Write the page of the reproduction: tables and sentences, all from the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fotltn.errors import DataError
from fotltn.format import duration
from reproduction.paper import published
from reproduction.report import claims as said
from reproduction.report import extra_tables, tables
from reproduction.report.compare import compare, contests, data_sets, fractions, methods
from reproduction.report.records import Record
from reproduction.report.render import Table, as_markdown, number, percent


def page(
    records: Sequence[Record],
    *,
    source: str,
    statistics: tables.Counts | None = None,
    truth: Mapping[str, float] | None = None,
    all_false: float | None = 1.0,
    wall: Mapping[str, float] | None = None,
    figures: Mapping[str, str] | None = None,
    remarks: str = "",
    more: str = "",
) -> str:
    """Return the page in Markdown.

    Args:
        records: the runs.
        source: the name of the record file, which the page states.
        statistics: the numbers of true and all facts of each predicate of the generated data sets.
        truth: the KB-SAT of the true facts of each data set.
        all_false: the KB-SAT of predictions that are all false.
        wall: measured wall times in seconds, by description.
        figures: captions, and the paths of their pictures relative to the page.
        remarks: Markdown that follows the claims: what differs, and why.
        more: the path of the page with further tables, relative to this page.

    Raises:
        DataError: there are no records.
    """
    if not records:
        raise DataError("there are no records to write a page about")
    parts = [
        _opening(records, source),
        "## The paper's claims\n\n" + _claims(records),
        "## Within tolerance\n\n" + _tolerance(records),
        remarks.strip() + "\n" if remarks.strip() else "",
        "## Results\n",
        _pictures(figures or {}),
        *(_section(tables.results_table(records, metric, truth=truth, all_false=all_false))
          for metric in published.METRICS),
        _reading(records, truth or {}, all_false),
        _section(tables.welch_table(records)),
        _section(tables.statistics_table(statistics)) if statistics else "",
        f"[More tables]({more}) shows what the paper does not.\n" if more else "",
        "## Time and settings\n\n" + _times(records, wall or {}),
        _section(extra_tables.times_table(records)),
        _section(extra_tables.settings_table(records)),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def tables_page(records: Sequence[Record], *, back: str, remarks: str = "") -> str:
    """Return the page in Markdown with the tables that the paper does not have.

    Args:
        records: the runs.
        back: the path of the page about the paper, relative to this page.
        remarks: Markdown that comes first.
    """
    parts = [
        f"# The paper, reproduced: more tables\n\nThese tables add to [the main page]({back}). "
        "They come from the same runs.\n",
        remarks.strip() + "\n" if remarks.strip() else "",
        *(
            _section(extra_tables.predicates_table(records, data=data))
            for data in data_sets(records)
        ),
        *(_section(table) for table in (
            extra_tables.violations_table(records),
            extra_tables.axioms_table(records, "violations"),
            extra_tables.axioms_table(records, "axioms"),
        )),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _section(table: Table) -> str:
    """Return a table under its heading, or nothing if it is empty."""
    return as_markdown(table) if table.groups else ""


def _opening(records: Sequence[Record], source: str) -> str:
    repetitions = Counter((one.data, one.method, one.fraction) for one in records)
    devices = ", ".join(dict.fromkeys(one.device for one in records if one.device))
    versions = ", ".join(dict.fromkeys(one.version for one in records if one.version))
    shares = fractions(records)
    span = (
        percent(shares[0]) if len(shares) == 1 else f"{percent(shares[0])} to {percent(shares[-1])}"
    )
    return (
        "# The paper, reproduced\n\n"
        f"A program writes this page from `{source}`: {tables.runs([len(records)])} of "
        f"{_and(methods(records))} on {_and(data_sets(records))}, trained on {span} "
        f"of the facts, with {tables.runs(list(repetitions.values()))} in each cell"
        + (f", on {devices}" if devices else "")
        + (f", with version {versions}" if versions else "")
        + ".\n"
    )


def _claims(records: Sequence[Record]) -> str:
    judged = said.claims(records)
    if not judged:
        return "These runs lack the methods that the paper's claims are about.\n"
    agreed = sum(one.agrees for one in judged)
    tested = len(contests(records))
    return (
        f"{agreed} of {len(judged)} claims agree with these runs.\n\n"
        + as_markdown(said.claims_table(records), heading="")
        + f"\nA method beats another if a two-sided Welch's t-test gives p < "
        f"{number(published.ALPHA, 2)} after correction over all {tested} tests.\n"
    )


def _tolerance(records: Sequence[Record]) -> str:
    compared = [c for metric in published.METRICS for c in compare(records, metric) if c.paper]
    if not compared:
        return "The paper has none of these cells.\n"
    within = sum(c.within for c in compared)
    sentence = (
        f"{within} of {len(compared)} cells are within the tolerance. The mean of FOT-LTN+BK "
        f"should lie within {number(published.tolerance('FOT-LTN+BK'), 2)} of the paper's mean, "
        f"and the mean of any other method within {number(published.tolerance('HTGNN'), 2)}."
    )
    rest = said.missed(records)
    listed = (
        "\nThese cells lie beyond it:\n\n" + "".join(f"- {one}\n" for one in rest) if rest else ""
    )
    table = as_markdown(said.tolerance_table(records), heading="")
    return sentence + "\n\n" + table + listed


def _reading(records: Sequence[Record], truth: Mapping[str, float], all_false: float | None) -> str:
    """Explain what KB-SAT is worth."""
    sentences = list(said.above_truth(records, truth))
    if all_false is not None:
        sentences.append(
            f"Predictions that are all false have a KB-SAT of {number(all_false)}: KB-SAT measures "
            "consistency, not correctness."
        )
    return " ".join(sentences) + "\n" if sentences else ""


def _times(records: Sequence[Record], wall: Mapping[str, float]) -> str:
    total = sum(one.seconds for one in records)
    by = {m: sum(r.seconds for r in records if r.method == m) for m in methods(records)}
    shares = ", ".join(f"{method} {duration(seconds)}" for method, seconds in by.items())
    text = f"All runs together took {duration(total)}: {shares}.\n"
    listed = "".join(f"- {what}: {duration(seconds)}\n" for what, seconds in wall.items())
    return f"{text}\n{listed}" if listed else text


def _pictures(figures: Mapping[str, str]) -> str:
    return "\n".join(f"![{caption}]({path})\n" for caption, path in figures.items())


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
