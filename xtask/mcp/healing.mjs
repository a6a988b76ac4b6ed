// A server made with the TypeScript SDK: a tool that needs a token, and one that acts and dies.
import { appendFileSync, existsSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "healing", version: "1" });
const say = (text, isError = false) => ({ isError, content: [{ type: "text", text }] });
server.registerTool("get_orders", { description: "Lists orders.", annotations: { readOnlyHint: true } }, async () =>
  existsSync("token") ? say("orders") : say("HTTP 401: token expired", true),
);
server.registerTool("create_order", { description: "Orders.", inputSchema: { die: z.boolean() } }, async ({ die }) => {
  appendFileSync("orders", "order\n");
  if (die) process.exit(9);
  return say("ordered");
});
await server.connect(new StdioServerTransport());
