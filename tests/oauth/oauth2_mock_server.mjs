// An MCP server of revision 2025-03-26: its own authorization server (the real oauth2-mock-server), no metadata
// about itself as a resource, no registration, nobody to ask.
//
//     node oauth2_mock_server.mjs NODE_MODULES
//
// Each line on stdout is an event as JSON; the first says where it listens.

import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , modules] = process.argv;
const entry = pathToFileURL(path.join(modules, "oauth2-mock-server/dist/index.mjs")).href;
const tell = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const { OAuth2Issuer, OAuth2Service } = await import(entry);

const issuer = new OAuth2Issuer();
await issuer.keys.generate("RS256");
const service = new OAuth2Service(issuer);
const tokens = new Set();
service.on("beforeResponse", (response, request) => {
  tokens.add(response.body.access_token);
  tell("granted", { by: request.body.grant_type, resource: request.body.resource });
});

const server = http.createServer((request, response) => {
  if (request.url !== "/mcp") {
    service.requestHandler(request, response);
    return;
  }
  const token = (request.headers.authorization ?? "").replace("Bearer ", "");
  response.statusCode = tokens.has(token) ? 200 : 401;
  if (response.statusCode === 401) response.setHeader("www-authenticate", 'Bearer realm="old"');
  response.end("{}");
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
issuer.url = `http://127.0.0.1:${server.address().port}`;
tell("listening", { issuer: issuer.url });
process.stdin.on("end", () => process.exit(0)).resume();
