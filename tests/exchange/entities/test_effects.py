"""What has an effect, by name and by value; and what is advised has one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bindings.checking.check import check
from bindings.sources.document import Document
from exchange import Exchange, Queue
from exchange.entities.effects import NAMES, OF_QUEUES, explain_name
from exchange.entities.in_force import Policies
from exchange.entities.policy_definitions import SETTINGS
from exchange.entities.queue_arguments import RULES
from exchange.entities.releases import PROFILES, ROWS
from exchange.errors import HashstarError

WRITTEN = (
    ("queue q: {}", 'dead-letter-exchange "dead"', 'x-dead-letter-exchange = "dead"'),
    ("queue q: quorum, {}", "max-length 5", "x-max-length = 5"),
    ("queue q: {}", "x-max-lenght 5", "x-max-length = 5"),
    ("queue q: {}", "ttl 5", "x-message-ttl = 5"),
    ("queue q: {}", "overflow reject-publish", 'x-overflow = "reject-publish"'),
    ("exchange e: topic, {}", 'alternate-exhange "u"', 'alternate-exchange = "u"'),
    ("queue q\npolicy p: '^q', queues, {}", "x-max-length 5", "max-length = 5"),
)


@pytest.mark.parametrize(("text", "wrong", "right"), WRITTEN)
def test_following_the_advice_about_a_missing_equals_sign_works(text: str, wrong: str, right: str) -> None:
    with pytest.raises(HashstarError) as caught:
        Document.loads(text.format(wrong)).topology()
    [advice] = re.findall(r"an argument has an equals sign: (.*)", str(caught.value).splitlines()[0])
    assert advice == right
    assert not found_in(text.format(advice))


def found_in(text: str) -> list[str]:
    return [
        finding.message
        for finding in check(Document.loads(text).topology())
        if finding.code in ("HS605", "HS606", "HS607", "HS707", "HS709")
    ]


SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda name: name[:-3] + name[-2] + name[-3] + name[-1],
    lambda name: name.replace("-", "_"),
    lambda name: name.removeprefix("x-").upper(),
    lambda name: name.replace("-", ""),
    lambda name: f"x-{name}",
    lambda name: name[:-1],
)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_what_is_meant_by_a_misspelt_argument_has_an_effect(profile: object) -> None:
    """For all arguments, in six misspellings: the finding's advice names an argument that has an effect there."""
    rules = next(each for each in PROFILES.values() if each is profile)
    queues = [Queue("q", arguments={"x-queue-type": kind}) for kind in ("classic", "quorum", "stream")]
    named = 0
    parts: list[Queue | Exchange] = [*queues, Exchange("e", "topic"), Exchange("e", "x-consistent-hash")]
    for part in parts:
        for name in NAMES["queue" if isinstance(part, Queue) else "exchange"]:
            for spell in SPELLINGS:
                if spell(name) in NAMES["queue"] | NAMES["exchange"]:
                    continue
                why = explain_name(part, spell(name), rules)
                assert why is not None, (part, spell(name))
                if why.meant is not None:
                    named += 1
                    assert explain_name(part, why.meant, rules) is None
    assert named > 100


def test_the_table_knows_what_brokers_accept() -> None:
    assert RULES.keys() <= NAMES["queue"]
    for row in ROWS:
        rules = row.profile.settings
        assert rules.all_arguments <= NAMES["queue"]
        assert rules.policy_settings <= NAMES["policy"]
        assert rules.policy_settings <= SETTINGS.keys() | {"ha-mode"}
        ignored = rules.classic_ignores | rules.quorum_ignores | rules.stream_ignores
        assert ignored <= OF_QUEUES.keys()
    assert all(reach.argument or reach.policy for reach in OF_QUEUES.values())


@pytest.mark.parametrize(
    ("arguments", "policy", "ineffective"),
    [
        ('quorum, x-overflow = "reject-publish-dlx"', "", {"x-overflow"}),
        ('x-overflow = "reject-publish-dlx"', "", set()),
        ('quorum, x-dead-letter-strategy = "at-most-once"', "", {"x-dead-letter-strategy"}),
        ("x-max-length = 5", 'dead-letter-routing-key = "k"', {"dead-letter-routing-key"}),
        ('x-dead-letter-exchange = ""', 'dead-letter-routing-key = "k"', set()),
        ('quorum, x-delivery-limit = "5"', "", {"x-delivery-limit"}),
        ('quorum, x-delayed-retry-type = "al", x-delayed-retry-min = 5', "",
         {"x-delayed-retry-type", "x-delayed-retry-min"}),
        ('quorum, x-delayed-retry-type = "all"', "delayed-retry-min = 5", set()),
        ("x-queue-version = 2", "", set()),
        ('x-match = "any", owner = "a", dead-letter-strategy = "at-least-once"', "",
         {"x-match", "owner", "dead-letter-strategy"}),
        ("quorum, x-max-in-memory-length = 5", "max-in-memory-bytes = 5",
         {"x-max-in-memory-length", "max-in-memory-bytes"}),
        ("", "alternate-exchange = 'a', expires = 5", {"alternate-exchange"}),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_not_in_force(arguments: str, policy: str, ineffective: set[str]) -> None:
    text = f"queue q: {arguments}" if arguments else "queue q"
    topology = Document.loads(text + (f"\npolicy p: '^q', queues, {policy}" if policy else "")).topology()
    [settings] = Policies(topology.policies, profile=topology.profile).possible_settings(topology.queues["q"])
    assert set(settings.without_effect) == ineffective
    assert not {name.removeprefix("x-") for name in ineffective} & settings.values.keys()
    found = " ".join(found_in(text + (f"\npolicy p: '^q', queues, {policy}" if policy else "")))
    assert all(f"'{name}'" in found for name in ineffective)
