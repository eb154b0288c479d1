"""Count groups of tasks in processes of this machine: all of its cores, without Spark.

Each process runs this module. It takes the settings of the pass and then one group after another from its standard
input, and answers on its standard output; all pickled. A process ends with its standard input, so none outlives the one
that began it. None imports the main module of the program, as those of `multiprocessing` do: a script that calls
`bindings.audit` needs no guard, and a notebook has no main module.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Final

from bindings.auditing.local.tasks import PassSettings, Results, Task, count_tasks
from exchange.concurrency.processes import build_command, build_environment
from exchange.errors import HashstarError, InputError

QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of processor time that a container may use in a period, and the period."""

Group = tuple[int, Sequence[Task]]
"""Number of a group, and its tasks."""

Answer = int | tuple[int, Results] | Exception
"""Weight of a task that was read; number and results of a group that was counted; or what went wrong."""


def count_usable_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text("ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or "max"
        return cores


def run_groups(
    groups: Sequence[Sequence[Task]], order: PassSettings, jobs: int, step: Callable[[int], None]
) -> Iterator[Results]:
    """Count groups in ``jobs`` processes at a time; yield the results of each, in order.

    ``step`` is called with the weight of each task that was read. Raises what `count_tasks` raises in any of them, and
    InputError for a process that the system ended.
    """
    waiting: SimpleQueue[Group] = SimpleQueue()
    for group in enumerate(groups):
        waiting.put(group)
    answers: SimpleQueue[Answer] = SimpleQueue()
    processes: list[subprocess.Popen[bytes]] = []
    threads: list[Thread] = []
    try:
        for _ in range(min(jobs, len(groups))):
            processes.append(_start())
            threads.append(Thread(target=_feed, args=(processes[-1], order, waiting, answers), daemon=True))
            threads[-1].start()
        counted: dict[int, Results] = {}
        for number in range(len(groups)):
            while number not in counted:
                match answers.get():
                    case int(weight):
                        step(weight)
                    case (which, results):
                        counted[which] = results
                    case error:
                        raise error
            yield counted.pop(number)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join()


def _start() -> subprocess.Popen[bytes]:
    """Start a process in a process group of its own: Ctrl-C is for the one that began it, which ends it."""
    return subprocess.Popen(  # noqa: S603  this very module
        build_command("bindings.auditing.local.workers"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=build_environment(),
    )  # fmt: skip


def _feed(
    process: subprocess.Popen[bytes], order: PassSettings, waiting: SimpleQueue[Group], answers: SimpleQueue[Answer]
) -> None:
    """Give a process one group after another, and pass its answers on; in a thread of its own."""
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101  pipes, as asked for
    try:
        with process.stdin as given, process.stdout as answered:
            _send(given, order)
            while True:
                _send(given, waiting.get_nowait())
                while True:
                    answer = pickle.load(answered)  # noqa: S301  made by our own process
                    answers.put(answer)
                    if not isinstance(answer, int):
                        break
    except Empty:
        pass
    except (OSError, EOFError, pickle.UnpicklingError):
        code = process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        answers.put(InputError(f"a process that counts ended with {how}: --jobs 1 counts in this process alone"))
    except Exception as error:  # noqa: BLE001  raised by `run_groups`
        answers.put(error)


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def main() -> None:
    """Count the groups that come on standard input, until it ends."""
    # What a library prints must not come between answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    given = sys.stdin.buffer
    order: PassSettings = pickle.load(given)  # noqa: S301  from the process that began this one

    while True:
        try:
            number, tasks = pickle.load(given)  # noqa: S301
        except EOFError:
            return
        try:
            answer: Answer = number, count_tasks(tasks, order, partial(_send, answers))
        except HashstarError as error:
            answer = error
        _send(answers, answer)


if __name__ == "__main__":
    main()
