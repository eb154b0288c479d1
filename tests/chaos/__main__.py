"""``make chaos``: the bridge and its brokers are killed and restarted, its connections cut, stalled and slowed.

Numbered messages go through a real ``hashstar bridge run``, pair by pair, between brokers in containers: those that
`tests.servers` would start. 0 lost, 0 out of order for each key (first arrivals), and no more duplicates than the
window for each fault, twice that for a killed broker; else the exit code is 1, and what is wrong is printed with
where it was.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from tests.chaos.brokers import Brokers
from tests.chaos.places import PAIRS
from tests.chaos.run import Amount, run
from tests.chaos.table import told
from tests.servers import Unavailable

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
    pairs: Sequence[str], seed: int | None, folder: Path,
) -> None:  # fmt: skip
    amount = Amount(messages, keys, kills, restarts, broker_kills, cuts, window)
    seed = random.randrange(10**6) if seed is None else seed
    own = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"  # a folder of the run's: an archive must be empty at first
    print(f"chaos: seed {seed}, logs in {own}", flush=True)
    outcomes = []
    try:
        with Brokers() as brokers:
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


def _progress(pair: str) -> Callable[[str], None]:
    """Shows the last thing that happened, on a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda line: print(f"\r\x1b[K{pair}: {line[:100]}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
