"""Tells the stories of real agent programs: `cargo xtask agents [WORD]...`.

SALVE is the program under test, the first argument the directory in which the agents are installed;
further ones choose the stories whose names have all of these words. Nothing here asks a real model: the
programs run against a script, where possible in a network that has nothing but loopback.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import Bench, Unexpected
from model import Script
from programs import PROGRAMS, install
from stories import STORIES
from tool_stories import BOTH
from wire import Say

# How long all stories may take; those that have not begun by then are failures.
ALL = 45 * 60
# How many stories are told at once.
AT_ONCE = 2
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def leave_the_network():
    """Moves this process to a network that has only loopback; tells whether that was possible."""
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    return True


def tell(name, story, installed, salve):
    """Tells one story; returns what went wrong, or nothing."""
    program = next(program for program in PROGRAMS if program.name == name)
    benches = []

    def open_bench(*turns, **script):
        bench = Bench(program, Script(list(turns) or [Say("Done.")], **script), installed, salve)
        benches.append(bench)
        return bench

    failure = None
    try:
        story(program, open_bench)
        for bench in benches:
            strays = bench.strays()
            if strays:
                raise Unexpected(f"left running: {strays}")
    except Unexpected as unexpected:
        failure = str(unexpected)
    except Exception:
        failure = traceback.format_exc()
    for bench in benches:
        if failure:
            failure += f"\nkept: {bench.root}"
        bench.close(keep=bool(failure))
    return failure


def main():
    # The stories of both files are in one list once both are read.
    assert BOTH and STORIES
    directory, words = Path(sys.argv[1]).resolve(), sys.argv[2:]
    installed = install(directory)
    for name, version in installed.versions.items():
        print(f"{name:9} {version}")
    if not leave_the_network():
        print("this user may not leave the network: the programs could reach it")
    chosen = [(name, tale) for name, tale in STORIES
              if all(word in f"{name} {tale.__name__}" for word in words)]
    begun, failed = time.monotonic(), 0

    def one(told):
        name, tale = told
        at = time.monotonic()
        if at - begun > ALL:
            return name, tale, 0.0, "there was no time left"
        failure = tell(name, tale, installed, os.environ["SALVE"])
        return name, tale, time.monotonic() - at, failure

    with ThreadPoolExecutor(AT_ONCE) as stories:
        for name, tale, took, failure in stories.map(one, chosen):
            failed += failure is not None
            mark = "FAILED" if failure else "passed"
            print(f"{mark}  {name:9} {tale.__name__.replace('_', ' ')}  {took:.1f} s", flush=True)
            if failure:
                print("        " + failure.replace("\n", "\n        "), flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
