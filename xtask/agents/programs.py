"""The four programs: where they look for their model, and what they call their tools."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wire import Use

# What each is called in the registry of npm.
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
}
# The newest releases want this version of Node; it comes from npm too where the machine's is older.
NODE = 22


@dataclass(frozen=True)
class Installed:
    """Where the programs are."""

    # Directories that stand first on PATH.
    path: tuple
    versions: dict
    # Where the stories' projects are laid out.
    stories: Path


def node_major(environment):
    """Returns the version of Node on the PATH, 0 if there is none."""
    node = shutil.which("node", path=environment["PATH"])
    if not node:
        return 0
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return int(said.strip().lstrip("v").split(".")[0] or 0)


def install(directory):
    """Installs what is missing below the directory, which nothing else uses."""
    directory.mkdir(parents=True, exist_ok=True)
    manifest = directory / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    bin_directory = directory / "node_modules/.bin"
    path = [str(directory / "node_modules/node/bin"), str(bin_directory)]
    environment = dict(os.environ, PATH=os.pathsep.join([*path, os.environ["PATH"]]))
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
    if node_major(environment) < NODE:
        subprocess.run([*npm, f"node@{NODE}"], cwd=directory, env=environment, check=True)
    missing = [package for name, package in PACKAGES.items() if not (bin_directory / name).exists()]
    if missing:
        subprocess.run([*npm, *missing], cwd=directory, env=environment, check=True)
    versions = {}
    for name in PACKAGES:
        said = subprocess.run([str(bin_directory / name), "--version"], env=environment, timeout=120,
                              capture_output=True, text=True, check=False)
        versions[name] = (said.stdout.strip().splitlines() or ["does not start"])[0]
    stories = directory / "stories"
    stories.mkdir(exist_ok=True)
    return Installed(tuple(path), versions, stories)


class Claude:
    """Claude Code."""

    name, title = "claude", "Claude Code"
    # How many refusals it gets over before it says a word.
    tells_money = True
    silent_retries = 0
    has_shell = False

    def lay_out(self, home, url):
        """Writes what it needs into its home, and returns its variables."""
        (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
        return {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        }

    def write(self, path, text):
        """Returns the turns by which it writes a file that may exist."""
        read = Use("Read", {"file_path": str(path)})
        return [read, Use("Write", {"file_path": str(path), "content": text})]

    def tool(self, server, name, args):
        return Use(f"mcp__{server}__{name}", args)

    def alone(self, prompt, server):
        """Returns the words that run it by itself, with one MCP server called `shop`."""
        entry = {"type": "stdio", "command": server[0], "args": server[1:]}
        return ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose",
                "--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": {"shop": entry}}),
                "--allowedTools", "mcp__shop"]

    # Where `registered` writes.
    scope = ()

    def registered(self, prompt, server, bench):
        """Registers an MCP server called `shop`; returns the file and the words that run the program."""
        entry = {"type": "stdio", "command": server[0], "args": server[1:]}
        bench.write(".mcp.json", json.dumps({"mcpServers": {"shop": entry}}, indent=2) + "\n")
        (bench.project / ".claude").mkdir()
        bench.write(".claude/settings.local.json", '{"enableAllProjectMcpServers": true}\n')
        return bench.project / ".mcp.json", [
            "claude", "-p", prompt, "--output-format", "stream-json", "--verbose",
            "--allowedTools", "mcp__shop"]


class Codex:
    """Codex."""

    name, title = "codex", "Codex"
    tells_money = False
    silent_retries = 5
    has_shell = True

    def lay_out(self, home, url):
        (home / ".codex").mkdir()
        (home / ".codex/config.toml").write_text(f"""\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
# By default it may write below /tmp, where the stories may lie.
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
""")
        return {"SCRIPTED_KEY": "scripted"}

    def run(self, command):
        """Returns the turn by which it runs a command."""
        return Use("exec_command", {"cmd": command})

    def write(self, path, text):
        return [self.run(f"cat > '{path}' <<'END_OF_FILE'\n{text}END_OF_FILE")]

    def tool(self, server, name, args):
        return Use(name, args, space=f"mcp__{server}")

    def alone(self, prompt, server):
        words = {"command": server[0], "args": server[1:], "default_tools_approval_mode": "approve"}
        settings = [f"mcp_servers.shop.{name}={json.dumps(value)}" for name, value in words.items()]
        options = [word for setting in settings for word in ("-c", setting)]
        return ["codex", "exec", "--json", "--skip-git-repo-check", *options, prompt]

    scope = ("--scope", "user")

    def registered(self, prompt, server, bench):
        settings = bench.home / ".codex/config.toml"
        settings.write_text(settings.read_text() + f"""
# The shop's own server.
[mcp_servers.shop]
command = {json.dumps(server[0])}
args = {json.dumps(server[1:])}
default_tools_approval_mode = "approve"
""")
        return settings, ["codex", "exec", "--json", "--skip-git-repo-check", prompt]


class GeminiCli:
    """Gemini CLI."""

    name, title = "gemini", "Gemini CLI"
    tells_money = False
    silent_retries = 0
    has_shell = False

    def lay_out(self, home, url):
        (home / ".gemini").mkdir()
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}},
                    "privacy": {"usageStatisticsEnabled": False},
                    "general": {"enableAutoUpdate": False}}
        (home / ".gemini/settings.json").write_text(json.dumps(settings))
        return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": url}

    def write(self, path, text):
        return [Use("write_file", {"file_path": str(path), "content": text})]

    def tool(self, server, name, args):
        return Use(f"mcp_{server}_{name}", args)


class Opencode:
    """opencode."""

    name, title = "opencode", "opencode"
    tells_money = True
    silent_retries = 0
    has_shell = False

    def lay_out(self, home, url):
        provider = {
            "npm": "@ai-sdk/anthropic", "name": "Scripted",
            "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
            "models": {"m": {"name": "m", "tool_call": True, "limit": {"context": 200000, "output": 8000},
                             "cost": {"input": 3, "output": 15}}},
        }
        settings = {"provider": {"scripted": provider}, "model": "scripted/m",
                    "small_model": "scripted/m", "autoupdate": False, "share": "disabled"}
        directory = home / "config/opencode"
        directory.mkdir(parents=True)
        (directory / "opencode.json").write_text(json.dumps(settings))
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}

    def write(self, path, text):
        read = Use("read", {"filePath": str(path)})
        return [read, Use("write", {"filePath": str(path), "content": text})]

    def tool(self, server, name, args):
        return Use(f"{server}_{name}", args)


PROGRAMS = (Claude(), Codex(), GeminiCli(), Opencode())
