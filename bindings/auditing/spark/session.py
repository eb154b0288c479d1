"""The Spark session of an audit: the active one, one on a cluster, or an embedded Spark on this machine.

A session that was already active stays active; a session that this module starts ends with its context. An embedded
Spark prints nothing on the terminal: the output of its JVM and workers goes to a file, and errors quote its end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary
from zipfile import ZIP_DEFLATED, ZipFile

from exchange.errors import InputError
from exchange.text.site import build_install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PYSPARK: Final = (4, 0)
"""Minimum release of pyspark."""

JAVA: Final = 17
"""Minimum release of Java, for Spark 4."""

MIN_HEAP_GIB: Final = 1
MAX_HEAP_GIB: Final = 4
"""Maximum size of the JVM's heap, in GiB; ``MIN_HEAP_GIB`` is the minimum.

Audits count outside of the heap, but Spark groups and sorts in it.
"""

LOCAL: Final = re.compile(r"local(\[|$)")
"""Matches a master whose workers run on this machine, with the environment of this process."""

POLL_SECONDS: Final = 0.2
"""Seconds between two looks at the progress of Spark."""
LOG_LINES: Final = 5
"""Maximum number of lines of the log that an error quotes."""
LOG_BYTES: Final = 1 << 14
"""Number of bytes at the end of the log from which these lines are taken."""

QUIET: Final = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR",
    "spark.python.sql.dataFrameDebugging.enabled": "false", "spark.sql.catalogImplementation": "in-memory",
    "spark.python.authenticate.socketTimeout": "10min",
}  # fmt: skip
"""Settings of an embedded Spark: no server, nothing on the terminal, no Hive. By default its Python has 15 seconds to
connect, which are too few on a busy machine."""

Step: TypeAlias = Callable[[int, int], None]
"""Called with the number of finished Spark tasks, and the number of all tasks known so far."""


@contextmanager
def open_session(
    master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session: the active one, or that of spark-submit; else a new one that ends with this context.

    ``master`` is in Spark's notation, by default ``local[*]``; ``remote`` is an address of Spark Connect, by default
    that in the environment variable SPARK_REMOTE; ``conf`` has settings of Spark, which override the defaults of this
    module. Workers on other machines get this package; numpy, pyarrow and pandas must be installed there. Raises
    InputError, naming what is missing.
    """
    find_spark_version()
    from pyspark.sql import SparkSession

    with ExitStack() as stack:
        active = SparkSession.getActiveSession()
        remote = remote or (None if master else os.environ.get("SPARK_REMOTE"))
        if active is not None:
            if master or remote:
                raise InputError("there is a Spark session already; leave out the master")
            yield active
        else:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="hashstar-", ignore_cleanup_errors=True))
            )
            if "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit, which has set everything
                spark = SparkSession.builder.appName("hashstar").getOrCreate()
            elif remote:
                spark = _connect(remote, conf or {})
            else:
                spark = _start(master or "local[*]", conf or {}, folder, stack)
            stack.callback(spark.stop)
            ship_packages(spark)
            yield spark


def ship_packages(spark: SparkSession) -> None:
    """Send this package to the workers of a session, once; workers on this machine have it already.

    numpy, pyarrow and pandas must be installed there.
    """
    if spark in _shipped or (not is_connect(spark) and LOCAL.match(spark.sparkContext.master or "")):
        return
    # Workers that come later get the file from here, so it stays as long as the session.
    folder = tempfile.TemporaryDirectory(prefix="hashstar-", ignore_cleanup_errors=True)
    spark.addArtifacts(str(_write_packages(Path(folder.name))), pyfile=True)
    _shipped[spark] = folder


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source of this package, and make the session the active one.

    Spark looks for a name in the active session, also when another one registers it, or reads from it.
    """
    if not is_connect(spark):
        spark.createDataFrame([], "nothing int")
    spark.dataSource.register(source)


_shipped: Final[WeakKeyDictionary[SparkSession, tempfile.TemporaryDirectory[str]]] = WeakKeyDictionary()
"""Session -> the folder with the package that its workers import."""


def find_spark_version() -> str:
    """Return the release of pyspark. Raises InputError if it is missing or too old."""
    try:
        import pyspark
    except ImportError:
        raise InputError(
            f"this needs Spark: {build_install_command('spark')}; hashstar audit works without it, too: --no-spark"
        ) from None
    version = pyspark.__version__
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < PYSPARK:
        wanted = ".".join(map(str, PYSPARK))
        raise InputError(f"this needs pyspark {wanted} or later, found {version}: {build_install_command('spark')}")
    return version


def find_java_version(environment: Mapping[str, str]) -> int:
    """Return the major release of the Java that Spark would start, such as 17 for Java 17.0.2.

    Raises InputError, quoting what was found, if there is no Java or it is too old.
    """
    home = environment.get("JAVA_HOME")
    way_out = f"install Java {JAVA} or later and set JAVA_HOME, or do without Spark: --no-spark"
    java = shutil.which("java", path=str(Path(home) / "bin") if home else environment.get("PATH", ""))
    if java is None:
        where = f"none in JAVA_HOME, which is {home}" if home else "JAVA_HOME is not set, and there is none in PATH"
        raise InputError(f"Spark needs Java, and there is none: {where}; {way_out}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
        output = done.stderr + done.stdout
    except (OSError, subprocess.SubprocessError) as error:
        output = str(error)
    match = re.search(r'version "(?:1\.)?(\d+)[^"]*"', output)
    if match is None:
        first = output.strip().partition("\n")[0] or "nothing"
        raise InputError(f"Spark needs Java, and {java} is none that works (it said: {first}); {way_out}")
    release = int(match[1])
    if release < JAVA:
        raise InputError(f"Spark needs Java {JAVA} or later, and {java} is Java {release}; {way_out}")
    return release


def _start(master: str, conf: Mapping[str, str], folder: Path, stack: ExitStack) -> SparkSession:
    """Start an embedded Spark that belongs to this process."""
    find_java_version(os.environ)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = {
        **QUIET,
        "spark.app.name": "hashstar",
        "spark.master": master,
        "spark.driver.memory": f"{_choose_heap_gib()}g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        stack.enter_context(_set_environment("PYSPARK_PYTHON", sys.executable))  # the workers' Python must be this one
    wanted = SparkConf().setAll([*{**settings, **conf}.items()])
    log = folder / "spark.log"
    try:
        with log.open("wb") as file:
            gateway: Any = SparkContext._gateway or launch_gateway(wanted, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=wanted, gateway=gateway))
    except Exception as error:  # noqa: BLE001  whatever Spark raises
        raise InputError(f"Spark does not start with master {master}: {_explain_failure(error, log)}") from None


def _connect(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """Open a session of Spark Connect."""
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    if remote.startswith("local"):
        find_java_version(os.environ)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        builder = SparkSession.builder.remote(remote)
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except (PySparkImportError, ImportError) as error:
        raise InputError(f"Spark Connect needs more packages ({error}): pip install 'pyspark[connect]'") from None
    except Exception as error:  # noqa: BLE001  whatever Spark raises
        raise InputError(f"Spark Connect at {remote}: {_explain_failure(error)}") from None


def _explain_failure(error: Exception, log: Path | None = None) -> str:
    """Return the first line of an error, and below it the last lines of Spark's log."""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    lines: list[str] = []
    if log is not None and log.exists():
        lines = [line.strip() for line in log.read_bytes()[-LOG_BYTES:].decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line and not line.startswith(("at ", "WARNING: Using incubator"))]
    return "\n  ".join([first, *lines[-LOG_LINES:]])


def _choose_heap_gib() -> int:
    """Return the size of the JVM's heap in GiB: a quarter of the machine's memory, within bounds."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    except (AttributeError, ValueError, OSError):
        return MIN_HEAP_GIB
    return min(max(machine // 4, MIN_HEAP_GIB), MAX_HEAP_GIB)


@contextmanager
def _set_environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable while this context is open."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _write_packages(folder: Path) -> Path:
    """Write ``bindings`` and ``exchange`` to a zip file that Python can import from, and return its path."""
    path = folder / "hashstar.zip"  # workers only import from files named .zip, not even from a wheel
    top = Path(__file__).parents[3]
    if top.is_file():  # this package was imported from a --py-files archive of spark-submit
        shutil.copyfile(top, path)
        return path
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        for name in ("exchange", "bindings"):
            for source in sorted((top / name).rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    file.write(source, source.relative_to(top))
    return path


def is_connect(spark: SparkSession) -> bool:
    """Return whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def count_cores(spark: SparkSession) -> int:
    """Return the number of tasks that a session runs in parallel now; a cluster may grow later."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql import functions

    return spark.range(1 << 16).select(functions.spark_partition_id()).distinct().count()


@contextmanager
def watch_progress(spark: SparkSession, step: Step) -> Iterator[None]:
    """Call ``step`` with Spark's progress, from another thread, while this context is open."""
    if is_connect(spark):
        seen: dict[int, tuple[int, int]] = {}

        def handle(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            for stage in stages or ():
                seen[stage.stage_id] = stage.num_completed_tasks, stage.num_tasks
            _report_progress(seen, step)

        handler: Any = handle  # declared as an abstract class, but Spark accepts any function
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
        return
    end = threading.Event()
    thread = threading.Thread(target=_poll_progress, args=(spark, step, end), name="hashstar-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _poll_progress(spark: SparkSession, step: Step, end: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    seen: dict[int, tuple[int, int]] = {}
    while not end.wait(POLL_SECONDS):
        active = tracker.getActiveStageIds()
        for stage in active:
            info = tracker.getStageInfo(stage)
            if info is not None:
                seen[stage] = info.numCompletedTasks, info.numTasks
        seen |= {stage: (total, total) for stage, (_, total) in seen.items() if stage not in active}  # they are done
        _report_progress(seen, step)


def _report_progress(seen: Mapping[int, tuple[int, int]], step: Step) -> None:
    """Call ``step`` with the numbers of finished and of all tasks, given those of each stage."""
    if seen:
        step(sum(done for done, _ in seen.values()), sum(total for _, total in seen.values()))
