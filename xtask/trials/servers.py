"""Dev servers of everyday tools, under `salve dev`."""

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

from bench import Dev, Project, expect, pids, status, wait_for

FLASK = """from flask import Flask
app = Flask(__name__)

@app.get("/")
def index():
    return "hello"
"""

FASTAPI = """from fastapi import FastAPI
app = FastAPI()

@app.get("/")
def index():
    return {"hello": "you"}
"""

NEEDS_DATABASE = """import socket
try:
    socket.create_connection(("127.0.0.1", PORT)).close()
except OSError:
    raise RuntimeError("Error 111 connecting to 127.0.0.1:PORT. Connection refused.")
from fastapi import FastAPI
app = FastAPI()
"""


@contextmanager
def serving(project, *command, at=None, env=None):
    dev = Dev(project, *command, at=at, env=env)
    try:
        yield dev
        dev.fits()
    finally:
        dev.end()


@contextmanager
def project(tools, base=None):
    made = Project(tools, base)
    try:
        yield made
    finally:
        made.clear()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def incidents(made, at=None):
    return len(made.events("opened", at=at))


def vite_without_packages(tools):
    with project(tools, tools.vite()) as made:
        made.remove("node_modules")
        with serving(made, "npm", "run", "dev") as dev:
            dev.until("node_modules is missing")
            dev.until("healed")
            expect("Local" in dev.screen(), "vite did not start")


def vite_packages_deleted_while_it_runs(tools):
    with project(tools, tools.vite()) as made, serving(made, "npm", "run", "dev") as dev:
        dev.until("up  ")
        begun = time.monotonic()
        made.remove("node_modules")
        # Its words may be broken anywhere.
        dev.until("is ill", 30)
        noticed = time.monotonic() - begun
        expect(noticed < 20, f"noticed after {noticed:.0f} s")
        dev.until("healed")
        expect((made.dir / "node_modules/react").is_dir(), "react is not there")


def vite_one_package_deleted_while_it_runs(tools):
    with project(tools, tools.vite()) as made, serving(made, "npm", "run", "dev") as dev:
        dev.until("up  ")
        made.remove("node_modules/dayjs")
        dev.until("dayjs", 60)
        dev.until("healed")
        expect((made.dir / "node_modules/dayjs/package.json").is_file(), "dayjs is not there")


def vite_left_alone_while_somebody_installs(tools):
    with project(tools, tools.vite()) as made, serving(made, "npm", "run", "dev") as dev:
        dev.until("up  ")
        made.remove("node_modules")
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=made.dir, env=made.env, capture_output=True)
        expect(done.returncode == 0, f"npm install failed: {done.stderr.decode()[-600:]}")
        time.sleep(12)
        expect(incidents(made) == 0, f"it was disturbed:\n{dev.screen()[-1500:]}")
        expect(dev.process.poll() is None, "salve ended")


def vite_config_broken_at_the_start_then_mended(tools):
    with project(tools, tools.vite()) as made:
        good = (made.dir / "vite.config.js").read_text()
        made.write("vite.config.js", good + "const x = (\n")
        with serving(made, "npm", "run", "dev") as dev:
            dev.until("needs you")
            dev.until("vite.config.js:")
            dev.until("[a] try again")
            made.write("vite.config.js", good)
            dev.until("well")
            wait_for("a page", lambda: "Local" in dev.screen())
        told = dev.screen()
        expect("Manual intervention" not in told, "nobody has to intervene by hand")
        plea = told[told.index("needs you"):told.index("[a] try again")]
        expect(plea.count("Unexpected end of file") <= 1, f"said again and again: {plea}")


def vite_three_failures_within_minutes_are_three_incidents(tools):
    with project(tools, tools.vite()) as made, serving(made, "npm", "run", "dev", env={"SALVE_SERVER_LIVENESS_INTERVAL_MS": "2000"}) as dev:
        dev.until("up  ")
        vite = pids("node_modules/.bin/vite", made.dir)
        os.kill(vite[-1], signal.SIGKILL)
        dev.until("healed")
        made.remove("node_modules")
        dev.until("is ill", 60)
        dev.until("healed")
        for pid in pids("node_modules/.bin/vite", made.dir):
            os.kill(pid, signal.SIGSTOP)
        dev.until("healed")
        healed = dev.screen().count("● salve  healed")
        expect((incidents(made), healed) == (3, 3), f"{incidents(made)} incidents, {healed} healed")


def vite_on_a_strangers_port_asks(tools):
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), project(tools, tools.vite()) as made:
        with serving(made, "npx", "vite", "--host", "127.0.0.1", "--port", str(port), "--strictPort") as dev:
            dev.until("needs you")
            dev.until(f"Port {port}")
            expect(f"pid {os.getpid()}" in dev.screen(), "the holder is not named")


def vite_in_a_second_worktree_gets_a_port_of_its_own(tools):
    with project(tools, tools.vite()) as made:
        beside = made.top / "beside"
        made.git("worktree", "add", "-q", str(beside))
        subprocess.run(["cp", "-al", str(made.dir / "node_modules"), str(beside)], check=True)
        command = ["npx", "vite", "--host", "127.0.0.1", "--port", str(free_port()), "--strictPort"]
        with serving(made, *command) as first:
            first.until("up  ")
            with serving(made, *command, at=beside) as second:
                second.until("belongs to another worktree")
                second.until("up  ")
                expect(first.url() != second.url(), "both have one address")
                expect(status(first.url()) == 200 and status(second.url()) == 200, "one does not answer")
                expect(incidents(made, at=beside) == 0, "it was an incident")


def flask_view_raises_and_is_mended(tools):
    with project(tools) as made:
        made.write("app.py", FLASK)
        command = [tools.program("flask"), "run", "--debug", "--port", str(free_port())]
        with serving(made, *command, env={"SALVE_SERVER_LIVENESS_GRACE_MS": "3000"}) as dev:
            dev.until("up  ")
            before = pids("flask run", made.dir)
            made.write("app.py", FLASK.replace('"hello"', '"hello" + 1'))
            dev.until("ill", 90)
            dev.until("TypeError")
            expect(before[0] in pids("flask run", made.dir), "it was restarted")
            made.write("app.py", FLASK)
            dev.until("well", 90)
            expect(incidents(made) == 1, "it was told more than once")
            expect(before[0] in pids("flask run", made.dir), "it was restarted")


def flask_module_does_not_parse_and_is_mended(tools):
    with project(tools) as made:
        made.write("app.py", FLASK + "def (\n")
        command = [tools.program("flask"), "run", "--port", str(free_port())]
        with serving(made, *command) as dev:
            dev.until("needs you")
            dev.until("app.py:7")
            made.write("app.py", FLASK)
            dev.until("well")
            expect(status(f"http://127.0.0.1:{command[-1]}/") == 200, "it does not answer")


def uvicorn_reloads_by_itself(tools):
    with project(tools) as made:
        made.write("app.py", FASTAPI)
        port = free_port()
        with serving(made, tools.program("uvicorn"), "app:app", "--reload", "--port", str(port)) as dev:
            dev.until("up  ")
            before = pids("uvicorn", made.dir)
            made.write("app.py", FASTAPI + "def (\n")
            dev.until("SyntaxError")
            time.sleep(2)
            made.write("app.py", FASTAPI)
            wait_for("an answer", lambda: status(f"http://127.0.0.1:{port}/") == 200, 30)
            expect(before[0] in pids("uvicorn", made.dir), "it was restarted")


def uvicorn_waits_for_its_database(tools):
    with project(tools) as made:
        database = free_port()
        made.write("app.py", NEEDS_DATABASE.replace("PORT", str(database)))
        port = free_port()
        with serving(made, tools.program("uvicorn"), "app:app", "--port", str(port)) as dev:
            dev.until("needs you", 90)
            with socket.create_server(("127.0.0.1", database)):
                dev.until("well", 60)
                expect(incidents(made) == 1, "it was told more than once")


def django_urls_broken_and_mended(tools):
    with project(tools) as made:
        subprocess.run([tools.program("django-admin"), "startproject", "shop", "."], cwd=made.dir, check=True)
        port = free_port()
        with serving(made, tools.program("python"), "manage.py", "runserver", str(port)) as dev:
            dev.until("up  ")
            before = pids("runserver", made.dir)
            good = (made.dir / "shop/urls.py").read_text()
            made.write("shop/urls.py", good + "x = (\n")
            dev.until("SyntaxError")
            time.sleep(3)
            made.write("shop/urls.py", good)
            wait_for("an answer", lambda: status(f"http://127.0.0.1:{port}/") == 200, 60)
            expect(before[0] in pids("runserver", made.dir), "it was restarted")


def next_page_raises_and_is_mended(tools):
    with project(tools, tools.next()) as made:
        port = free_port()
        with serving(made, "npx", "next", "dev", "--port", str(port), env={"SALVE_SERVER_LIVENESS_GRACE_MS": "3000"}) as dev:
            dev.until("up  ")
            before = pids("next dev", made.dir)
            good = (made.dir / "app/page.js").read_text()
            made.write("app/page.js", good.replace("return <p>", "throw new Error('no luck'); return <p>"))
            dev.until("ill", 120)
            made.write("app/page.js", good)
            dev.until("well", 120)
            expect(before[0] in pids("next dev", made.dir), "it was restarted")


def two_servers_steered_from_a_second_terminal(tools):
    with project(tools) as made:
        made.write("app.py", FLASK)
        flask = tools.program("flask")
        api, web = free_port(), free_port()
        made.write(
            "salve.toml",
            f'[servers.api]\ncommand = "{flask} run --port {api}"\n'
            f'[servers.web]\ncommand = "{flask} run --port {web}"\ndepends_on = ["api"]\n',
        )
        with serving(made) as dev:
            dev.until("web: http")
            expect(status(f"http://127.0.0.1:{web}/") == 200, "web does not answer")
            made.salve("stop", "web")
            expect(status(f"http://127.0.0.1:{web}/") is None, "web is not stopped")
            made.salve("start", "web")
            wait_for("web", lambda: status(f"http://127.0.0.1:{web}/") == 200)
            made.salve("restart", "api")
            wait_for("api", lambda: status(f"http://127.0.0.1:{api}/") == 200)
            listed = made.salve("ps")
            expect(f":{api}" in listed and f":{web}" in listed, f"{listed}")
            expect("\x1b" not in made.salve("logs", "api"), "escape codes in a pipe")


def as_soon_as_the_bare_command(tools):
    """A server that crashes while nobody helps is not down longer than by hand."""
    with project(tools) as made:
        made.write("app.py", FLASK)
        port = free_port()
        command = [tools.program("flask"), "run", "--port", str(port)]
        begun = time.monotonic()
        bare = subprocess.Popen(command, cwd=made.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the bare server", lambda: status(f"http://127.0.0.1:{port}/") == 200)
        alone = time.monotonic() - begun
        bare.terminate()
        bare.wait()
        begun = time.monotonic()
        with serving(made, *command):
            wait_for("the server", lambda: status(f"http://127.0.0.1:{port}/") == 200)
            cared = time.monotonic() - begun
        expect(cared < alone + 2, f"bare {alone:.1f} s, cared for {cared:.1f} s")


TRIALS = {
    trial.__name__.replace("_", "-"): trial
    for trial in [
        vite_without_packages,
        vite_packages_deleted_while_it_runs,
        vite_one_package_deleted_while_it_runs,
        vite_left_alone_while_somebody_installs,
        vite_config_broken_at_the_start_then_mended,
        vite_three_failures_within_minutes_are_three_incidents,
        vite_on_a_strangers_port_asks,
        vite_in_a_second_worktree_gets_a_port_of_its_own,
        flask_view_raises_and_is_mended,
        flask_module_does_not_parse_and_is_mended,
        uvicorn_reloads_by_itself,
        uvicorn_waits_for_its_database,
        django_urls_broken_and_mended,
        next_page_raises_and_is_mended,
        two_servers_steered_from_a_second_terminal,
        as_soon_as_the_bare_command,
    ]
}
