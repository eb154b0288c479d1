"""Find the nesting of statements: a ``for`` repeats the statements right below it that are indented further."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bindings.sources.language.errors import Mistake
from bindings.sources.language.tokens import Statement


def find_levels(statements: Iterable[Statement]) -> Iterator[tuple[int, Statement]]:
    """Yield each statement with the number of ``for`` around it. Raises Mistake for an indentation of no open block.

    A comment belongs to the statement below it, or to a block above that ends there if it is indented like that block.
    """
    indents = [0]  # of the blocks that are open
    loop: Statement | None = None  # a ``for`` whose block has not begun
    between: list[Statement] = []  # blank rows and comments above the next statement
    for statement in statements:
        if not statement.tokens:
            between.append(statement)
            continue
        indent = statement.indent
        before = indents.copy() if between else indents
        if loop is not None:
            if indent <= indents[-1]:
                raise _without_block(loop)
            indents.append(indent)
        else:
            while indent < indents[-1]:
                indents.pop()
            if indent != indents[-1]:
                raise _misplaced(statement, indents[-1])
        level = len(indents) - 1
        for row in between:
            yield max(level, _level_in(before, row.indent)), row
        between.clear()
        yield level, statement
        loop = statement if statement.tokens[0].kind == "FOR" else None
    if loop is not None:
        raise _without_block(loop)
    for row in between:
        yield _level_in(indents, row.indent), row


def _level_in(indents: list[int], indent: int) -> int:
    """Return the deepest open block that is not indented further than this."""
    return max((level for level, of_block in enumerate(indents) if of_block <= indent), default=0)


def _without_block(loop: Statement) -> Mistake:
    return Mistake("for repeats nothing; the statements that it repeats stand below it, indented", loop.tokens[0])


def _misplaced(statement: Statement, indent: int) -> Mistake:
    message = (
        f"indented by {statement.indent}, where {indent} is expected: only what continues the line above, "
        "or is repeated by a for, is indented further"
    )
    return Mistake(message, statement.tokens[0])
