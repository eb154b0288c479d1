"""The reference of the Python API: one page per package, with every name of its ``__all__`` in that order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

import griffe

from docs.site.links import ROOT

PACKAGES: Final = ("exchange", "bindings", "bindings.spark", "bridge")

EXAMPLE: Final = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.MULTILINE)
"""An example as doctest runs it: from its first prompt to the next empty line."""


def reference_pages() -> dict[str, str]:
    """Return path on the website -> Markdown, for each package."""
    return {f"api/{package}.md": make_page(package) for package in PACKAGES}


def make_page(package: str) -> str:
    """Return the page of a package, with a directive of mkdocstrings for each public name."""
    return "".join(_page_of(package))


def describe_plainly(package: str) -> str:
    """Return the page of a package without directives: signatures and docstrings, also those of public methods."""
    loaded = _load(package)
    parts = [f"# {package}\n\n{_markdown(loaded)}\n"]
    for name in _names(package):
        found = _find(loaded, name)
        parts.append(f"\n## {package}.{name}\n\n{_signature(found)}{_markdown(found)}\n")
        parts += [
            f"\n### {package}.{name}.{member.name}\n\n{_signature(member)}{_markdown(member)}\n"
            for member in (found.members.values() if found.is_class else ())
            if not member.name.startswith("_") and member.has_docstring
        ]
    return "".join(parts)


def fence_examples(text: str) -> str:
    """Return a docstring as Markdown: doctest's examples fenced, and code after ``::`` with a single colon."""
    fenced = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    return re.sub(r"::$", ":", fenced, flags=re.MULTILINE)


class FenceExamples(griffe.Extension):  # type: ignore[misc, unused-ignore]  # where griffe is not installed
    """Makes the docstrings of all objects Markdown, when Griffe has read them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)


@cache
def _load(package: str) -> griffe.Module:
    above, _, name = package.rpartition(".")
    if above:  # whose modules are not read again
        loaded = _load(above)[name]
    else:
        loaded = griffe.load(package, search_paths=[str(ROOT)], extensions=griffe.load_extensions(FenceExamples))
    assert isinstance(loaded, griffe.Module)
    return loaded


def _names(package: str) -> tuple[str, ...]:
    """Return the public names of a package, in the order in which one learns them."""
    names: tuple[str, ...] = import_module(package).__all__
    return names


def _page_of(package: str) -> Iterator[str]:
    loaded = _load(package)
    yield f"# {package}\n\n{_markdown(loaded)}\n\n| name | |\n|---|---|\n"
    for name in _names(package):
        head = " ".join(_markdown(_find(loaded, name)).partition("\n\n")[0].split())
        sentence = re.split(r"(?<=\.) ", head)[0].rstrip(":").replace("|", "\\|")
        yield f"| [`{name}`](#{_find(loaded, name).path}) | {sentence} |\n"
    for name in _names(package):
        yield f"\n::: {_find(loaded, name).path}\n    options:\n"
        yield f"      heading: {package}.{name}\n      toc_label: {name}\n"


def _find(loaded: griffe.Module, name: str) -> griffe.Object | griffe.Alias:
    found = loaded[name]
    assert isinstance(found, griffe.Object | griffe.Alias)
    return found


def _markdown(found: griffe.Object | griffe.Alias) -> str:
    """Return the docstring of an object, "" if it has none."""
    return found.docstring.value if found.docstring is not None else ""


def _signature(found: griffe.Object | griffe.Alias) -> str:
    """Return a fenced block with the signature of what can be called, "" for the rest."""
    if not (found.is_class or found.is_function):
        return ""
    target = found.final_target if isinstance(found, griffe.Alias) else found
    assert isinstance(target, griffe.Class | griffe.Function)
    return f"```python\n{target.signature()}\n```\n\n"
