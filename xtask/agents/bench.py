"""A project with something broken in it, a home of its own, and the real programs on the PATH."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from model import Model

BROKEN = "def total(prices):\n    return sum(prices) + 1\n"
MENDED = "def total(prices):\n    return sum(prices)\n"
TEST = """\
import unittest

from shop import total


class Total(unittest.TestCase):
    def test_of_two(self):
        self.assertEqual(total([2, 3]), 5)
"""
BROKEN_SERVER = """\
import http.server

print(address)
"""
MENDED_SERVER = """\
import http.server

with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
"""
CHECK = ["python3", "-B", "-m", "unittest", "-q"]
# How long one run of Salve may take.
LIMIT = 240


class Unexpected(AssertionError):
    """What was seen is not what has to be."""


def expect(holds, what, seen=""):
    """Fails the story unless something holds."""
    if not holds:
        raise Unexpected(f"{what}\n{seen}".rstrip())


class Ran:
    """What a run of Salve said and did."""

    def __init__(self, code, text, took):
        self.code, self.text, self.took = code, text, took

    def has(self, *patterns):
        for pattern in patterns:
            expect(re.search(pattern, self.text), f"nowhere said: {pattern}", self.text)

    def lacks(self, *patterns):
        for pattern in patterns:
            expect(not re.search(pattern, self.text), f"wrongly said: {pattern}", self.text)

    def ended_with(self, code):
        expect(self.code == code, f"exit code {self.code} instead of {code}", self.text)

    def times(self, pattern):
        return len(re.findall(pattern, self.text))


class Bench:
    """One story's directories, model and processes; all of it goes with `close`."""

    def __init__(self, program, script, installed, salve):
        # Not below /tmp, where some agents may write: what is outside of the project has to be outside.
        self.root = Path(tempfile.mkdtemp(prefix="story-", dir=installed.stories))
        self.program, self.salve = program, salve
        self.project, self.home = self.root / "project", self.root / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.children = []
        self.model = Model(script)
        own = program.lay_out(self.home, self.model.url)
        self.environment = {
            "PATH": os.pathsep.join([*installed.path, os.environ["PATH"]]), "LANG": "C.UTF-8",
            "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data"), "TERM": "dumb",
            "XDG_CONFIG_HOME": str(self.home / "config"), "NO_COLOR": "1", "GIT_CONFIG_NOSYSTEM": "1",
            **own,
        }

    def write(self, path, text):
        (self.project / path).write_text(text)

    def read(self, path):
        file = self.project / path
        return file.read_text() if file.exists() else None

    def lay_out_check(self, settings=""):
        """Makes a project whose check is red."""
        self.write("shop.py", BROKEN)
        self.write("test_shop.py", TEST)
        self.commit(settings)

    def lay_out_server(self, settings=""):
        """Makes a project whose server does not start."""
        self.write("server.py", BROKEN_SERVER)
        self.commit(settings)

    def commit(self, settings):
        self.write("salve.toml", "[heal]\nmax_tokens = 400000\n[heal.tiers.simple]\n"
                   f"max_tokens = 50000\nmodels = {{}}\n{settings}")
        git = ["git", "-c", "user.name=ada", "-c", "user.email=ada@localhost"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "the shop"]):
            subprocess.run([*git, *words], cwd=self.project, env=self.environment, check=True)

    def start(self, *words, **more):
        """Starts a command in the project, in a session of its own."""
        child = subprocess.Popen(
            words, cwd=self.project, env={**self.environment, **more}, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        self.children.append(child)
        return child

    def run(self, *words, limit=LIMIT, **more):
        """Runs a command to its end."""
        begun = time.monotonic()
        child = self.start(*words, **more)
        try:
            text, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.end(child)
            text, _ = child.communicate()
            raise Unexpected(f"still running after {limit} s:\n{text}") from None
        return Ran(child.returncode, text, time.monotonic() - begun)

    def heal(self, *words, **more):
        """Runs `salve heal` with the program as its agent."""
        return self.run(self.salve, "heal", "--agent", self.program.name, *words, "--", *CHECK, **more)

    def dev(self, until, limit=LIMIT, **more):
        """Runs `salve dev` until a line matches, then ends it."""
        quick = {"AGENT_REPAIR": "1", "SALVE_AGENT_AUTOSTART": "true",
                 "SALVE_AGENT_RUNTIME": self.program.name, "REPAIR_HEALTH_RETRY_DELAY_MS": "300",
                 "SALVE_SERVER_HEALTH_SOAK_MS": "500", "REPAIR_QUIET_PERIOD_MS": "500"}
        begun = time.monotonic()
        child = self.start(self.salve, "dev", "--", "python3", "-B", "server.py", **{**quick, **more})
        lines, found = [], threading.Event()

        def read():
            for line in child.stdout:
                lines.append(line)
                if re.search(until, line):
                    found.set()
            found.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        found.wait(limit)
        child.send_signal(signal.SIGINT)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            self.end(child)
        reader.join(10)
        ran = Ran(child.returncode, "".join(lines), time.monotonic() - begun)
        ran.has(until)
        return ran

    def incidents(self):
        """Returns the incidents as `salve incidents --json` tells them."""
        told = subprocess.run([self.salve, "incidents", "--json"], cwd=self.project, check=False,
                              env=self.environment, capture_output=True, text=True, timeout=60)
        return told.stdout

    def end(self, child):
        """Ends a child; Salve's keeper ends what came from it."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                child.send_signal(how)
                try:
                    child.wait(15)
                except subprocess.TimeoutExpired:
                    continue

    def strays(self):
        """Returns the processes that still work in the story's directories."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(self.root):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append((int(entry.name), words.strip()))
            except OSError:
                continue
        return found

    def close(self, keep):
        """Ends what the story started; keeps its files where it failed."""
        for child in self.children:
            self.end(child)
        for pid, _ in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.model.close()
        if not keep:
            shutil.rmtree(self.root, ignore_errors=True)
