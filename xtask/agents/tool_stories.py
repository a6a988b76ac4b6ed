"""What has to hold when real agents use a tool behind the proxy, and work in loops and on jobs."""

import re
import sys
from pathlib import Path

from bench import MENDED, expect
from model import FOREVER
from stories import NOT_LOGGED_IN, story
from wire import Say

SERVER = Path(__file__).with_name("shop_server.py")
BOTH = ("claude", "codex")


@story(BOTH)
def proxy_hides_from_an_agent_that_its_server_died(program, open_bench):
    bench = open_bench()
    bench.commit("")
    died = bench.root / "died"
    ask = program.tool("shop", "price", {"article": "lamp"})

    def until_answered(question):
        # Servers are connected in the background: a tool that is not there yet is asked for again.
        return Say("It costs 4711 cents.") if "4711" in question.last_result else ask

    bench.model.script.turns = [ask, until_answered]
    server = [bench.salve, "proxy", "--name", "shop", "--", sys.executable, str(SERVER), str(died)]
    ran = bench.run(*program.alone("What does the lamp cost?", server))
    ran.ended_with(0)
    ran.has("It costs 4711 cents")
    expect(died.exists(), "the server died in the first call", ran.text)
    results = [question.last_result for question in bench.model.questions if question.results]
    expect("4711" in results[-1], "the answer reached the agent", results)
    expect(not any("may have taken effect" in text for text in results), "no call failed", results)


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
