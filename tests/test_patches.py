"""What live tests replace for a while is there: the name stands in a text, which no type checker reads, and `make test`
does not run them.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.syntax import walk
from tests.support.tiers import is_live

ROOT: Final = Path(__file__).parent


def find_faults(source: str) -> Iterator[str]:
    """Yield a line for each name that a `setattr` of a `MonkeyPatch` replaces and that is not there.

    Looked at are those of what the file imports at its top, and those given as one text with the path.
    """
    tree = ast.parse(source)
    imported = dict(_find_imports(tree))
    for call in walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "setattr"):
            continue
        match call.args:
            case [ast.Name(id=owner), ast.Constant(value=str(name)), _] if owner in imported:
                path = f"{imported[owner]}.{name}"
            case [ast.Constant(value=str(path)), _]:
                pass
            case _:
                continue
        if not any(keyword.arg == "raising" for keyword in call.keywords) and not _is_there(path):
            yield f"line {call.lineno}: there is no {path}"


def _find_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported at the top of a file, and the path of what it is."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.asname or "." not in each.name:
                    yield each.asname or each.name, each.name


def _is_there(path: str) -> bool:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return True  # what is not installed


def test_a_name_that_is_not_there_is_found() -> None:
    source = 'import json\nfrom exchange import errors\nx.setattr(json, "dumps", 1)\nx.setattr(errors, "Missing", 1)\n'
    assert [*find_faults(source)] == ["line 4: there is no exchange.errors.Missing"]
    assert [*find_faults('x.setattr("json.missing", 1)\n')] == ["line 1: there is no json.missing"]


def test_what_live_tests_replace_is_there() -> None:
    faults = []
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text()
        if "setattr(" in source and (is_live(path.name) or "mark.live" in source):
            faults += [f"{path.relative_to(ROOT)}: {fault}" for fault in find_faults(source)]
    assert not faults, "\n".join(faults)
