// TypeScript SDK 1.x: StreamableHTTPClientTransport, SSEClientTransport and WebSocketClientTransport.
// usage: node typescript_sdk_1.mjs FOLDER, the one whose node_modules has the SDK; commands as in __init__.py.

import { createRequire } from "node:module";
import { join } from "node:path";

import { CAPABILITIES, answering, notified, run } from "./lines.mjs";

const require = createRequire(join(process.argv[2], "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = require("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { WebSocketClientTransport } = require("@modelcontextprotocol/sdk/client/websocket.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const TRANSPORTS = { http: StreamableHTTPClientTransport, sse: SSEClientTransport, ws: WebSocketClientTransport };

run(async ({ url, transport: kind, headers = {} }) => {
  const client = new Client({ name: "mooring-e2e", version: "1" }, { capabilities: CAPABILITIES });
  client.setRequestHandler(types.ElicitRequestSchema, answering("elicitation/create"));
  client.setRequestHandler(types.CreateMessageRequestSchema, answering("sampling/createMessage"));
  client.setRequestHandler(types.ListRootsRequestSchema, answering("roots/list"));
  client.fallbackNotificationHandler = notified;
  const transport = new TRANSPORTS[kind](new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return {
    described: () => ({ version: transport.protocolVersion ?? null, session: transport.sessionId ?? null }),
    listTools: () => client.listTools(),
    call: (params, options) => client.callTool(params, undefined, options),
    setLevel: (level) => client.setLoggingLevel(level),
    subscribe: (uri) => client.subscribeResource({ uri }),
    async close() {
      if (transport.terminateSession) await transport.terminateSession();
      await client.close();
    },
  };
});
