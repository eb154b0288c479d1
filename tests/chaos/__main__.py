"""``make chaos``: the bridge and its brokers are killed and restarted, its connections cut, stalled and slowed.

Numbered messages go through a real ``hashstar bridge run``, pair by pair, between brokers in containers, with the
images of `tests.support.servers`. No message may be lost or, in the order of first arrivals, out of order for its key;
and there may be no more duplicates than the window for each fault, twice that for a killed broker. Else the exit code
is 1, and each problem is printed with its position.

With ``--scenario`` it plays scenarios instead, each a trial of its own: brokers that freeze or are full, queues and
topics that are deleted, permissions that are revoked, odd messages. Then a message may become a dead letter only for
its own fault, and a bridge that cannot move messages must show it within 15 s.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from tests.chaos.kinds import Brokers, rounds_of
from tests.chaos.pairs import PAIRS
from tests.chaos.run import Amount, run
from tests.chaos.scenarios import SCENARIOS, Scenario, play
from tests.chaos.table import outcome_lines, trial_lines
from tests.chaos.trial import TrialResult
from tests.support.starting import Unavailable

FOLDER: Final = Path("build/chaos")
FULL: Final = Amount()
ANY: Final = click.IntRange(min=0)
SOME: Final = click.IntRange(min=1)


@click.command(help=__doc__)
@click.option("--messages", type=SOME, default=FULL.messages, show_default=True)
@click.option("--keys", type=SOME, default=FULL.keys, show_default=True)
@click.option("--kills", type=ANY, default=FULL.kills, show_default=True, help="Kills of the bridge, with SIGKILL.")
@click.option(
    "--restarts", type=ANY, default=FULL.restarts, show_default=True, help="Restarts of brokers, with SIGTERM."
)
@click.option(
    "--broker-kills", type=ANY, default=FULL.broker_kills, show_default=True, help="Kills of brokers, with SIGKILL."
)
@click.option("--cuts", type=ANY, default=FULL.cuts, show_default=True, help="Connections cut, stalled or slowed.")
@click.option("--window", type=SOME, default=FULL.window, show_default=True, help="Window of the bridge, in messages.")
@click.option(
    "--pair", "pairs", type=click.Choice([*PAIRS]), multiple=True, help="Run only this pair; may be repeated."
)
@click.option(
    "--scenario", "scenarios", type=click.Choice(["all", *dict.fromkeys(each.name for each in SCENARIOS)]),
    multiple=True, metavar="NAME", help="Play the scenarios with this name instead, or all; may be repeated.",
)  # fmt: skip
@click.option("--variant", default="", help="Play only scenarios whose variant contains this text.")
@click.option("--list", "only_list", is_flag=True, help="List the scenarios and exit.")
@click.option(
    "--image", "images", multiple=True,
    help="Image of a broker, instead of the first one of its variable; scenarios are played with each image of a kind.",
)  # fmt: skip
@click.option("--short", is_flag=True, help="Play scenarios as CI does: faults last only until they are seen.")
@click.option("--seed", type=int, help="Seed of the faults; printed, so that a run can be repeated.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    help="Folder for logs, with one folder in it for each run.",
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
    if scenarios and not chosen:
        raise click.UsageError(f"no scenario of these names has {variant!r} in its variant")
    own = folder.resolve() / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"  # a new one, as archives must be empty at first
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
                print("\n".join(outcome_lines(outcomes[-1:])), flush=True)
            versions = brokers.versions
    except Unavailable as reason:
        print(f"chaos: {reason}", file=sys.stderr)
        sys.exit(2)
    print(f"\nchaos: seed {seed}, window {window:,}, {versions}")
    print("\n".join(outcome_lines(outcomes)))
    sys.exit(any(outcome.problems for outcome in outcomes))


def _play(chosen: Sequence[Scenario], images: Sequence[str], folder: Path, *, short: bool) -> int:
    """Play scenarios with all images; return the exit code."""
    results: list[TrialResult] = []
    played: set[tuple[str, ...]] = set()
    for n, own in enumerate(rounds_of(images), 1):
        with Brokers(own) as brokers:
            for scenario in chosen:
                # A scenario whose images are the same as in an earlier round is not played again.
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
