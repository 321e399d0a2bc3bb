// The real oidc-provider on loopback: registration, PKCE, resource indicators, rotation, revocation.
//
//     node oidc_provider.mjs NODE_MODULES '{"scopes": "mcp:read mcp:write"}'
//
// Each line on stdout is an event as JSON; the first says where it listens. Under /control/ a test looks at tokens
// and takes them away, as the owner of the server could.

import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , modules, text] = process.argv;
const options = JSON.parse(text ?? "{}");
const entry = pathToFileURL(path.join(modules, "oidc-provider/lib/index.js")).href;
const tell = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const { Provider } = await import(entry);

const server = http.createServer();
await new Promise((done) => server.listen(options.port ?? 0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}${options.path ?? ""}`;

const provider = new Provider(issuer, {
  clients: options.clients ?? [],
  ...(options.methods ? { clientAuthMethods: options.methods } : {}),
  scopes: ["openid", "offline_access"],
  ttl: { Interaction: 3600, Session: 3600, Grant: 86400, RefreshToken: 86400, AccessToken: 3600 },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => !options.noRefresh && client.grantTypeAllowed("refresh_token"),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: options.revocation ?? true, allowedPolicy: async () => true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: async (_ctx, resource) => ({
        scope: options.scopes ?? "mcp:read mcp:write",
        audience: resource,
        accessTokenFormat: "opaque",
        accessTokenTTL: options.lifetime ?? 3600,
      }),
      useGrantedResource: async () => true,
    },
  },
});

provider.on("grant.success", (ctx) => tell("granted", { by: ctx.oidc.params.grant_type, resource: ctx.oidc.params.resource }));
provider.on("grant.error", (ctx, error) => tell("refused", { by: ctx.oidc.params?.grant_type, error: error.error }));
provider.on("registration_create.success", (_ctx, client) =>
  tell("registered", { id: client.clientId, method: client.tokenEndpointAuthMethod, type: client.applicationType }),
);
provider.on("server_error", (_ctx, error) => tell("failed", { error: String(error.stack) }));

const control = {
  token: async (value) => {
    const found = (await provider.AccessToken.find(value)) ?? null;
    return found && { audience: found.aud, scope: found.scope, client: found.clientId };
  },
  revoke: async (value) => {
    await (await provider.AccessToken.find(value))?.destroy();
    return null;
  },
  refresh: async (value) => {
    const found = (await provider.RefreshToken.find(value)) ?? null;
    return found && { consumed: Boolean(found.consumed) };
  },
  forget: async (id) => {
    await provider.Client.adapter.destroy(id);
    return null;
  },
};

const answer = provider.callback();
server.on("request", async (request, response) => {
  const url = new URL(request.url, issuer);
  if (!url.pathname.startsWith("/control/")) {
    if (options.path) {
      // Mounted below a path: only what is below it is the provider's, but for its metadata.
      const inserted = `/.well-known/oauth-authorization-server${options.path}`;
      if (url.pathname === inserted) request.url = "/.well-known/openid-configuration";
      else request.url = request.url.startsWith(options.path) ? request.url.slice(options.path.length) : "/nothing";
      request.originalUrl = options.path + request.url;
    }
    tell("asked", { method: request.method, path: url.pathname });
    answer(request, response);
    return;
  }
  const found = await control[url.pathname.slice("/control/".length)](url.searchParams.get("value"));
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(found));
});
tell("listening", { issuer });
process.stdin.on("end", () => process.exit(0)).resume();
