"""A PostgreSQL server of installed binaries in a temporary folder, for tests and benchmarks."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

PORT = 5433


def binaries() -> str | None:
    """Return the folder of the newest installed server, None without one."""
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[-2]))
    found = shutil.which("initdb")
    return next(
        (p for p in [*([os.path.dirname(found)] if found else []), *reversed(places)] if Path(p, "initdb").exists()),
        None,
    )


class Server:
    """A server that listens on a socket in its own folder only."""

    def __init__(self) -> None:
        bin = binaries()
        assert bin is not None
        self.bin, self.folder = bin, Path(tempfile.mkdtemp(prefix="ledgerwood-pg-"))
        # The server refuses to run as root.
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(self.folder, "postgres")
        self.data = self.folder / "data"
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", "owner", "--no-sync", "-E", "UTF8")
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(
                f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nport = {PORT}\n"
                "max_connections = 80\nshared_buffers = 16MB\n"
            )
        self.start()

    def url(self, database: str = "postgres", user: str = "owner") -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port={PORT}"

    def start(self) -> None:
        """Start, or start again after a kill: the killed server's processes may still be leaving."""
        for _ in range(50):
            if (
                self._run(
                    "pg_ctl",
                    "-D",
                    str(self.data),
                    "-w",
                    "-t",
                    "30",
                    "-l",
                    str(self.folder / "log"),
                    "start",
                    check=False,
                )
                == 0
            ):
                return
            time.sleep(0.2)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """Kill the server's first process; the others leave when they see it."""
        os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str, check: bool = True) -> int:
        command = [*self.user, str(Path(self.bin, name)), *arguments]
        return subprocess.run(
            command, check=check, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
