// Puts a server of standard input and output behind an address, because that is where the suite
// looks. It only hands messages on, one process for each session.
// node front.mjs COMMAND…; prints the address.
import { randomUUID } from "node:crypto";
import http from "node:http";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const [command, ...args] = process.argv.slice(2);
const sessions = new Map();

async function begin(hosts) {
  const child = new StdioClientTransport({ command, args, stderr: "inherit", env: process.env });
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    enableDnsRebindingProtection: true,
    allowedHosts: hosts,
  });
  const open = new Set();
  transport.onmessage = (message) => {
    if (message.id !== undefined && message.method) open.add(message.id);
    child.send(message);
  };
  child.onmessage = (message) => {
    if (message.id !== undefined && !message.method) open.delete(message.id);
    // What a server says while it owes one answer belongs to that request's stream.
    const relatedRequestId = message.method ? [...open].at(-1) : undefined;
    transport.send(message, { relatedRequestId }).catch(() => {});
  };
  transport.onclose = () => child.close();
  await child.start();
  await transport.start();
  return transport;
}

const server = http.createServer(async (request, response) => {
  const hosts = [`localhost:${server.address().port}`, `127.0.0.1:${server.address().port}`];
  const known = sessions.get(request.headers["mcp-session-id"]);
  const transport = known ?? (await begin(hosts));
  await transport.handleRequest(request, response);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
process.on("SIGTERM", async () => {
  await Promise.all([...sessions.values()].map((transport) => transport.close()));
  process.exit(0);
});
