// A real OpenID provider for tests: node identity_server.mjs LIBRARY
// Reads one JSON line at a time from stdin: {"jwks": {...}, "resources": [...], "port": N}. Each line replaces
// the provider, keeping its address, and is answered with {"issuer": URL} once it serves. Everybody signs in as
// the login_hint, or else as "ada", without being asked; the groups of a token are those that its client id names
// after "groups.". With "access_ttl", access tokens live for so many seconds and refresh tokens are rotated.
// "gateway" may exchange the access tokens of this provider (RFC 8693).
import { createPublicKey, verify } from "node:crypto";
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

const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";

function subjectOf(token, jwks, issuer) {
  const [header, payload, signature] = token.split(".");
  const key = createPublicKey({ key: jwks.keys[0], format: "jwk" });
  const claims = JSON.parse(Buffer.from(payload, "base64url"));
  const signed = verify("RSA-SHA256", Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, "base64url"));
  return signed && claims.iss === issuer && claims.exp > Date.now() / 1000 ? claims.sub : undefined;
}

function exchange(provider, infoOf, jwks, issuer) {
  const handler = async (ctx) => {
    const { params, client } = ctx.oidc;
    const accountId = subjectOf(params.subject_token, jwks, issuer);
    if (!accountId) {
      ctx.status = 400;
      ctx.body = { error: "invalid_grant" };
      return;
    }
    const token = new provider.AccessToken({ accountId, client, scope: params.scope });
    token.resourceServer = new provider.ResourceServer(params.resource, infoOf(ctx, params.resource));
    ctx.body = {
      access_token: await token.save(),
      issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
      token_type: "Bearer",
      expires_in: token.expiration,
      scope: params.scope,
    };
  };
  const names = ["subject_token", "subject_token_type", "requested_token_type", "audience", "resource", "scope"];
  provider.registerGrantType(EXCHANGE, handler, names, []);
}

function providerOf(issuer, { jwks, resources, scopes = "mcp", access_ttl }) {
  const infoOf = (_, resource) => {
    if (!resources.includes(resource)) throw new Error(`unknown resource ${resource}`);
    const lives = access_ttl ? { accessTokenTTL: access_ttl } : {};
    return { scope: scopes, accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } }, ...lives };
  };
  const confidential = (client_id) => ({
    client_id,
    client_secret: "a-secret-of-the-tests-0123456789",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  });
  const provider = new Provider(issuer, {
    jwks,
    clients: [
      ...["groups.engineers", "groups.leads", "groups.nobody", "groups.ops.leads"].map(confidential),
      { ...confidential("gateway"), grant_types: [EXCHANGE, "client_credentials"] },
    ],
    ...(access_ttl ? { rotateRefreshToken: true } : {}),
    cookies: { keys: ["a-key-of-the-tests"] },
    scopes: ["openid", "offline_access", "mcp", "groups"],
    claims: { groups: ["groups"] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: infoOf,
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
    const { params } = await provider.interactionDetails(ctx.req, ctx.res);
    const accountId = params.login_hint ?? "ada";
    await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId }, consent: {} });
    ctx.respond = false;
  });
  exchange(provider, infoOf, jwks, issuer);
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
