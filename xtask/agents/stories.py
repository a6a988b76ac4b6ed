"""What has to hold when a real agent heals a check or a server, one function for each story."""

import json
import re

from bench import BROKEN, BROKEN_SERVER, MENDED, MENDED_SERVER, TEST, expect
from model import FOREVER, Fault
from programs import PROGRAMS
from wire import Say, Usage

ALL = tuple(program.name for program in PROGRAMS)
# What must not be said of an agent that was there and came to its end.
NOT_SO = (r"did not finish in time", r"No agent activity", r"\$0\.00\b(?!\d)")

NOT_LOGGED_IN = Fault(401, "authentication_error", "invalid x-api-key")
EMPTY = Fault(400, "invalid_request_error", "Your credit balance is too low to access the API.")
LIMITED = Fault(429, "rate_limit_error", "This request would exceed your rate limit.", 3600)
OVERLOADED = Fault(529, "overloaded_error", "Overloaded")

STORIES = []


def story(programs=ALL):
    """Makes a function a story, told of each of these programs."""

    def register(tell):
        STORIES.extend((name, tell) for name in programs)
        return tell

    return register


def mending(program, bench_path, text, last="Mended it."):
    """Returns the turns by which a program writes one file and says so."""
    return [*program.write(bench_path, text), Say(last)]


@story()
def heal_mends_a_red_test(program, open_bench):
    bench = open_bench()
    bench.lay_out_check()
    bench.model.script.turns = mending(program, bench.project / "shop.py", MENDED)
    ran = bench.heal()
    ran.ended_with(0)
    expect(bench.read("shop.py") == MENDED, "the file is mended", bench.read("shop.py"))
    ran.has("healed", f"{program.title} has finished", "proven")
    ran.lacks(*NOT_SO)
    if program.tells_money:
        ran.has(r"\$0\.\d*[1-9]")
    told = bench.run(bench.salve, "undo")
    told.ended_with(0)
    expect(bench.read("shop.py") == BROKEN, "undo takes exactly that back", told.text)


@story()
def heal_is_told_when_nothing_was_changed(program, open_bench):
    bench = open_bench(Say("I looked at everything, and nothing has to change."))
    one_model = 'models = { claude = "haiku" }\n'
    bench.lay_out_check("".join(f"[heal.tiers.{tier}]\n{one_model}" for tier in ("context", "deep")))
    ran = bench.heal()
    ran.ended_with(3)
    ran.has(f"{program.title} has finished", "changed nothing")
    ran.lacks(*NOT_SO)
    expect(ran.times("has finished after") <= 2, "it is called twice at most", ran.text)
    expect(bench.read("shop.py") == BROKEN, "the file is as it was")


@story()
def heal_catches_a_weakened_test(program, open_bench):
    bench = open_bench()
    bench.lay_out_check()
    weak = TEST.replace(", 5)", ", 6)")
    bench.model.script.turns = mending(program, bench.project / "test_shop.py", weak, "All green!")
    ran = bench.heal()
    ran.ended_with(3)
    expect(bench.read("test_shop.py") == TEST, "the test is as it was", ran.text)
    ran.lacks(r"salve +healed", *NOT_SO)


@story()
def heal_leaves_settings_and_the_rest_of_the_machine_alone(program, open_bench):
    bench = open_bench()
    bench.lay_out_check()
    settings = bench.read("salve.toml")
    outside = bench.home / "startup.desktop"
    wide = settings + '[recovery]\nauto_approve = ["git push"]\n'
    bench.model.script.turns = [
        *program.write(outside, "[Desktop Entry]\n"),
        *program.write(bench.project / "salve.toml", wide),
        *program.write(bench.project / ".mcp.json", '{"mcpServers": {"x": {"command": "x"}}}\n'),
        *mending(program, bench.project / "shop.py", MENDED),
    ]
    ran = bench.heal()
    ran.ended_with(0)
    expect(bench.read("shop.py") == MENDED, "the file is mended", ran.text)
    expect(not outside.exists(), "nothing is written outside", ran.text)
    expect(bench.read("salve.toml") == settings, "the settings are as they were", ran.text)
    expect(bench.read(".mcp.json") is None, "no server is registered", ran.text)


@story(("codex",))
def heal_measures_what_is_written_late(program, open_bench):
    bench = open_bench()
    bench.lay_out_check()
    write = "for n in $(seq 20); do seq 30 > late_$n.py; done"
    bench.model.script.turns = [
        program.run(f"setsid sh -c 'sleep 2; {write}' > /dev/null 2>&1 &"),
        *mending(program, bench.project / "shop.py", MENDED),
    ]
    ran = bench.heal()
    late = sorted(path.name for path in bench.project.glob("late_*"))
    expect(not late or ran.code == 3, f"{len(late)} files came unmeasured", ran.text)


@story()
def heal_says_at_once_that_it_is_not_logged_in(program, open_bench):
    bench = open_bench(fault=NOT_LOGGED_IN, faults=FOREVER)
    bench.lay_out_check()
    ran = bench.heal()
    ran.ended_with(3)
    ran.has("log the agent in|log it in")
    expect(ran.times("could not work") == 1, "it is called once", ran.text)
    expect(ran.took < 60, f"told after {ran.took:.0f} s", ran.text)
    ran.lacks(*NOT_SO)


@story()
def heal_says_at_once_that_the_account_is_empty(program, open_bench):
    bench = open_bench(fault=EMPTY, faults=FOREVER)
    bench.lay_out_check()
    ran = bench.heal()
    ran.ended_with(3)
    ran.has("add credit")
    expect(ran.times("could not work") == 1, "it is called once", ran.text)
    expect(ran.took < 60, f"told after {ran.took:.0f} s", ran.text)


@story()
def heal_says_how_long_a_rate_limit_lasts(program, open_bench):
    bench = open_bench(fault=LIMITED, faults=FOREVER)
    bench.lay_out_check()
    ran = bench.heal(SALVE_AGENT_IDLE_LIMIT_MS="20000")
    ran.ended_with(3)
    ran.has("limit")
    expect(ran.times("Claude Code|Codex|Gemini CLI|opencode") >= 1, "the runtime is named", ran.text)
    expect(ran.times(r"repairing +") <= 1, "it is called once", ran.text)
    expect(ran.took < 90, f"told after {ran.took:.0f} s", ran.text)
    ran.lacks(*NOT_SO)


@story()
def heal_tells_an_overloaded_service_while_it_waits(program, open_bench):
    bench = open_bench(fault=OVERLOADED, faults=program.silent_retries + 2)
    bench.lay_out_check()
    bench.model.script.turns = mending(program, bench.project / "shop.py", MENDED)
    ran = bench.heal()
    ran.ended_with(0)
    ran.has("trouble with its service: .*([Oo]verloaded|busy)", "healed")
    expect(ran.times("trouble with its service") == 1, "it is told once", ran.text)


@story(("codex",))
def heal_calls_an_agent_again_while_its_service_stays_overloaded(program, open_bench):
    bench = open_bench(fault=OVERLOADED, faults=FOREVER)
    bench.lay_out_check()
    ran = bench.heal(limit=420)
    ran.ended_with(3)
    expect(ran.times("counts as no attempt") == 4, "it is called again four times", ran.text)
    expect(ran.times(r"salve +failed") == 1, "that is one attempt", ran.text)
    ran.has("the model's service is busy")


@story()
def heal_ends_an_agent_that_hangs(program, open_bench):
    bench = open_bench(stall="silence")
    bench.lay_out_check()
    ran = bench.heal(SALVE_AGENT_IDLE_LIMIT_MS="10000", SALVE_HEAL_MAX_ATTEMPTS="1")
    ran.ended_with(3)
    ran.has(f"{program.title} showed no sign of life")
    ran.lacks(*NOT_SO)


@story()
def heal_waits_for_an_agent_that_is_being_answered(program, open_bench):
    bench = open_bench(stall="pings")
    bench.lay_out_check()
    ran = bench.heal(SALVE_AGENT_IDLE_LIMIT_MS="6000", SALVE_AGENT_WALL_LIMIT_MS="25000",
                     SALVE_HEAL_MAX_ATTEMPTS="1")
    ran.ended_with(3)
    ran.has(f"{program.title} took too long")


@story(("codex", "gemini"))
def heal_knows_that_a_cost_is_unknown(program, open_bench):
    bench = open_bench(Say("Nothing to do."), usage=Usage(3000, 0, 100))
    bench.lay_out_check()
    ran = bench.heal(SALVE_HEAL_MAX_ATTEMPTS="1")
    ran.has("max_cents cannot hold", "tokens.*unknown|unknown.*tokens|cost unknown")
    ran.lacks(*NOT_SO)
    priced = f"[agent.prices.{program.name}]\ninput_cents = 125\noutput_cents = 1000\n"
    bench.write("salve.toml", bench.read("salve.toml") + priced)
    ran = bench.heal(SALVE_HEAL_MAX_ATTEMPTS="1")
    ran.has(r"\$0\.\d*[1-9]")
    ran.lacks("max_cents cannot hold")


@story()
def dev_mends_a_server(program, open_bench):
    bench = open_bench()
    bench.lay_out_server()
    bench.model.script.turns = mending(program, bench.project / "server.py", MENDED_SERVER)
    ran = bench.dev(until=r"salve +healed|needs you|handed")
    ran.has(r"salve +healed", program.title)
    expect(bench.read("server.py") == MENDED_SERVER, "the server is mended", ran.text)
    ran.lacks(*NOT_SO)


@story()
def dev_says_at_once_that_it_is_not_logged_in(program, open_bench):
    bench = open_bench(fault=NOT_LOGGED_IN, faults=FOREVER)
    bench.lay_out_server()
    ran = bench.dev(until=r"needs you|exhausted|requires", REPAIR_COOLDOWN_MS="1")
    ran.has("log the agent in|log it in")
    expect(ran.times("could not work") == 1, "it is called once", ran.text)
    ran.lacks(*NOT_SO)
    expect(bench.read("server.py") == BROKEN_SERVER, "the server is as it was")


@story(("claude", "codex"))
def dev_tells_an_overloaded_service_while_it_waits(program, open_bench):
    bench = open_bench(fault=OVERLOADED, faults=program.silent_retries + 2)
    bench.lay_out_server()
    bench.model.script.turns = mending(program, bench.project / "server.py", MENDED_SERVER)
    ran = bench.dev(until=r"salve +healed|needs you")
    ran.has("trouble with its service: .*([Oo]verloaded|busy)", r"salve +healed")


@story(("claude", "codex"))
def dev_ends_an_agent_that_hangs(program, open_bench):
    bench = open_bench(stall="silence")
    bench.lay_out_server()
    ran = bench.dev(until=r"needs you|exhausted", SALVE_AGENT_IDLE_LIMIT_MS="10000",
                    REPAIR_MAX_ATTEMPTS="1", REPAIR_COOLDOWN_MS="1")
    ran.has(f"{program.title} showed no sign of life")
    ran.lacks(*NOT_SO)


@story(("claude", "codex"))
def dev_believes_no_agent_that_only_says_it_mended(program, open_bench):
    bench = open_bench()
    bench.lay_out_server()
    take = program.tool("salve", "canvas_get_repair_task", {})

    def claim(question):
        found = re.search(r'repairId\W+([0-9a-f-]{36})', question.last_result)
        if not found:
            return take if question.results < 20 else Say("There is nothing to do.")
        args = {"repairId": found[1], "phase": "agent_wrote_files", "filesChanged": 1,
                "linesChanged": 3, "message": "Mended it", "somethingNew": True}
        return program.tool("salve", "canvas_mark_repair_step", args)

    bench.model.script.turns = [take, claim, Say("All mended, all tests pass.")]
    ran = bench.dev(until=r"needs you|exhausted", REPAIR_MAX_ATTEMPTS="2", REPAIR_COOLDOWN_MS="1")
    ran.lacks(r"salve +healed", *NOT_SO)
    expect(bench.read("server.py") == BROKEN_SERVER, "the server is as it was", ran.text)


@story()
def install_registers_and_takes_back(program, open_bench):
    bench = open_bench()
    bench.commit("")
    files = {path: path.read_text() for path in bench.home.rglob("*.*") if path.suffix in (".json", ".toml")}
    words = ["mcp", "install", "--client", program.name, "--scope", "user"]
    told = bench.run(bench.salve, *words, "--allow-tools")
    told.ended_with(0)
    told.has(f"`{program.name} mcp list` says: .*salve")
    bench.run(bench.salve, "doctor", "--project", ".").has(f"registrations +.*{program.title}")
    bench.run(bench.salve, *words, "--remove").ended_with(0)
    for path, text in files.items():
        is_json = path.suffix == ".json"
        now = path.read_text() if path.exists() else ""
        same = json.loads(now).items() >= json.loads(text).items() if is_json else now == text
        expect(same and "mcp__salve" not in now, f"{path.name} is as it was", now)
