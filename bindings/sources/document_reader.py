"""Read the text of a ``.bindings`` file: carry out its statements in order, with ``for``, ``let`` and ``vhost``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from bindings.sources.language import statements
from bindings.sources.language.blocks import find_levels
from bindings.sources.language.errors import Mistake
from bindings.sources.language.expectations import Expectation
from bindings.sources.language.syntax import Shapes, SyntaxNode, parse
from bindings.sources.language.tokens import SourceLine, Statement, Token, split_runs, split_statements
from bindings.sources.language.values import ExpansionBudget, Terms, VariableValue
from bindings.sources.section import Section, identify_part
from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.entities.profile import Profile
from exchange.entities.releases import RELEASES, find_profile_by_name
from exchange.errors import InputError
from exchange.topology.topology import Topology

DEFAULT_VHOST: Final = "/"

Observe: TypeAlias = Callable[[str, int, int, Part], None]
"""Function that takes a part, with the virtual host, the line of the statement and the number of the part in it."""


class DocumentContent(NamedTuple):
    """What a text describes."""

    sections: dict[str, Section]
    """Virtual host -> its section; at least one."""
    profile: Profile | None
    again: tuple[tuple[int, str], ...]
    """Line of each repeated binding, with the text of a warning."""


def read(
    text: str, name: str = "bindings", observe: Observe = lambda vhost, line, number, part: None
) -> DocumentContent:
    """Return what a text describes. Raises LanguageError, with the ``name``, for the first mistake.

    ``observe`` is called with each part that is declared, again for a binding that exists already; the statements of a
    ``for`` declare parts in each of its repetitions.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    reader = _DocumentReader(observe)
    try:
        reader.run(find_levels(split_statements(split_runs(lines))), {})
    except Mistake as mistake:
        raise mistake.in_file(name, lines) from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None
    return reader.content()


class _Vhost:
    """Everything declared so far in one virtual host, each part with its line."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, str], tuple[Exchange | Queue | Policy, int]] = {}
        self.bindings: dict[Binding, int] = {}
        self.expectations: list[Expectation] = []

    def section(self, vhost: str, profile: Profile | None) -> Section:
        parts = [part for part, _ in self.parts.values()]
        topology = Topology(
            [part for part in parts if isinstance(part, Exchange)],
            [part for part in parts if isinstance(part, Queue)],
            self.bindings,
            [part for part in parts if isinstance(part, Policy)],
            vhost=vhost,
        )
        lines = {identity: line for identity, (_, line) in self.parts.items()}
        return Section(
            topology if profile is None else topology.with_profile(profile),
            tuple(self.expectations),
            lines,
            self.bindings,
        )


class _DocumentReader:
    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._vhosts: dict[str, _Vhost] = {}
        self._vhost = DEFAULT_VHOST
        self._profile: Profile | None = None
        self._again: list[tuple[int, str]] = []
        self._shapes: Shapes = {}
        self._destinations: dict[tuple[str, str], Destination] = {}
        self._budget = ExpansionBudget()
        self._loops = 0
        """Number of ``for`` around the statement that is carried out."""

    def content(self) -> DocumentContent:
        """Return all that has been read."""
        vhosts = self._vhosts or {DEFAULT_VHOST: _Vhost()}
        sections = {vhost: declared.section(vhost, self._profile) for vhost, declared in vhosts.items()}
        return DocumentContent(sections, self._profile, tuple(self._again))

    def run(self, lines: Iterable[tuple[int, Statement]], scope: dict[str, tuple[VariableValue, ...]]) -> None:
        """Carry out the statements of one level; deeper ones are carried out by the ``for`` above them."""
        # A ``for`` runs only when its whole block is known: at the next statement of its own level, or at the end.
        loop: tuple[SyntaxNode, list[Token]] | None = None
        block: list[tuple[int, Statement]] = []
        named: dict[str, int] = {}
        level: int | None = None
        for depth, statement in lines:
            tokens = statement.tokens
            if not tokens:
                continue
            if level is None:
                level = depth
            if depth > level:
                block.append((depth, statement))
                continue
            if loop is not None:
                self._repeat(*loop, block, scope)
                loop, block = None, []
            if statement.rows[0].run:  # at the outermost level, since it is not indented
                self._declare_run(statement.rows[0])
                continue
            if self._loops:
                self._budget.repeat(tokens[0])
            node = parse(tokens, self._shapes)
            if node.rule == "for":
                loop = node, tokens
            elif node.rule == "let":
                self._let(node, tokens, scope, named)
            else:
                self._declare(node, Terms(tokens, scope, self._budget))
        if loop is not None:
            self._repeat(*loop, block, scope)

    def _repeat(
        self,
        node: SyntaxNode,
        tokens: list[Token],
        block: list[tuple[int, Statement]],
        scope: dict[str, tuple[VariableValue, ...]],
    ) -> None:
        """Carry out the block of a ``for``, once for each of its values."""
        variable = tokens[1].text
        _check_variable(tokens[1])
        terms = Terms(tokens, scope, self._budget)
        (listed,) = node.nodes("items")
        # A single bare name is a variable with its list of values; anything else is the list itself.
        first = tokens[listed.children[0]]
        if len(listed.children) == 1 and first.kind == "NAME" and "{" not in first.text:
            items = terms.variable(first.text, first)
        else:
            items = statements.read_items(listed, terms)
        around = self._vhost
        self._loops += 1
        for item in items:
            try:
                self.run(block, {**scope, variable: (item,)})
            except Mistake as mistake:
                mistake.message += f" (where {variable} is {item.text})"
                raise
            self._vhost = around  # each repetition begins in the virtual host of the ``for``
        self._loops -= 1

    def _let(
        self, node: SyntaxNode, tokens: list[Token], scope: dict[str, tuple[VariableValue, ...]], named: dict[str, int]
    ) -> None:
        token = tokens[1]
        _check_variable(token)
        if token.text in named:
            raise Mistake(f"{token.text} has values already, from line {named[token.text]}", token)
        named[token.text] = token.line
        scope[token.text] = statements.read_items(node.nodes("items")[0], Terms(tokens, scope, self._budget))

    def _declare(self, node: SyntaxNode, terms: Terms) -> None:
        rule, line = node.rule, terms.tokens[0].line
        if rule == "binding":
            known = self._here.bindings
            read = statements.read_bindings(node, terms, self._destinations)
            for number, (binding, own_line) in enumerate(read):
                if number:
                    self._budget.repeat(terms.tokens[0])
                self._observe(self._vhost, line, number, binding)
                first = known.setdefault(binding, own_line)
                if first != own_line:
                    self._again.append((own_line, f"this binding exists already, from line {first}"))
        elif rule == "expect":
            self._here.expectations.extend(statements.read_expectations(node, terms))
        elif rule == "vhost":
            self._vhost = terms.text(node.children[1])
            self._vhosts.setdefault(self._vhost, _Vhost())
        elif rule == "profile":
            self._set_profile(terms, node.children[1])
        else:
            part = statements.DECLARATIONS[rule](node, terms)
            identity = identify_part(part)
            known_part = self._here.parts.get(identity)
            if known_part is not None:
                what = f"{identity[0]} {part.name!r}"
                raise Mistake(f"{what} is declared already, in line {known_part[1]}", terms.tokens[1])
            self._here.parts[identity] = part, line
            self._observe(self._vhost, line, 0, part)

    def _declare_run(self, row: SourceLine) -> None:
        """Declare the bindings of a run of plain lines: a short way for what `_declare` does one by one."""
        known, destinations, vhost = self._here.bindings, self._destinations, self._vhost
        source = ""
        for line, (name, queue, key) in enumerate(row.run, row.number):
            if name != source:
                source = name  # the same text for all bindings of an exchange
            destination = destinations.get(("queue", queue))
            if destination is None:
                destination = destinations["queue", queue] = Destination("queue", queue)
            binding = Binding(source, destination, key)
            self._observe(vhost, line, 0, binding)
            first = known.setdefault(binding, line)
            if first != line:
                self._again.append((line, f"this binding exists already, from line {first}"))

    @property
    def _here(self) -> _Vhost:
        if self._vhost not in self._vhosts:
            self._vhosts[self._vhost] = _Vhost()
        return self._vhosts[self._vhost]

    def _set_profile(self, terms: Terms, position: int) -> None:
        name, token = terms.text(position), terms.tokens[position]
        if self._profile is not None:
            raise Mistake("the profile is given already; a file has one", token)
        self._profile = find_profile_by_name(name)
        if self._profile is None:
            raise Mistake(f"no profile {name!r}; there are {RELEASES}", token)


def _check_variable(token: Token) -> None:
    if not re.fullmatch(r"[^\W\d]\w*", token.text):
        raise Mistake(f"{token.text!r} cannot be a variable: letters, digits and _, no digit first", token)
