"""Full disks: that of Kafka, whose broker halts then, and that of an archive; and a folder that is moved away."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos.brokers import SmallDiskBroker
from tests.chaos.places import Folder, Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.starting import Unavailable

FULL: Final = 40.0
SMALL_DISK: Final = "kafka on a small disk"


def _kafka(trial: Trial) -> Sequence[Writable]:
    broker = trial.brokers[SMALL_DISK]
    assert isinstance(broker, SmallDiskBroker)
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder, kind=SMALL_DISK))
    trial.put(source, 6_000)
    trial.bridge(source, target, policy="rate = 200")
    trial.wait_until_flowing(source)

    def make_room() -> None:
        broker.make_room()
        if not broker.is_running:  # it halts when it cannot write its log
            broker.start()

    trial.suffer(broker.fill, make_room, seconds=FULL)
    trial.drain(source)
    return [target]


def _run(*command: str) -> None:
    """Run a command that needs root. Raises Unavailable."""
    with_rights = command if os.geteuid() == 0 else ("sudo", "-n", *command)
    if shutil.which(with_rights[0]) is None:
        raise Unavailable(f"{with_rights[0]} is not here")
    done = subprocess.run(with_rights, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(with_rights)}: {done.stderr.strip()}")


def _archive(trial: Trial) -> Sequence[Writable]:
    """Write an archive to a full disk in memory of 4 MB, which is made larger later."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Folder(trial.brokers, "target", trial.folder))
    disk = target.path = trial.folder / "disk"
    disk.mkdir()
    _run("mount", "-t", "tmpfs", "-o", "size=4m,mode=1777", "tmpfs", str(disk))
    trial.at_end(_run, "umount", str(disk))
    target.path = disk / "archive"
    trial.put(source, 2_000 if trial.short else 6_000)
    trial.bridge(source, target, policy=f"rate = {400 if trial.short else 200}")
    trial.wait_until_flowing(source)

    def grow() -> None:
        _run("mount", "-o", "remount,size=64m", str(disk))

    trial.suffer(lambda: _fill(disk / "ballast"), grow, seconds=0.0 if trial.short else FULL)
    trial.drain(source)
    trial.stop()
    trial.collect(target)
    return []


def _fill(path: Path) -> None:
    """Fill a disk, so that it has no room."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            return


def _moved(trial: Trial) -> Sequence[Writable]:
    """Move the folder of an archive away: what was confirmed there is there, and the rest in a new folder."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Folder(trial.brokers, "target", trial.folder))
    trial.put(source, 2_000)
    trial.bridge(source, target, policy="rate = 400")
    trial.wait_until_flowing(source)
    new, moved = target.path, trial.folder / "moved"
    new.rename(moved)
    trial.faults += 1
    trial.drain(source)
    trial.stop()
    for target.path in (moved, new):
        before = len(trial.arrived)
        trial.collect(target)
        trial.require(len(trial.arrived) > before, f"nothing was written to {target.path.name}")
    return []


SCENARIOS: Final = [
    Scenario("full-disk", "Kafka halts, room made", ["rabbitmq", SMALL_DISK], _kafka, spoils=(SMALL_DISK,)),
    Scenario("full-disk", "archive, made larger", ["rabbitmq"], _archive),
    Scenario("moved-archive", "its folder, while it is written", ["rabbitmq"], _moved, short=True),
]
