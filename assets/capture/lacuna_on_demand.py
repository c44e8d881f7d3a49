"""Holds the end of a process back while Kineto records it on demand, for torch 2.0 and later.

Kineto's threads do not outlive Python: a process that ends while it is recorded loses the trace, and some versions of
torch hang or crash then. So Lacuna is told of the end. It asks the process for nothing more, and says whether a trace
is still to come. No failure in here reaches the program.
"""

import atexit
import os
import socket
import struct
import sys
import time

# Seconds between two questions, and without an answer after which Lacuna counts as gone.
PAUSE = 0.1
PATIENCE = 10


def start(_torch):
    """Called once torch is imported."""
    pid = os.getpid()
    atexit.register(wait, pid)
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        # Such a process ends without the functions of atexit.
        Finalize(None, wait, (pid,), exitpriority=100)


def wait(pid):
    """Returns once the process is not recorded any more, or Lacuna is gone, or at an interrupt."""
    if os.getpid() != pid:
        # A forked child.
        return
    folder = os.environ.get("KINETO_IPC_SOCKET_DIR", "")
    own = os.path.join(folder, f"ending{pid}")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.bind(own)
            client.settimeout(PATIENCE)
            while is_recorded(client, os.path.join(folder, "dynolog")):
                time.sleep(PAUSE)
    except (OSError, struct.error, KeyboardInterrupt):
        pass
    try:
        os.unlink(own)
    except OSError:
        pass


def is_recorded(client, daemon):
    """Tells that the process ends; the answer is whether it is still recorded."""
    client.sendto(struct.pack("=Q32s", 0, b"end"), daemon)
    size, kind, is_on = struct.unpack("=Q32si", client.recv(64))
    return (size, kind.rstrip(b"\0")) == (4, b"end") and is_on != 0
