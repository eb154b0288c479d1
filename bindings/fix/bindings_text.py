"""Remove bindings and exchanges from the text of a ``.bindings`` file, and leave everything else as it is written.

A statement binds each of its destinations with each of its keys, and a ``for`` repeats statements. So a binding is
written in one or more *cells*: a destination and a key of a statement. What can be removed is a whole destination, a
whole key or a whole statement, if all bindings that it declares, in all repetitions, are to be removed or are declared
elsewhere as well. Comments stay, on a line of their own where their statement goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bindings.fix.candidates import Removal
from bindings.sources.document_reader import read
from bindings.sources.language.blocks import find_levels
from bindings.sources.language.syntax import Shapes, SyntaxNode, parse
from bindings.sources.language.tokens import Statement, Token, split_rows, split_statements
from exchange.entities.part import Part


class Cell(NamedTuple):
    """Where a part is declared: a statement, and of a binding the numbers of its destination and its key."""

    line: int
    destination: int = 0
    key: int = 0


class _Written(NamedTuple):
    """A statement as it is written."""

    level: int
    statement: Statement
    node: SyntaxNode

    @property
    def destinations(self) -> Sequence[SyntaxNode]:
        """The destinations of a binding."""
        return self.node.nodes("destinations")[0].children if self.node.rule == "binding" else ()

    @property
    def keys(self) -> Sequence[SyntaxNode]:
        """The keys and conditions of a binding; none if it has the key ``""`` as it names none."""
        matchers = self.node.nodes("matchers")
        return matchers[0].children if matchers else ()


class BindingsText:
    """A text, and where its parts are declared."""

    def __init__(self, text: str, name: str) -> None:
        """Read a text. Raises InputError, with the ``name``, for the first mistake."""
        self._lines: Final = text.split("\n")
        shapes: Shapes = {}
        self._statements: Final[dict[int, _Written]] = {}
        self._cells: Final[dict[Removal, list[Cell]]] = {}
        self._declared: Final[dict[Cell, list[Removal]]] = {}
        numbers: dict[int, int] = {}  # line -> number of keys

        def observe(vhost: str, line: int, number: int, part: Part) -> None:
            cell = Cell(line, *divmod(number, numbers[line]))
            known = self._cells.setdefault((vhost, part), [])
            if cell not in known:
                known.append(cell)
            self._declared.setdefault(cell, []).append((vhost, part))

        self._levels: Final = list(find_levels(split_statements(split_rows(self._lines))))
        for level, statement in self._levels:
            if statement.tokens:
                written = _Written(level, statement, parse(statement.tokens, shapes))
                line = statement.tokens[0].line
                self._statements[line] = written
                numbers[line] = len(written.keys) or 1
        read(text, name, observe)

    @property
    def repeated(self) -> frozenset[Removal]:
        """The bindings that are declared in several places, or several times in one."""
        return frozenset(part for part, cells in self._cells.items() if len(cells) > 1)

    def line_of(self, removal: Removal) -> int | None:
        """Return the first line that declares a part."""
        cells = self._cells.get(removal)
        return cells[0].line if cells else None

    def why_kept(self, wanted: frozenset[Removal]) -> dict[Removal, str]:
        """Return the parts that cannot be removed although they are wanted to be, each with the reason."""
        chosen = self._choose(wanted, frozenset())
        kept: dict[Removal, str] = {}
        for removal in wanted:
            cell = next((cell for cell in self._cells.get(removal, ()) if cell not in chosen), None)
            if cell is not None:
                kept[removal] = self._why(cell, wanted)
            elif removal not in self._cells:
                kept[removal] = "the file does not declare it"
        return kept

    def remove(self, wanted: frozenset[Removal], again: frozenset[Removal]) -> str:
        """Return the text without the wanted parts, and without second declarations of the bindings in ``again``."""
        chosen = self._choose(wanted, again)
        lines: list[str | None] = list(self._lines)
        whole: set[int] = set()
        for line, written in self._statements.items():
            cells = [cell for cell in self._cells_of(written) if cell in chosen]
            if not cells:
                continue
            if len(cells) == len(self._cells_of(written)):
                whole.add(line)
                continue
            keys = len(written.keys) or 1
            gone = {cell.destination for cell in cells}
            rows = {at for at in gone if sum(cell.destination == at for cell in cells) == keys}
            columns = {cell.key for cell in cells if cell.destination not in rows}
            tokens = written.statement.tokens
            drop = {*_positions(written.destinations, rows, tokens), *_positions(written.keys, columns, tokens)}
            _cut(lines, written.statement, drop)
        for line in [*whole, *self._empty_loops(whole)]:
            _drop(lines, self._statements[line].statement)
        return "\n".join(_without_double_blanks(lines))

    def _cells_of(self, written: _Written) -> list[Cell]:
        line = written.statement.tokens[0].line
        if written.node.rule == "exchange":
            return [Cell(line)]
        count = len(written.keys) or 1
        return [Cell(line, at, key) for at in range(len(written.destinations)) for key in range(count)]

    def _choose(self, wanted: frozenset[Removal], again: frozenset[Removal]) -> set[Cell]:
        """Return the cells to remove: whole statements, destinations and keys."""
        taken: set[Cell] = set()

        def may_go(cell: Cell) -> bool:
            """Return whether all that a cell declares is wanted to go, or declared by a cell above that stays."""
            return all(
                removal in wanted
                or (removal in again and any(other not in taken and other < cell for other in self._cells[removal]))
                for removal in self._declared.get(cell, ())
            )

        # From the end, so that the first declaration of a binding stays.
        for written in reversed(self._statements.values()):
            if written.node.rule not in ("binding", "exchange"):
                continue
            cells = self._cells_of(written)
            free = {cell for cell in cells if may_go(cell)}
            if not free:
                continue
            rows = {cell.destination for cell in cells} - {cell.destination for cell in cells if cell not in free}
            columns = {cell.key for cell in cells} - {cell.key for cell in cells if cell not in free}
            # A cell declared twice within the statement itself needs its other cell to stay.
            for unit in [
                *([cell for cell in cells if cell.destination == at] for at in sorted(rows, reverse=True)),
                *([cell for cell in cells if cell.key == at] for at in sorted(columns, reverse=True)),
            ]:
                if all(may_go(cell) for cell in unit):
                    taken.update(unit)
        return taken

    def _why(self, cell: Cell, wanted: frozenset[Removal]) -> str:
        written = self._statements[cell.line]
        others = [removal for removal in self._declared.get(cell, ()) if removal not in wanted]
        if others:
            return f"the for around line {cell.line} declares others with it, which are needed"
        if written.node.rule == "binding":
            return f"line {cell.line} binds several destinations with several keys, of which others are needed"
        return f"line {cell.line} cannot be removed alone"

    def _empty_loops(self, whole: Iterable[int]) -> Iterator[int]:
        """Yield the lines of the ``for`` all of whose statements go."""
        gone = set(whole)
        for line in sorted((line for line, each in self._statements.items() if each.node.rule == "for"), reverse=True):
            level = self._statements[line].level
            block = []
            for other, written in self._statements.items():
                if other > line:
                    if written.level <= level:
                        break
                    block.append(other)
            if gone.issuperset(block):
                gone.add(line)
                yield line


def _positions(nodes: Sequence[SyntaxNode], gone: set[int], tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the positions of the tokens of some nodes of a list, and of the commas that go with them."""
    if not gone:
        return
    starts = [_first(node) for node in nodes]
    last = _last(nodes[-1], tokens)
    has_comma = last + 1 < len(tokens) and tokens[last + 1].kind == "COMMA"
    bounds = [*starts, last + (2 if has_comma else 1)]
    for at in gone:
        yield from range(bounds[at], bounds[at + 1])
    tail = max(at for at in range(len(nodes)) if at not in gone)
    if tail < len(nodes) - 1 and not has_comma:  # the comma behind the last one that stays
        yield bounds[tail + 1] - 1


def _first(node: SyntaxNode) -> int:
    child = node.children[0]
    return _first(child) if isinstance(child, SyntaxNode) else int(child)


def _last(node: SyntaxNode, tokens: Sequence[Token]) -> int:
    """Return the position of the last token of a node, its closing bracket included."""
    child = node.children[-1] if node.children else None
    at = _last(child, tokens) if isinstance(child, SyntaxNode) else int(child or 0)
    if node.rule != "condition":
        return at
    depth, at = 0, _first(node) + 1  # the bracket that opens the table
    for position in range(at, len(tokens)):
        depth += (tokens[position].kind == "LBRACE") - (tokens[position].kind == "RBRACE")
        if depth == 0:
            return position
    return len(tokens) - 1


def _cut(lines: list[str | None], statement: Statement, drop: set[int]) -> None:
    """Cut tokens out of the rows of a statement; a row that has no other tokens goes, but for its comment."""
    start = 0
    for row in statement.rows:
        text = lines[row.number - 1] or ""
        gone = [start + at in drop for at in range(len(row.tokens))]
        start += len(row.tokens)
        if row.tokens and all(gone):
            lines[row.number - 1] = _comment_alone(text, row.comment)
            continue
        for begin, end in reversed(list(_spans(row.tokens, gone))):
            text = text[:begin] + text[end:]
        lines[row.number - 1] = text


def _spans(tokens: Sequence[Token], gone: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of characters to cut for the tokens of a row that go, each with the space on one side."""
    at = 0
    while at < len(tokens):
        if not gone[at]:
            at += 1
            continue
        first = at
        while at < len(tokens) and gone[at]:
            at += 1
        before = tokens[first - 1] if first else None
        after = tokens[at] if at < len(tokens) else None
        if before is not None and (after is None or after.kind in ("COLON", "COMMA")):
            yield _end(before), _end(tokens[at - 1])
        else:
            yield tokens[first].column, _end(tokens[at - 1]) if after is None else after.column


def _end(token: Token) -> int:
    return token.column + len(token.text)


def _drop(lines: list[str | None], statement: Statement) -> None:
    """Drop the rows of a statement; their comments stay, indented as the statement was."""
    first = lines[statement.rows[0].number - 1] or ""
    for row in statement.rows:
        text = lines[row.number - 1] or ""
        lines[row.number - 1] = _comment_alone(_indent_of(first) + text.lstrip(" \t"), row.comment)


def _comment_alone(text: str, comment: str) -> str | None:
    """Return the comment of a row at the indentation of the row; None if it has none."""
    if not comment:
        return None
    return _indent_of(text) + comment + ("\r" if text.endswith("\r") else "")


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _without_double_blanks(lines: Sequence[str | None]) -> Iterator[str]:
    """Yield the lines that are left, without the blank line that would follow another one where lines are gone."""
    joined, blank = False, True
    for at, line in enumerate(lines):
        if line is None:
            joined = True
        elif not (joined and blank and not line.strip()) or at == len(lines) - 1:
            joined, blank = False, not line.strip()
            yield line
