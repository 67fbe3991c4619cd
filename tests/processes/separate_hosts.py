"""Two hosts on this machine, in network namespaces of their own, with a router between them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

ADDRESSES = ("10.78.1.1", "10.78.2.1")
_CLONE_NEWNET = 0x40000000


class SeparateHosts:
    """Network namespaces, which need the command `ip` and its permission to make them.

    Raises:
        OSError: There is no command `ip`.
        subprocess.CalledProcessError: Namespaces cannot be made. The error's `stderr` says why.
    """

    def __init__(self) -> None:
        name = f"condacc{os.getpid()}"
        self._hosts = [f"{name}h{number}" for number in range(len(ADDRESSES))]
        self._router = f"{name}r"
        self._lost: set[str] = set()  # Addresses to which nothing is forwarded.

    def __enter__(self) -> SeparateHosts:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for namespace in (*self._hosts, self._router):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "del", namespace)

    def enter(self, host: int) -> None:
        """Moves this process, which must have one thread, to a host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{self._hosts[host]}") as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns failed")

    @contextlib.contextmanager
    def partition(self, *lost: int) -> Iterator[None]:
        """Loses, in this context, all packets to the given hosts, without a word to the sender."""
        for host in lost:
            _ip("-n", self._router, "route", "add", "blackhole", f"{ADDRESSES[host]}/32")
        yield
        for host in lost:
            _ip("-n", self._router, "route", "del", "blackhole", f"{ADDRESSES[host]}/32")

    def _make(self) -> None:
        _ip("netns", "add", self._router)
        for number, (host, address) in enumerate(zip(self._hosts, ADDRESSES, strict=True)):
            gateway = f"{address.rpartition('.')[0]}.254"
            own, other = f"eth{number}", f"port{number}"
            _ip("netns", "add", host)
            link = ("type", "veth", "peer", other, "netns", self._router)
            _ip("link", "add", own, "netns", host, *link)
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", own)
            _ip("-n", self._router, "addr", "add", f"{gateway}/24", "dev", other)
            for namespace, end in ((host, "lo"), (host, own), (self._router, other)):
                _ip("-n", namespace, "link", "set", end, "up")
            _ip("-n", host, "route", "add", "default", "via", gateway)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        _ip("netns", "exec", self._router, "sh", "-c", forward)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
