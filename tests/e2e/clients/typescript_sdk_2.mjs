// TypeScript SDK 2.x, in mode legacy, auto or a modern version: StreamableHTTPClientTransport and SSEClientTransport.
// usage: node typescript_sdk_2.mjs FOLDER, the one whose node_modules has the SDK; commands as in __init__.py.

import { createRequire } from "node:module";
import { join } from "node:path";

import { ANSWERS, CAPABILITIES, answering, notified, run } from "./lines.mjs";

const require = createRequire(join(process.argv[2], "package.json"));
const sdk = require("@modelcontextprotocol/client");

const TRANSPORTS = { http: sdk.StreamableHTTPClientTransport, sse: sdk.SSEClientTransport };

run(async ({ url, transport: kind, mode = "legacy", headers = {} }) => {
  const versionNegotiation = { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } };
  const client = new sdk.Client(
    { name: "mooring-e2e", version: "1" },
    { capabilities: CAPABILITIES, versionNegotiation },
  );
  for (const method in ANSWERS) client.setRequestHandler(method, answering(method));
  client.fallbackNotificationHandler = notified;
  const transport = new TRANSPORTS[kind](new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  const isModern = client.getProtocolEra() === "modern";
  let meta = {}; // of every call
  return {
    described: () => ({ version: client.getNegotiatedProtocolVersion(), session: transport.sessionId ?? null }),
    listTools: () => client.listTools(undefined, { cacheMode: "bypass" }),
    call: (params, options) => client.callTool({ ...params, _meta: meta }, options),
    async setLevel(level) {
      if (isModern) meta = { [sdk.LOG_LEVEL_META_KEY]: level };
      else await client.setLoggingLevel(level);
    },
    async subscribe(uri) {
      const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
      if (isModern) await client.listen({ ...lists, resourceSubscriptions: [uri] });
      else await client.subscribeResource({ uri });
    },
    async close() {
      if (transport.terminateSession) await transport.terminateSession();
      await client.close();
    },
  };
});
