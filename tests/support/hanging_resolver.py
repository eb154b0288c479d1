"""A resolver that does not answer, as one whose name servers are gone, in place of the C library's of a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

IS_AVAILABLE: Final = sys.platform == "linux" and shutil.which("cc") is not None

SOURCE: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>
typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  while (access(getenv("HANGS_WITH"), F_OK) == 0) sleep(1000);
  return ((resolver *)dlsym(RTLD_NEXT, "getaddrinfo"))(host, service, hints, found);
}
"""


class HangingResolver:
    """A library in a folder; ``environment`` is that of processes that load it."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "resolver.c", folder / "resolver.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self._sign = folder / "hangs"
        self.environment: Mapping[str, str] = {
            **os.environ, "LD_PRELOAD": str(library), "HANGS_WITH": str(self._sign)
        }  # fmt: skip

    def hang(self) -> None:
        """Let no question that is asked from now on be answered."""
        self._sign.touch()

    def recover(self) -> None:
        """Answer questions that are asked from now on."""
        self._sign.unlink()
