"""What a ``.bindings`` file has and RabbitMQ's definitions lack: definitions hold it under a key of our own.

RabbitMQ's import ignores top-level keys that it does not know (seen with 3.10.8, 4.0.5 and 4.3.6, for a cluster and for
one virtual host), so it imports such a file like any other. Exports of a broker do not have the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bindings.sources.language.expectations import Expectation
from exchange.entities.profile import Profile
from exchange.entities.releases import RELEASES, find_profile_by_name
from exchange.errors import HashstarError, InputError
from exchange.partition.partitioning.specification import Partitioning

KEY: Final = "hashstar"


@dataclass(frozen=True, slots=True)
class Additions:
    """The profile, and for each virtual host the partitioning of queues and the expectations."""

    profile: Profile | None = None
    partitionings: Mapping[str, Mapping[str, Partitioning]] = field(default_factory=dict)
    expectations: Mapping[str, tuple[Expectation, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Any) -> Additions:
        """Read what `to_json` wrote; None gives empty additions. Raises InputError, which names the position in it."""
        if value is None:
            return cls()
        name = _require(value, dict, KEY).get("profile")
        profile = find_profile_by_name(name) if isinstance(name, str) else None
        if name is not None and profile is None:
            raise InputError(f"{KEY}.profile: no profile {name!r}; there are {RELEASES}")
        partitionings: dict[str, dict[str, Partitioning]] = {}
        for index, item in enumerate(_require(value.get("partitioned", []), list, f"{KEY}.partitioned")):
            place = f"{KEY}.partitioned[{index}]"
            vhost, queue, text = (_read_text(item, key, place) for key in ("vhost", "queue", "partitioning"))
            try:
                partitionings.setdefault(vhost, {})[queue] = Partitioning.parse(text)
            except HashstarError as error:
                raise InputError(f"{place}: {error}") from None
        expectations: dict[str, list[Expectation]] = {}
        for index, item in enumerate(_require(value.get("expectations", []), list, f"{KEY}.expectations")):
            place = f"{KEY}.expectations[{index}]"
            vhost = _read_text(item, "vhost", place)
            try:
                expectations.setdefault(vhost, []).append(Expectation.from_json(item))
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
        return cls(profile, partitionings, {vhost: tuple(each) for vhost, each in expectations.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the additions as a JSON object, empty if there are none."""
        value: dict[str, Any] = {} if self.profile is None else {"profile": self.profile.written}
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
            value["partitioned"] = partitioned
        if expectations:
            value["expectations"] = expectations
        return value

    def with_partitionings(self, partitionings: Mapping[str, Mapping[str, Partitioning]]) -> Additions:
        """Return these additions with other partitionings in some virtual hosts."""
        return replace(self, partitionings=_with(self.partitionings, partitionings))

    def with_expectations(self, expectations: Mapping[str, tuple[Expectation, ...]]) -> Additions:
        """Return these additions with other expectations of some virtual hosts."""
        return replace(self, expectations=_with(self.expectations, expectations))


def _with(by_vhost: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {vhost: value for vhost, value in {**by_vhost, **new}.items() if value}


def _require(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{place} is not an {'object' if kind is dict else 'array'}")
    return value


def _read_text(item: Any, key: str, place: str) -> str:
    text = _require(item, dict, place).get(key)
    if not isinstance(text, str):
        raise InputError(f'{place}: "{key}" is not a string')
    return text
