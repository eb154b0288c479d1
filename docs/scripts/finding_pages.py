"""Write the pages about findings, ``docs/findings/HS101.md`` and so on, and their index.

``python -m docs.scripts.finding_pages`` writes them anew. They are made of the table of rules
(`bindings.checking.rules.finding`) and of the examples in ``docs/findings/examples``: what a page shows as output is
what the check printed of the example, and the releases are those under whose rules the finding is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

from bindings.checking.forms import FORMS
from bindings.checking.report import CheckResult
from bindings.checking.rules.table import RULES, Rule
from bindings.checking.run import check_sources
from bindings.checking.selection import CodeSelection
from exchange.entities.releases import ROWS

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "docs/findings"
EXAMPLES: Final = "docs/findings/examples"
"""Folder of the examples, from the root of the repository: the output that pages show names files by this path."""

FAMILIES: Final[Mapping[str, str]] = {
    "HS1": "Bindings",
    "HS2": "What can be reached",
    "HS3": "Alternate exchanges and dead letters",
    "HS4": "Routing keys, patterns and names",
    "HS5": "Headers",
    "HS6": "Types and arguments",
    "HS7": "Policies",
    "HS8": "Expectations and applications",
    "HS9": "The file",
}
"""Beginning of the codes of a family -> its heading in the index."""

RELEASES: Final = tuple(
    ".".join(map(str, row.since))
    for before, row in pairwise((None, *ROWS))
    if row is not None and (before is None or before.profile != row.profile)
)
"""The releases of RabbitMQ from which on the rules are others."""

MARKDOWN: Final = str.maketrans({character: f"\\{character}" for character in "\\`*_<[|"})
"""Escapes of what Markdown takes for its own in a sentence."""

MEANINGS: Final = {
    "error": "An error is certainly wrong: `hashstar check` ends with exit code 1.",
    "warning": "A warning is most likely wrong: `hashstar check --fail-on warning` ends with exit code 1.",
    "note": "A note is worth knowing, and often as it should be: `--fail-on note` makes it fail.",
}


def render_pages() -> dict[str, str]:
    """Return name of a page -> its text, for all rules and for the index. Raises OSError if an example is missing."""
    pages = {f"{code}.md": render_page(rule, find_releases(code)) for code, rule in RULES.items()}
    return {**pages, "index.md": render_index()}


def render_page(rule: Rule, releases: Sequence[str]) -> str:
    """Return the page of a rule whose example has its finding under the rules of these releases."""
    return "\n".join(_page_lines(rule, releases)) + "\n"


def _page_lines(rule: Rule, releases: Sequence[str]) -> Iterator[str]:
    example, source = find_example(rule.code)
    yield f"# {rule.code}: {rule.name}"
    yield ""
    yield rule.meaning.translate(MARKDOWN)
    yield ""
    yield f"**Way out:** {rule.way_out.translate(MARKDOWN)}."
    yield ""
    yield f"**Severity:** {rule.severity}. {MEANINGS[rule.severity]}"
    if rule.optional:
        yield ""
        yield f"It is looked for only where it is selected by its whole code: `--select HS,{rule.code}`."
    yield ""
    yield f"**Releases:** {describe_releases(releases)}"
    yield ""
    yield "## Example"
    yield ""
    languages = {".py": "python", ".json": "json", ".bindings": "bindings"}
    yield f"```{languages[Path(example).suffix]}"
    yield (ROOT / example).read_text("utf-8").rstrip("\n")
    yield "```"
    yield ""
    yield "```console"
    yield f"$ hashstar check --select {rule.code} {source}"
    yield from FORMS["text"].encode(_check(source, rule.code)).decode().splitlines()
    yield "```"
    yield ""
    yield "[All findings](index.md) · [check](../topology.md#check-what-is-wrong-with-it) · [in CI](../ci.md)"


def find_example(code: str) -> tuple[str, str]:
    """Return the file of the example of a code, and the source that the check is given: the file, or an application."""
    example = f"{EXAMPLES}/{code}.py"
    if (ROOT / example).is_file():
        return example, f"celery:{EXAMPLES.replace('/', '.')}.{code}:app"
    example = f"{EXAMPLES}/{code}.json"
    return (example if (ROOT / example).is_file() else f"{EXAMPLES}/{code}.bindings",) * 2


def _check(example: str, code: str, release: str | None = None) -> CheckResult:
    with chdir(ROOT):
        return check_sources([example], CodeSelection([code]), profile=release)


def find_releases(code: str, among: Sequence[str] = RELEASES) -> list[str]:
    """Return the releases under whose rules the example of a code has its finding."""
    _, source = find_example(code)
    return [release for release in among if any(_check(source, code, release).reports[0].findings())]


def describe_releases(found: Sequence[str]) -> str:
    """Return ``all, from 3.10 on``, ``4.0 and later``, ``before 4.0`` or ``from 4.3.0, before 4.3.2``.

    Raises ValueError if there is a gap.
    """
    at = RELEASES.index(found[0])
    end = at + len(found)
    if tuple(found) != RELEASES[at:end]:
        raise ValueError(f"a gap between {', '.join(found)}")
    if found[-1] == RELEASES[-1]:
        first = found[0].removesuffix(".0")
        return f"{first} and later." if at else f"all, from {first} on."
    before = f"before {RELEASES[end].removesuffix('.0')}."
    return f"from {found[0]}, {before}" if at else before


def render_index() -> str:
    """Return the page that lists all codes."""
    return "\n".join(_index_lines()) + "\n"


def _index_lines() -> Iterator[str]:
    yield "# Findings"
    yield ""
    yield "What `hashstar check` finds, by code. Codes are stable: none is ever used for another finding. `--select`"
    yield "and `--ignore` take codes and their beginnings, such as `HS1`; `--explain HS104` prints what a code means."
    yield ""
    yield "| severity | |"
    yield "|---|---|"
    for severity, meaning in MEANINGS.items():
        yield f"| {severity} | {meaning} |"
    for family, rules in groupby(RULES.values(), key=lambda rule: rule.code[:3]):
        yield ""
        yield f"## {FAMILIES[family]}"
        yield ""
        yield "| code | finding | severity |"
        yield "|---|---|---|"
        for rule in rules:
            optional = ", only where it is selected" if rule.optional else ""
            yield f"| [{rule.code}]({rule.code}.md) | {rule.name.replace('-', ' ')} | {rule.severity}{optional} |"


if __name__ == "__main__":
    for name, text in render_pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
        print(PAGES / name)
