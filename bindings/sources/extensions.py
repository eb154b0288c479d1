"""What a ``.bindings`` file says that RabbitMQ's definitions have no place for: a key of our own holds it.

RabbitMQ's import ignores top-level keys that it does not know (seen with 3.10.8, 4.0.5 and 4.3.6, of a cluster and of
one virtual host), so such a file is imported as any other; the broker's own exports do not have the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bindings.sources.language.expectations import Expectation
from exchange.entities.profile import RELEASES, Profile, profile_by_name
from exchange.errors import HashstarError, InputError
from exchange.partition.partitioning.specification import Partitioning

__all__ = ["KEY", "Additions"]

KEY: Final = "hashstar"


@dataclass(frozen=True, slots=True)
class Additions:
    """The profile, and by virtual host how queues are partitioned and what is expected."""

    profile: Profile | None = None
    partitionings: Mapping[str, Mapping[str, Partitioning]] = field(default_factory=dict)
    expectations: Mapping[str, tuple[Expectation, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Any) -> Additions:
        """Read what `to_json` wrote, or None. Raises InputError naming the place in it."""
        if value is None:
            return cls()
        name = _item(value, dict, KEY).get("profile")
        profile = profile_by_name(name) if isinstance(name, str) else None
        if name is not None and profile is None:
            raise InputError(f"{KEY}.profile: no profile {name!r}; there are {RELEASES}")
        partitionings: dict[str, dict[str, Partitioning]] = {}
        for index, item in enumerate(_item(value.get("partitioned", []), list, f"{KEY}.partitioned")):
            place = f"{KEY}.partitioned[{index}]"
            vhost, queue, text = (_text(item, key, place) for key in ("vhost", "queue", "partitioning"))
            try:
                partitionings.setdefault(vhost, {})[queue] = Partitioning.parse(text)
            except HashstarError as error:
                raise InputError(f"{place}: {error}") from None
        expectations: dict[str, tuple[Expectation, ...]] = {}
        for index, item in enumerate(_item(value.get("expectations", []), list, f"{KEY}.expectations")):
            place = f"{KEY}.expectations[{index}]"
            vhost = _text(item, "vhost", place)
            try:
                expectations[vhost] = (*expectations.get(vhost, ()), Expectation.from_json(item))
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
        return cls(profile, partitionings, expectations)

    def to_json(self) -> dict[str, Any]:
        """As an object, which has nothing in it when there is nothing to say."""
        told: dict[str, Any] = {} if self.profile is None else {"profile": self.profile.name}
        partitioned = [
            {"vhost": vhost, "queue": queue, "partitioning": str(partitioning)}
            for vhost, queues in self.partitionings.items()
            for queue, partitioning in queues.items()
        ]
        expectations = [
            {"vhost": vhost, **expectation.to_json()}
            for vhost, expected in self.expectations.items()
            for expectation in expected
        ]
        if partitioned:
            told["partitioned"] = partitioned
        if expectations:
            told["expectations"] = expectations
        return told

    def with_partitionings(self, vhost: str, queues: Mapping[str, Partitioning]) -> Additions:
        """Those of a virtual host replaced."""
        return replace(self, partitionings=_with(self.partitionings, vhost, queues))

    def with_expectations(self, vhost: str, expectations: tuple[Expectation, ...]) -> Additions:
        """Those of a virtual host replaced."""
        return replace(self, expectations=_with(self.expectations, vhost, expectations))


def _with(all_of_them: Mapping[str, Any], vhost: str, new: Any) -> dict[str, Any]:
    if new:
        return {**all_of_them, vhost: new}
    return {name: value for name, value in all_of_them.items() if name != vhost}


def _item(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{place} is not an {'object' if kind is dict else 'array'}")
    return value


def _text(item: Any, key: str, place: str) -> str:
    text = _item(item, dict, place).get(key)
    if not isinstance(text, str):
        raise InputError(f'{place}: "{key}" is not a string')
    return text
