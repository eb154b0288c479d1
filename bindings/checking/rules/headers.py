"""5xx: conditions of headers bindings that most likely do not do what their author meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from bindings.analysis.header_conditions import list_conjunctions
from bindings.checking.rules.finding import Finding, quote_binding, quote_exchange
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile
from exchange.kinds import Decider
from exchange.kinds.headers import list_conditions, match_mode, normalise_value
from exchange.values.field_values import resolve_type
from exchange.values.notation import write_value

SCALARS: Final = ("bool", "byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long",
                  "float", "double", "longstr", "binary")  # fmt: skip
"""Types whose values can look alike to a reader of the topology."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about the arguments of headers bindings."""
    profile = view.topology.profile
    for name, (kind, bindings) in view.deciding.items():
        if kind.decider is Decider.HEADERS:
            for binding in bindings:
                yield from _conditions(binding, profile)
            yield from _types(name, bindings, profile)


def _conditions(binding: Binding, profile: Profile) -> Iterator[Finding]:
    mode = match_mode(binding)
    if not list_conjunctions(binding, profile):
        reason = (
            "RabbitMQ sees no such header" if list_conditions(binding, profile) else f"'{mode}' of no headers is none"
        )
        yield Finding("HS501", binding, f"{quote_binding(binding)} matches nothing: {reason}")
    elif mode.startswith("all") and not list_conditions(binding, profile):
        yield Finding("HS502", binding, f"{quote_binding(binding)} matches every message")
    for argument, value in binding.arguments.items():
        if argument == "x-match":
            continue
        if _reads_as_x_match(argument):
            message = f"{quote_binding(binding)} has '{argument}', which is not 'x-match'"
            yield Finding("HS504", binding, message, detail=argument)
        elif argument.startswith("x-") and not mode.endswith("-with-x"):
            message = f"{quote_binding(binding)} ignores the header '{argument}'"
            yield Finding("HS503", binding, message, detail=argument)
        elif resolve_type(value)[0] == "timestamp" and profile.timestamps_in_milliseconds:
            message = f"{quote_binding(binding)} matches no message with an equal timestamp in '{argument}'"
            yield Finding("HS506", binding, message, detail=argument)


def _reads_as_x_match(argument: str) -> bool:
    return argument != "x-match" and argument.lower().replace("_", "-").replace(" ", "") in ("x-match", "xmatch")


def _types(exchange: str, bindings: Collection[Binding], profile: Profile) -> Iterator[Finding]:
    """Yield HS505, once for each header: values in bindings that look alike and are compared as different."""
    asked: dict[tuple[str, str], tuple[object, Binding]] = {}
    reported: set[str] = set()
    for binding in bindings:
        for header, value in binding.arguments.items():
            kind = resolve_type(value)[0]
            if header == "x-match" or header in reported or kind not in SCALARS:
                continue
            compared = normalise_value(value, profile, from_message=False)
            other, where = asked.setdefault((header, _appearance(value)), (compared, binding))
            if other != compared:
                reported.add(header)
                one, another = write_value(where.arguments[header]), write_value(value)
                message = (
                    f"{quote_exchange(exchange)} is asked for header '{header}' as {one} and as {another}, "
                    f"which differ: {quote_binding(where)}; {quote_binding(binding)}"
                )
                yield Finding("HS505", binding, message, related=(where,), detail=header)


def _appearance(value: object) -> str:
    """Return a value as it looks to a reader who does not see its type."""
    bare = resolve_type(value)[1]
    text = bare.decode("utf-8", "replace") if isinstance(bare, bytes) else str(bare)
    return text.strip().lower().removesuffix(".0")
