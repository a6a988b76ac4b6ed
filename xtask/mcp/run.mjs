// The conformance suite without and with Salve's proxy, and stories against real servers behind it.
// node run.mjs; SALVE is the program, PYTHON an interpreter that has FastMCP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const { SALVE, PYTHON } = process.env;
const here = import.meta.dirname;
const node = process.execPath;
const suite = path.join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const home = mkdtempSync(path.join(tmpdir(), "salve-mcp-"));
const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: "", XDG_DATA_HOME: "", XDG_STATE_HOME: "" };

async function output(child) {
  let text = "";
  for await (const chunk of child.stdout) text += chunk;
  return text;
}

/** Runs the suite against a command; returns one line for each scenario. */
async function conformance(command) {
  const front = spawn(node, ["front.mjs", ...command], { cwd: here, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [address] = await once(front.stdout, "data");
    const run = [suite, "server", "--url", String(address).trim(), "--output-dir", path.join(home, "results")];
    const text = await output(spawn(node, run, { cwd: home, env, stdio: ["ignore", "pipe", "inherit"] }));
    return text.split("\n").filter((line) => /^[✓✗] /.test(line));
  } finally {
    front.kill("SIGTERM");
    await once(front, "exit");
  }
}

/** A token expires, a call dies when it has acted, and the server is there again. */
async function story(name, server) {
  const dir = mkdtempSync(path.join(home, "project-"));
  const rule = '[[auto_heal.rules]]\ntool = "get_orders"\nclass = "auth"\nrun = "echo 1 > token"\n';
  writeFileSync(path.join(dir, "salve.toml"), rule);
  const transport = new StdioClientTransport({ command: SALVE, args: ["proxy", "--", ...server], cwd: dir, env });
  const client = new Client({ name: "story", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ["create_order", "get_orders", "linger"]);
  const text = (answer) => answer.content.map((part) => part.text).join("\n");
  const orders = await client.callTool({ name: "get_orders", arguments: {} });
  assert.equal(text(orders), "orders");
  assert.ok(!orders.isError && existsSync(path.join(dir, "token")));
  // A call tells of its progress, is cancelled, and hears of it; the next one is answered.
  const stop = new AbortController();
  const lingering = client.callTool({ name: "linger", arguments: {} }, undefined, { signal: stop.signal, onprogress: () => stop.abort() });
  await assert.rejects(lingering);
  for (let tries = 0; !existsSync(path.join(dir, "cancelled")); tries += 1) {
    assert.ok(tries < 600, "the server never heard that the call was cancelled");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const died = await client.callTool({ name: "create_order", arguments: { die: true } });
  assert.ok(died.isError && text(died).includes("may have taken effect"), text(died));
  assert.equal(text(await client.callTool({ name: "get_orders", arguments: {} })), "orders");
  assert.equal(text(await client.callTool({ name: "create_order", arguments: { die: false } })), "ordered");
  assert.equal(readFileSync(path.join(dir, "orders"), "utf8"), "order\norder\n", "no order was made twice");
  await client.close();
  console.log(`${name}: a token expired, a call was cancelled, one died, and no order was made twice`);
}

try {
  const fixture = [node, path.join(here, "everything.mjs")];
  const without = await conformance(fixture);
  const behind = await conformance([SALVE, "proxy", "--", ...fixture]);
  assert.ok(without.length >= 30 && without.every((line) => line.startsWith("✓")), without.join("\n"));
  assert.deepEqual(behind, without);
  const checks = without.map((line) => Number(/: (\d+) passed/.exec(line)[1])).reduce((a, b) => a + b);
  console.log(`conformance: ${without.length} scenarios, ${checks} checks pass without and with the proxy`);
  await story("TypeScript SDK", [node, path.join(here, "healing.mjs")]);
  if (PYTHON) {
    await story("FastMCP", [PYTHON, path.join(here, "healing.py")]);
    const http = spawn(PYTHON, [path.join(here, "http_story.py"), SALVE], { cwd: home, env, stdio: "inherit" });
    const [code] = await once(http, "exit");
    assert.equal(code, 0, "the story over HTTP");
  } else console.log("SKIPPED: FastMCP could not be installed; the story with a Python server was not run");
} finally {
  rmSync(home, { recursive: true, force: true });
}
