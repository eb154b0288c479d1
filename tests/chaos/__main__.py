"""``make chaos``: the bridge and its brokers are killed and restarted, its connections cut, stalled and slowed.

Numbered messages go through a real ``hashstar bridge run``, pair by pair, between brokers in containers: those that
`tests.support.servers` would start. 0 lost, 0 out of order for each key (first arrivals), and no more duplicates than
the window for each fault, twice that for a killed broker; else the exit code is 1, and what is wrong is printed with
where it was.

With ``--scenario`` it plays scenarios instead, each a trial of its own: brokers that freeze or are full, queues and
topics that are deleted, rights that are revoked, odd messages. Then nothing may become a dead letter that is not its
message's own fault, and a bridge that cannot move must show it within 15 s.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from tests.chaos.brokers import Brokers, rounds_of
from tests.chaos.places import PAIRS
from tests.chaos.run import Amount, run
from tests.chaos.scenarios import SCENARIOS, Scenario, play
from tests.chaos.table import told, trial_lines
from tests.chaos.trial import TrialResult
from tests.support.servers import Unavailable

FOLDER: Final = Path("build/chaos")
FULL: Final = Amount()
ANY: Final = click.IntRange(min=0)
SOME: Final = click.IntRange(min=1)


@click.command(help=__doc__)
@click.option("--messages", type=SOME, default=FULL.messages, show_default=True)
@click.option("--keys", type=SOME, default=FULL.keys, show_default=True)
@click.option("--kills", type=ANY, default=FULL.kills, show_default=True, help="Of the bridge, with SIGKILL.")
@click.option("--restarts", type=ANY, default=FULL.restarts, show_default=True, help="Of brokers, with SIGTERM.")
@click.option("--broker-kills", type=ANY, default=FULL.broker_kills, show_default=True, help="With SIGKILL.")
@click.option("--cuts", type=ANY, default=FULL.cuts, show_default=True, help="Connections cut, stalled or slowed.")
@click.option("--window", type=SOME, default=FULL.window, show_default=True, help="The bridge's.")
@click.option("--pair", "pairs", type=click.Choice([*PAIRS]), multiple=True, help="Only this; may be given again.")
@click.option(
    "--scenario", "scenarios", type=click.Choice(["all", *dict.fromkeys(each.name for each in SCENARIOS)]),
    multiple=True, metavar="NAME", help="Play all scenarios of this name instead, or all; may be given again.",
)  # fmt: skip
@click.option("--variant", default="", help="Of those only such whose variant contains this.")
@click.option("--list", "only_list", is_flag=True, help="List the scenarios, and do nothing.")
@click.option(
    "--image", "images", multiple=True,
    help="Of a broker, instead of the first of its variable; of several of a kind, scenarios are played with each.",
)  # fmt: skip
@click.option("--short", is_flag=True, help="Play scenarios as CI does: faults last only until they were seen.")
@click.option("--seed", type=int, help="Which faults, when; printed, so that they can be had again.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    help="For logs, a folder below it for each run.",
)
def main(
    messages: int, keys: int, kills: int, restarts: int, broker_kills: int, cuts: int, window: int,
    pairs: Sequence[str], scenarios: Sequence[str], variant: str, only_list: bool, images: Sequence[str], short: bool,
    seed: int | None, folder: Path,
) -> None:  # fmt: skip
    chosen = [each for each in SCENARIOS if {each.name, "all"} & {*scenarios} and variant.lower() in each.title.lower()]
    if only_list:
        print("\n".join(each.title for each in chosen or SCENARIOS))
        return
    own = folder.resolve() / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"  # an archive must be empty at first
    if scenarios:
        sys.exit(_play(chosen, images, own, short=short))
    amount = Amount(messages, keys, kills, restarts, broker_kills, cuts, window)
    seed = random.randrange(10**6) if seed is None else seed
    print(f"chaos: seed {seed}, logs in {own}", flush=True)
    outcomes = []
    try:
        with Brokers(next(rounds_of(images))) as brokers:
            for name in pairs or PAIRS:
                pair = PAIRS[name]
                outcomes.append(run(pair, amount, seed, brokers, own / name, _progress(pair.name)))
                print("\n".join(told(outcomes[-1:])), flush=True)
            versions = brokers.versions
    except Unavailable as reason:
        print(f"chaos: {reason}", file=sys.stderr)
        sys.exit(2)
    print(f"\nchaos: seed {seed}, window {window:,}, {versions}")
    print("\n".join(told(outcomes)))
    sys.exit(any(outcome.problems for outcome in outcomes))


def _play(chosen: Sequence[Scenario], images: Sequence[str], folder: Path, *, short: bool) -> int:
    """Play these with all images; the exit code."""
    results: list[TrialResult] = []
    played: set[tuple[str, ...]] = set()
    for n, own in enumerate(rounds_of(images), 1):
        with Brokers(own) as brokers:
            for scenario in chosen:
                # An image that is not among those of this round is the same in each.
                key = (scenario.title, *[own.get(kind, "") for kind in brokers.images_of(scenario.kinds)])
                if key in played:
                    continue
                played.add(key)
                print(f"chaos: {scenario.title}, {len(results) + 1} ...", file=sys.stderr, flush=True)
                try:
                    result = play(scenario, brokers, folder / f"{scenario.key}-{n}", short=short)
                except Unavailable as reason:
                    result = TrialResult(scenario.title, "-", problems=[f"not played: {reason}"])
                results.append(result)
                print("\n".join([*trial_lines([result])][2:]), f"({result.seconds:.0f} s)", flush=True)
    print(f"\nchaos: {len(results)} scenarios, logs in {folder}")
    print("\n".join(trial_lines(results)))
    return int(any(result.problems for result in results))


def _progress(pair: str) -> Callable[[str], None]:
    """Show the last event on a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda line: print(f"\r\x1b[K{pair}: {line[:100]}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
