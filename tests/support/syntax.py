"""Walks over the syntax trees of all modules, in a third of the time of `ast.walk`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["walk"]


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, in no order, but for those that have nothing: contexts and operators."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and vars(value):
                nodes.append(value)
