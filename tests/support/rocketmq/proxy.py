"""RocketMQ's proxy before a server of a test: remoting and gRPC at ports of their own, from Maven."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.recorders.jvm import NO_ADDRESS, PROGRAMS, QUICK, TRIES, find_classpath
from tests.support.servers import Server, missing
from tests.support.starting import Unavailable, wait_for_service
from tests.support.unique import free_ports

VERSION: Final = "5.5.0"
OPENED: Final = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref")


class Proxy(NamedTuple):
    """The addresses of a proxy."""

    remoting: str
    grpc: str


@contextmanager
def proxy_of(server: Server, folder: Path) -> Iterator[Proxy]:
    """Start a proxy in cluster mode before a server, with its files in a folder, until the block ends."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"no {program} on this machine")
    jars = find_classpath(f"org.apache.rocketmq:rocketmq-proxy:{VERSION}")
    remoting, grpc = free_ports(2)
    settings = {
        "rocketMQClusterName": "hashstar", "proxyClusterName": "hashstar", "namesrvAddr": server.url,
        "proxyMode": "CLUSTER", "localServeAddr": "127.0.0.1", "remotingAccessAddr": "127.0.0.1",
        "remotingListenPort": remoting, "grpcServerPort": grpc, "useEndpointPortFromRequest": True,
        "enableRemotingLocalProxyGrpc": False,
    }  # fmt: skip
    (folder / "conf").mkdir(exist_ok=True)
    config = folder / "conf" / "rmq-proxy.json"
    config.write_text(json.dumps(settings))
    opens = [option for package in OPENED for option in ("--add-opens", f"{package}=ALL-UNNAMED")]
    command = [
        "java", "-Xmx384m", *QUICK, *opens, f"-Duser.home={folder}", "-cp", jars,
        "org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(config), "-pm", "cluster",
    ]  # fmt: skip
    environment = {"PATH": "/usr/bin:/bin", "RMQ_PROXY_HOME": str(folder)}
    log = folder / "proxy.log"
    for tries in range(TRIES):
        with (
            log.open("wb") as output,
            subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder) as process,
        ):
            try:
                _wait_for(process, (remoting, grpc), partial(log.read_text, errors="replace"))
            except Unavailable:
                if tries + 1 == TRIES or NO_ADDRESS not in log.read_text(errors="replace"):
                    raise
            else:
                yield Proxy(f"127.0.0.1:{remoting}", f"127.0.0.1:{grpc}")
                return
            finally:
                process.kill()


def _wait_for(process: subprocess.Popen[bytes], ports: tuple[int, ...], read_log: Callable[[], str]) -> None:
    """Return when a proxy accepts connections at these ports. Raises Unavailable."""
    for port in ports:
        wait_for_service(
            "RocketMQ's proxy", partial(_connect, port), read_log, has_ended=lambda: process.poll() is not None
        )


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
