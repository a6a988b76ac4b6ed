"""A scratch project, and `salve` in a terminal of 80 columns."""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
import urllib.error
import urllib.request

LONG = 180
COLUMNS = 80
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")


class Failed(Exception):
    """A trial did not go as it should."""


class Project:
    """A directory of its own with a git repository, and a home of its own."""

    def __init__(self, tools, base=None):
        self.tools = tools
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="salve-trial-"))
        self.dir = self.top / "project"
        if base:
            # Links cost nothing, and installing again replaces files instead of changing them.
            subprocess.run(["cp", "-al", str(base), str(self.dir)], check=True)
        else:
            self.dir.mkdir()
        (self.top / "home").mkdir()
        self.env = dict(os.environ, HOME=str(self.top / "home"), TERM="xterm", npm_config_cache=str(tools.cache))
        self.env.pop("NO_COLOR", None)
        self.git("init", "-q")
        self.write(".gitignore", "node_modules\n.venv\n__pycache__\n.next\n")
        self.commit()

    def git(self, *words, at=None):
        who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"]
        subprocess.run(["git", *who, *words], cwd=at or self.dir, check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "now")

    def write(self, path, text):
        file = self.dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # Never through a link into what other trials use.
        file.unlink(missing_ok=True)
        file.write_text(text)

    def remove(self, path):
        place = self.dir / path
        # What runs may write into it meanwhile.
        while place.exists():
            subprocess.run(["rm", "-rf", str(place)], check=False, capture_output=True)

    def salve(self, *words, at=None):
        run = subprocess.run(
            [str(self.tools.salve), *words], cwd=at or self.dir, env=self.env, capture_output=True, text=True, timeout=LONG
        )
        return run.stdout

    def events(self, kind, at=None):
        lines = self.salve("events", "--json", "--kind", kind, at=at).splitlines()
        return [json.loads(line) for line in lines]

    def clear(self):
        shutil.rmtree(self.top, ignore_errors=True)


class Dev:
    """`salve dev` in a terminal."""

    def __init__(self, project, *command, at=None, env=None):
        self.project = project
        self.main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        words = [str(project.tools.salve), "dev"] + (["--", *command] if command else [])
        self.process = subprocess.Popen(
            words, cwd=at or project.dir, env=dict(project.env, **(env or {})), stdin=side, stdout=side, stderr=side,
            # Keys are heard in the terminal that one sits at only.
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(side)
        self.bytes = b""
        self.read_to = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                got = os.read(self.main, 65536)
            except OSError:
                return
            if not got:
                return
            self.bytes += got

    def screen(self):
        return ESCAPES.sub(b"", self.bytes).decode("utf-8", "replace").replace("\r\n", "\n")

    def until(self, words, seconds=LONG):
        """Waits until Salve or the server says so, after what was waited for before."""
        end = time.monotonic() + seconds
        while True:
            text = self.screen()
            at = text.find(words, self.read_to)
            if at >= 0:
                self.read_to = at + len(words)
                return
            if time.monotonic() > end:
                raise Failed(f"`{words}` was not said:\n{text[-3000:]}")
            if self.process.poll() is not None:
                time.sleep(0.3)
                if words not in self.screen()[self.read_to:]:
                    raise Failed(f"salve ended before `{words}`:\n{self.screen()[-3000:]}")
            time.sleep(0.05)

    def press(self, key):
        os.write(self.main, key.encode())

    def url(self):
        found = re.findall(r"● salve  up +(http://\S+)", self.screen())
        if not found:
            raise Failed(f"no address was told:\n{self.screen()[-2000:]}")
        return found[-1]

    def fits(self):
        """Every line of Salve's own fits the window."""
        own = [line for line in self.screen().split("\n") if line[:1] in "▲●■" and " salve " in line]
        wide = [line for line in own if len(line) > COLUMNS and " " in line[19:].strip()]
        if wide:
            raise Failed(f"too wide: {wide}")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)
        os.close(self.main)


def status(url):
    """Returns the status with which an address answers; nothing where nobody does."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def wait_for(what, is_so, seconds=LONG):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise Failed(f"{what} did not happen")
        time.sleep(0.1)


def expect(is_so, what):
    if not is_so:
        raise Failed(what)


def pids(command, inside):
    """Returns the processes of a directory whose command line has these words."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            cwd = os.readlink(entry / "cwd")
        except OSError:
            continue
        if command in line and cwd.startswith(str(inside)) and "salve dev" not in line:
            found.append(int(entry.name))
    return sorted(found)
