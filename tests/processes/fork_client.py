"""Stands for a program that the fork server runs: `python fork_client.py ADDRESS ARGUMENTS...`.

The program has this process's environment, folder, and standard input and output. This process
hands signals on to it and ends as it does. If this one is killed, the program is killed, too.
"""

import json
import os
import resource
import signal
import socket
import sys


def main(address: str, arguments: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        request = {
            "arguments": arguments,
            "environment": dict(os.environ),
            "folder": os.getcwd(),
        }
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        status = int(server.recv(100) or 1)
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main(sys.argv[1], sys.argv[2:])
