"""What has to hold when real agents use a tool behind the proxy, and work in loops and on jobs."""

import os
import re
import sys
from pathlib import Path

from bench import MENDED, expect
from model import FOREVER
from stories import NOT_LOGGED_IN, story
from wire import Say, Use

SERVER = Path(__file__).with_name("shop_server.py")
BOTH = ("claude", "codex")


LOGIN = """
[[auto_heal.rules]]
tool = "price"
class = "auth"
run = "echo in > token"
"""


def asks_for_the_price(program, bench):
    """Has the agent ask until it is answered, and returns what its tool told it then."""
    ask = program.tool("shop", "price", {"article": "lamp"})

    def until_answered(question):
        # Servers are connected in the background: a tool that is not there yet is asked for again.
        return Say("It costs 4711 cents.") if "4711" in question.last_result else ask

    bench.model.script.turns = [ask, until_answered]

    def told(ran):
        ran.ended_with(0)
        ran.has("It costs 4711 cents")
        results = [question.last_result for question in bench.model.questions if question.results]
        expect("4711" in results[-1], "the answer reached the agent", results)
        return results

    return told


@story(BOTH)
def proxy_hides_from_an_agent_that_its_server_died(program, open_bench):
    bench = open_bench()
    bench.commit("")
    died = bench.root / "died"
    told = asks_for_the_price(program, bench)
    server = [sys.executable, str(SERVER), "dies", str(died)]
    ran = bench.run(*program.alone("What does the lamp cost?",
                                   [bench.salve, "proxy", "--name", "shop", "--", *server]))
    results = told(ran)
    expect(died.exists(), "the server died in the first call", ran.text)
    expect(not any("may have taken effect" in text for text in results), "no call failed", results)


@story(BOTH)
def wrapped_servers_log_in_again_and_the_agent_notices_nothing(program, open_bench):
    bench = open_bench()
    bench.commit(LOGIN)
    told = asks_for_the_price(program, bench)
    server = [sys.executable, str(SERVER), "expires", str(bench.project / "token")]
    settings, words = program.registered("What does the lamp cost?", server, bench)
    before = settings.read_text()
    wrapped = bench.run(bench.salve, "mcp", "wrap", "--client", program.name, *program.scope)
    wrapped.ended_with(0)
    expect("proxy" in settings.read_text(), "the server stands behind the proxy", wrapped.text)
    results = told(bench.run(*words))
    expect(not any("401" in text for text in results), "no call failed", results)
    expect(bench.read("token") == "in\n", "somebody logged in")
    bench.run(bench.salve, "mcp", "unwrap", "--client", program.name, *program.scope).ended_with(0)
    expect(settings.read_text() == before, "the settings are as they were", settings.read_text())


@story(("claude",))
def hooks_log_in_for_the_agent_and_save_bystanders(program, open_bench):
    bench = open_bench()
    bench.commit(LOGIN.replace('"price"', '"./orders"'))
    script = bench.project / "orders"
    script.write_text("#!/bin/sh\nif [ -e token ]; then echo 4711 orders; exit 0; fi\n"
                      "echo 'HTTP 401: token expired' >&2; exit 1\n")
    script.chmod(0o755)
    on_path = {"PATH": os.pathsep.join([str(Path(bench.salve).parent), bench.environment["PATH"]])}
    bench.run(bench.salve, "init", "--agent", "claude", **on_path).ended_with(0)
    bystander = bench.start("sleep", "300")
    orders = Use("Bash", {"command": "./orders", "description": "Lists orders"})
    kill = Use("Bash", {"command": "pkill -f 'sleep 300'", "description": "Ends it"})
    bench.model.script.turns = [orders, orders, kill, Say("There are 4711 orders.")]
    ran = bench.run("claude", "-p", "How many orders are there?", "--output-format", "stream-json",
                    "--verbose", "--allowedTools", "Bash", **on_path)
    ran.ended_with(0)
    asked = [question for question in bench.model.questions if question.results]
    expect("Call it again" in asked[0].words, "the model is told to call again", asked[0].words)
    expect("4711 orders" in asked[1].last_result, "the second call works", asked[1].last_result)
    expect("was refused" in asked[2].last_result, "the kill is refused", asked[2].last_result)
    expect(bystander.poll() is None, "the bystander lives", ran.text)
    bench.end(bystander)


@story()
def loop_says_at_once_that_its_role_is_not_logged_in(program, open_bench):
    bench = open_bench(fault=NOT_LOGGED_IN, faults=FOREVER)
    bench.lay_out_check()
    ran = bench.run(bench.salve, "loop", "run", "--task", "Mend the sum", "--tests",
                    "python3 -B -m unittest -q", "--agent", program.name, "--no-wait")
    expect(ran.code != 0, "it does not end well", ran.text)
    ran.has("log the agent in|log it in")
    expect(ran.took < 60, f"told after {ran.took:.0f} s", ran.text)
    expect(ran.times("could not work") <= 1, "it is called once", ran.text)


JOB = """\
[job]
objective = "Mend the sum and say so"

[[steps]]
id = "plan"
instruction = "Step one: write a plan to plan.md."
runtime = "{0}"
verify = {{ files = ["plan.md"] }}

[[steps]]
id = "mend"
instruction = "Step two: do what plan.md says."
runtime = "{0}"
verify = {{ command = "python3 -B -m unittest -q", changed = ["shop.py"] }}

[[steps]]
id = "tell"
instruction = "Step three: say in notes.md what was done."
runtime = "{0}"
verify = {{ files = ["notes.md"] }}
"""


@story(BOTH)
def a_job_of_three_steps_is_done_by_an_agent(program, open_bench):
    bench = open_bench()
    bench.lay_out_check()
    (bench.root / "job.toml").write_text(JOB.format(program.name))
    files = {"Step one": ("plan.md", "Mend it.\n"), "Step two": ("shop.py", MENDED),
             "Step three": ("notes.md", "Mended.\n")}

    def work(question):
        path, text = next(files[words] for words in files if words in question.words)
        # Where the step works, Claude Code is told; Codex runs its commands there.
        told = re.search(r"orking directory: ([^\\\n\"]+)", question.words)
        turns = [*program.write(Path(told[1] if told else "") / path, text), Say("Done.")]
        if path != "shop.py" and len(turns) == 3:
            # There is nothing to read before a file that is new.
            turns = turns[1:]
        return turns[min(question.results, len(turns) - 1)]

    bench.model.script.turns = [work]
    ran = bench.run(bench.salve, "run", str(bench.root / "job.toml"))
    ran.ended_with(0)
    patch = next(bench.project.glob(".salve/jobs/*/artifacts/result.patch")).read_text()
    expect(all(f"b/{path}" in patch for path, _ in files.values()), "all steps are in it", patch)
    steps = list(bench.project.glob(".salve/jobs/*/artifacts/patches/steps/step-*.patch"))
    expect(len(steps) == 3, "each step left its patch", steps)
    expect(bench.read("plan.md") is None, "the user's own files are as they were")
