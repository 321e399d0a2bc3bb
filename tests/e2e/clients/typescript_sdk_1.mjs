// TypeScript SDK 1.x: StreamableHTTPClientTransport, SSEClientTransport and WebSocketClientTransport.
// usage: node typescript_sdk_1.mjs FOLDER, the one whose node_modules has the SDK; commands as in __init__.py.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { WebSocketClientTransport } = require("@modelcontextprotocol/sdk/client/websocket.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const TRANSPORTS = { http: StreamableHTTPClientTransport, sse: SSEClientTransport, ws: WebSocketClientTransport };
const running = new Map(); // id of a call → its AbortController
let client;
let transport;

function answer(schema, method, result) {
  client.setRequestHandler(schema, async (request) => {
    say({ event: "asked", method, params: request.params ?? null });
    return result;
  });
}

const COMMANDS = {
  async connect({ url, transport: kind }) {
    client = new Client(
      { name: "mooring-e2e", version: "1" },
      { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
    );
    answer(types.ElicitRequestSchema, "elicitation/create", { action: "accept", content: { answer: "forty-two" } });
    answer(types.CreateMessageRequestSchema, "sampling/createMessage", {
      role: "assistant",
      content: { type: "text", text: "a model's words" },
      model: "test",
    });
    answer(types.ListRootsRequestSchema, "roots/list", { roots: [{ uri: "file:///harbour" }] });
    client.fallbackNotificationHandler = async ({ method, params }) => say({ event: "notification", method, params });
    transport = new TRANSPORTS[kind ?? "http"](new URL(url));
    await client.connect(transport);
    return { version: transport.protocolVersion ?? null, session: transport.sessionId ?? null };
  },

  async list_tools() {
    return (await client.listTools()).tools.map((tool) => tool.name);
  },

  async call({ id, tool, arguments: given = {}, progress }) {
    const controller = new AbortController();
    running.set(id, controller);
    const options = { signal: controller.signal, timeout: 600_000 };
    if (progress) {
      options.onprogress = (report) =>
        say({ event: "progress", call: id, progress: report.progress, total: report.total ?? null });
    }
    return await client.callTool({ name: tool, arguments: given }, undefined, options);
  },

  async cancel({ call }) {
    running.get(call).abort("given up");
    return null;
  },

  async set_level({ level }) {
    await client.setLoggingLevel(level);
    return null;
  },

  async subscribe({ uri }) {
    await client.subscribeResource({ uri });
    return null;
  },

  async close() {
    if (transport.terminateSession) await transport.terminateSession();
    await client.close();
    input.close();
    return null;
  },
};

const input = createInterface({ input: process.stdin });
input.on("line", async (line) => {
  const command = JSON.parse(line);
  try {
    say({ id: command.id, result: (await COMMANDS[command.do](command)) ?? null });
  } catch (error) {
    const code = Number.isInteger(error?.code) ? error.code : null;
    say({ id: command.id, error: { code, message: String(error?.message ?? error), data: error?.data ?? null } });
  }
});
