// A server made with the TypeScript SDK: a tool that needs a token, one that acts and dies, and one that
// works until it is cancelled.
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
server.registerTool("linger", { description: "Works until it is cancelled." }, async (extra) => {
  const progressToken = extra._meta?.progressToken;
  await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress: 1 } });
  await new Promise((resolve) => extra.signal.addEventListener("abort", resolve));
  appendFileSync("cancelled", "yes\n");
  return say("nobody reads this");
});
await server.connect(new StdioServerTransport());
