// A real OpenID provider for tests: node identity_server.mjs LIBRARY
// Reads one JSON line at a time from stdin: {"jwks": {...}, "resources": [...], "port": N}. Each line replaces
// the provider, keeping its address, and is answered with {"issuer": URL} once it serves. Everybody signs in as
// "ada" without being asked; the groups of a token are those that its client id names after "groups.".
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const { Provider } = await import(process.argv[2]);
let handle = (request, response) => response.writeHead(503).end();
let isAway = false;
const server = createServer((request, response) => {
  if (isAway) return response.writeHead(503).end();
  return handle(request, response);
});

const groupsOf = (name) => (name.startsWith("groups.") ? name.split(".").slice(1) : ["engineers"]);

function providerOf(issuer, { jwks, resources, scopes = "mcp" }) {
  const confidential = (client_id) => ({
    client_id,
    client_secret: "a-secret-of-the-tests-0123456789",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  });
  const provider = new Provider(issuer, {
    jwks,
    clients: ["groups.engineers", "groups.leads", "groups.nobody", "groups.ops.leads"].map(confidential),
    cookies: { keys: ["a-key-of-the-tests"] },
    scopes: ["openid", "offline_access", "mcp", "groups"],
    claims: { groups: ["groups"] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          if (!resources.includes(resource)) throw new Error(`unknown resource ${resource}`);
          return { scope: scopes, accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } };
        },
      },
    },
    extraTokenClaims: (_, token) => {
      const groups = groupsOf(token.accountId ?? token.clientId);
      return { groups, realm_access: { roles: groups } };
    },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId, groups: groupsOf(accountId) }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    loadExistingGrant: async (ctx) => {
      const { provider: own, client, session, params } = ctx.oidc;
      const grant = new own.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope("openid offline_access mcp groups");
      for (const resource of [params.resource].flat().filter(Boolean)) grant.addResourceScope(resource, scopes);
      await grant.save();
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith("/interaction/")) return next();
    await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: "ada" }, consent: {} });
    ctx.respond = false;
  });
  return provider.callback();
}

const listening = new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
for await (const line of createInterface({ input: process.stdin })) {
  await listening;
  const wanted = JSON.parse(line);
  const issuer = `http://127.0.0.1:${server.address().port}`;
  isAway = wanted.is_away ?? false;
  if (wanted.jwks) handle = providerOf(issuer, wanted);
  console.log(JSON.stringify({ issuer }));
}
server.closeAllConnections();
server.close();
