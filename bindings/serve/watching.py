"""A source that is read again when its file changes. A mistake in the file leaves the last good topology there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from bindings.serve.view import View
from bindings.sources.definitions.import_warnings import SourceWarning
from bindings.sources.files import list_files
from bindings.sources.language.errors import LanguageError
from bindings.sources.open import Source
from exchange.entities.releases import resolve_profile
from exchange.errors import HashstarError, InputError

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the time of the file's last change."""


class ReadFault(NamedTuple):
    """Why the file could not be read."""

    message: str
    line: int | None
    """Line of the mistake, from 1; None if no line is at fault."""


class SourceReading:
    """A source as it was at one time."""

    def __init__(self, version: int, source: Source, profile: str | None) -> None:
        self.version: Final = version
        """1 for the first reading, and one more for each later one."""
        self.source: Final = source
        self.profile: Final = profile
        """The profile that the user asked for; None for that of the source."""
        self.time: Final = time.time()
        self._views: Final[dict[str, View]] = {}
        self._lock: Final = threading.Lock()

    @property
    def warnings(self) -> list[SourceWarning]:
        """What is to be known before anything is asked: of an unknown release, then of what is not read as written."""
        rules = self.source.profile if self.profile is None else resolve_profile(self.profile)
        first = [SourceWarning(rules.caveat)] if rules is not None and rules.caveat else []
        return [*first, *self.source.warnings]

    def view(self, vhost: str | None) -> View:
        """Return the view of a virtual host; None stands for the only one, else "/".

        Raises InputError if there is no such virtual host, or if no router can be built of it.
        """
        with self._lock:
            view = self._views.get(vhost or "")
            if view is None:
                topology = self.source.routable(vhost, self.profile)
                view = View(self.source, topology, self.source.expectations(topology.vhost))
                self._views[vhost or ""] = self._views[topology.vhost] = view
            return view

    def text(self) -> str:
        """Return the source in the language of .bindings files: the file itself if it is one, with its comments."""
        return self.source.text if self.source.text is not None else self.source.document.dump()


class WatchedSource:
    """The present reading of a source, and why a newer one failed, if it did."""

    def __init__(self, read: Callable[[], Source], path: str | None, vhost: str | None, profile: str | None) -> None:
        """Read for the first time, and build the view of ``vhost``. Raises HashstarError if that fails.

        ``path`` is the file or folder that ``read`` reads; None for a broker and for standard input, which are not
        watched.
        """
        self._read: Final = read
        self._path: Final = path
        self._vhost: Final = vhost
        self._profile: Final = profile
        self._lock: Final = threading.Lock()
        self._stopped: Final = threading.Event()
        self._changed = self._look()  # before reading: a change while it is read is seen at the next look
        self.fault: ReadFault | None = None
        self.reading = self._read_again(1)

    @property
    def is_watched(self) -> bool:
        """Whether the source is a file or a folder, which is read again as soon as it changes."""
        return self._path is not None

    @property
    def vhost(self) -> str:
        """The virtual host that is shown first."""
        return self.reading.view(self._choose(self.reading)).topology.vhost

    def start(self) -> None:
        """Watch the file on a thread of its own, if it is one."""
        if self.is_watched:
            threading.Thread(target=self._watch, name="hashstar-watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def check_file(self) -> None:
        """Read the file again if it has changed since the last time."""
        changed = self._look()
        if changed != self._changed:
            self._changed = changed
            self.read_again()

    def read_again(self) -> None:
        """Read the source again; if that fails, keep the last reading and set ``fault``."""
        with self._lock:
            try:
                self.reading = self._read_again(self.reading.version + 1)
                self.fault = None
            except LanguageError as error:
                self.fault = ReadFault(str(error), error.line)
            except HashstarError as error:
                self.fault = ReadFault(str(error), None)

    def _read_again(self, version: int) -> SourceReading:
        reading = SourceReading(version, self._read(), self._profile)
        reading.view(self._choose(reading))
        return reading

    def _choose(self, reading: SourceReading) -> str | None:
        """Return the virtual host that is shown first: the one that was asked for, else "/", else the first."""
        vhosts = reading.source.vhosts
        return self._vhost if self._vhost is not None or "/" in vhosts else next(iter(vhosts), None)

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            self.check_file()

    def _look(self) -> object:
        """Return a value that changes with the file, or with any file of the folder."""
        if self._path is None:
            return None
        try:
            is_folder = os.path.isdir(self._path)  # noqa: PTH112  the path can be any that `open_source` takes
            paths = list_files(self._path) if is_folder else [self._path]
            stats = [os.stat(path) for path in paths]  # noqa: PTH116
        except InputError as error:
            return str(error)
        except OSError as error:
            return error.errno
        return [(path, now.st_mtime_ns, now.st_size, now.st_ino) for path, now in zip(paths, stats, strict=True)]
