"""Speaks Kineto's daemon protocol as torch 2.15 does, for machines without torch. What it records is one operator.

Arguments: the text of the trace's events, how many traces to write, `old` for a version that knows only the name of
the machine, and `ends` for a program that is over as soon as it is recorded: as in torch, a thread of the process
records, which the end of Python cuts.
"""

import os
import socket
import struct
import sys
import threading
import time
import uuid

events, n, old = sys.argv[1], int(sys.argv[2]), "old" in sys.argv
name = b"dynoconfigclient" + str(uuid.uuid4()).encode()
folder = os.environb[b"KINETO_IPC_SOCKET_DIR"]
own, daemon = (b"\0" + name + b"\0", b"\0dynolog\0") if old else (folder + b"/" + name, folder + b"/dynolog")
client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
client.bind(own)
client.settimeout(0.05)


def ask(kind, payload):
    try:
        client.sendto(struct.pack("=Q32s", len(payload), kind) + payload, daemon)
        answer = client.recv(65536)
    except OSError:
        return None
    assert struct.unpack("=Q32s", answer[:40]) == (len(answer) - 40, kind.ljust(32, b"\0")), answer
    return answer[40:]


def record(n):
    while n:
        pids = [os.getpid(), os.getppid()]
        told = ask(b"req", struct.pack(f"=iiq{len(pids)}i", 2, len(pids), 0, *pids))
        if told is None:
            print("no answer", flush=True)
        if told:
            assert ask(b"req", struct.pack("=iiqi", 0, 1, 0, os.getpid())) == b""
            config = dict(line.split("=") for line in told.decode().splitlines())
            print("told", config, flush=True)
            is_recorded.set()
            if "ends" in sys.argv:
                time.sleep(int(config["ACTIVITIES_DURATION_MSECS"]) / 1000)
            place = config["ACTIVITIES_LOG_FILE"].replace(".json", f"_{os.getpid()}.json")
            with open(place + ".tmp", "w") as file:
                file.write('{"traceEvents": [%s]}\n' % events)
            os.rename(place + ".tmp", place)
            n -= 1
        time.sleep(0.02)


print("registered", ask(b"ctxt", struct.pack("=iiq", 0, os.getpid(), 0)), flush=True)
is_recorded = threading.Event()
if "ends" in sys.argv:
    import torch  # noqa: F401

    threading.Thread(target=record, args=(n,), daemon=True).start()
    is_recorded.wait()
else:
    record(n)
