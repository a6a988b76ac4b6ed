// A server with everything that the conformance suite asks for, over standard input and output.
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const pause = () => new Promise((done) => setTimeout(done, 50));
const resource = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });

const server = new Server(
  { name: "everything", version: "1" },
  { capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, logging: {}, completions: {} } },
);

const elicit = async (extra, message, properties, required = []) => {
  const params = { message, requestedSchema: { type: "object", properties, required } };
  const answer = await extra.sendRequest({ method: "elicitation/create", params }, types.ElicitResultSchema);
  return [text(`Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content)}`)];
};
const log = (extra, data) =>
  extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
const options = ["option1", "option2", "option3"];
const titled = (title) => [1, 2, 3].map((n) => ({ const: `value${n}`, title: `${title} ${n}` }));

const nothing = { type: "object", properties: {} };
const string = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });
const TOOLS = {
  test_simple_text: [nothing, () => [text("This is a simple text response for testing.")]],
  test_image_content: [nothing, () => [image]],
  test_audio_content: [nothing, () => [{ type: "audio", data: WAV, mimeType: "audio/wav" }]],
  test_embedded_resource: [
    nothing,
    () => [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  ],
  test_multiple_content_types: [
    nothing,
    () => [
      text("Multiple content types test:"),
      image,
      resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
  ],
  test_tool_with_logging: [
    nothing,
    async (_, extra) => {
      await log(extra, "Tool execution started");
      await pause();
      await log(extra, "Tool processing data");
      await pause();
      await log(extra, "Tool execution completed");
      return [text("done")];
    },
  ],
  test_tool_with_progress: [
    nothing,
    async (_, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined) {
          const params = { progressToken, progress, total: 100 };
          await extra.sendNotification({ method: "notifications/progress", params });
        }
        await pause();
      }
      return [text("done")];
    },
  ],
  test_error_handling: [
    nothing,
    () => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  ],
  test_sampling: [
    string("prompt"),
    async ({ prompt }, extra) => {
      const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 };
      const schema = types.CreateMessageResultSchema;
      const said = await extra.sendRequest({ method: "sampling/createMessage", params }, schema);
      return [text(`LLM response: ${said.content.text}`)];
    },
  ],
  test_elicitation: [
    string("message"),
    ({ message }, extra) =>
      elicit(extra, message, { username: { type: "string" }, email: { type: "string" } }, ["username", "email"]),
  ],
  test_elicitation_sep1034_defaults: [
    nothing,
    (_, extra) =>
      elicit(extra, "defaults", {
        name: { type: "string", default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      }),
  ],
  test_elicitation_sep1330_enums: [
    nothing,
    (_, extra) =>
      elicit(extra, "enums", {
        untitledSingle: { type: "string", enum: options },
        titledSingle: { type: "string", oneOf: titled("Option") },
        legacyEnum: {
          type: "string",
          enum: ["opt1", "opt2", "opt3"],
          enumNames: ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti: { type: "array", items: { type: "string", enum: options } },
        titledMulti: { type: "array", items: { anyOf: titled("Choice") } },
      }),
  ],
  json_schema_2020_12_tool: [
    {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: {
        address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } },
      },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    },
    () => [text("done")],
  ],
};

const on = (schema, handle) => server.setRequestHandler(schema, handle);
on(types.ListToolsRequestSchema, () => ({
  tools: Object.entries(TOOLS).map(([name, [inputSchema]]) => ({ name, description: `Tests ${name}.`, inputSchema })),
}));
on(types.CallToolRequestSchema, async ({ params }, extra) => {
  const [, run] = TOOLS[params.name] ?? [];
  if (!run) throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
  try {
    return { content: await run(params.arguments ?? {}, extra) };
  } catch (error) {
    return { isError: true, content: [text(error.message)] };
  }
});
const static_text = { uri: "test://static-text", name: "Text", description: "A text.", mimeType: "text/plain" };
on(types.ListResourcesRequestSchema, () => ({
  resources: [
    static_text,
    { uri: "test://static-binary", name: "Binary", description: "An image.", mimeType: "image/png" },
    { uri: "test://watched-resource", name: "Watched", description: "Watched.", mimeType: "text/plain" },
  ],
}));
on(types.ListResourceTemplatesRequestSchema, () => ({
  resourceTemplates: [
    { uriTemplate: "test://template/{id}/data", name: "Data", description: "Data.", mimeType: "application/json" },
  ],
}));
on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
  const id = /^test:\/\/template\/(.*)\/data$/.exec(uri)?.[1];
  if (id) {
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: "application/json", text: data }] };
  }
  if (uri === "test://static-binary") return { contents: [{ uri, mimeType: "image/png", blob: PNG }] };
  return { contents: [{ uri, mimeType: "text/plain", text: "This is the content of the static text resource." }] };
});
on(types.SubscribeRequestSchema, () => ({}));
on(types.UnsubscribeRequestSchema, () => ({}));
const argument = (name) => ({ name, description: name, required: true });
const PROMPTS = {
  test_simple_prompt: [[], () => [text("This is a simple prompt for testing.")]],
  test_prompt_with_arguments: [
    [argument("arg1"), argument("arg2")],
    ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  ],
  test_prompt_with_embedded_resource: [
    [argument("resourceUri")],
    ({ resourceUri }) => [
      resource(resourceUri, "text/plain", "Embedded resource content for testing."),
      text("Please process the embedded resource above."),
    ],
  ],
  test_prompt_with_image: [[], () => [image, text("Please analyze the image above.")]],
};
on(types.ListPromptsRequestSchema, () => ({
  prompts: Object.entries(PROMPTS).map(([name, [args]]) => ({ name, description: name, arguments: args })),
}));
on(types.GetPromptRequestSchema, ({ params }) => {
  const [, make] = PROMPTS[params.name] ?? [];
  if (!make) throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown prompt: ${params.name}`);
  return { messages: make(params.arguments ?? {}).map((content) => ({ role: "user", content })) };
});
on(types.CompleteRequestSchema, () => ({ completion: { values: ["paris", "park", "party"], total: 150, hasMore: false } }));
on(types.SetLevelRequestSchema, () => ({}));

await server.connect(new StdioServerTransport());
