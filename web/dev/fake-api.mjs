/**
 * A CodeHub that is all surface: the API of the real one, in memory, for looking at pages and for nothing else.
 *
 *   npm run build && npm run fake-api        → http://127.0.0.1:8000  (ann / admin / newcomer, password "password")
 *   npm run dev                              → the same with hot reload, proxied to it
 *
 * PORT=0 picks a free port and prints it. It serves the built dashboard with the production content security policy,
 * so whatever the policy would forbid is seen here first.
 */
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { images, makeInstallation, orphans } from "./fake-installation.mjs";

const STATIC = fileURLToPath(new URL("../../src/codehub/api/static", import.meta.url));
const CSP =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

const installation = makeInstallation();
const sessions = new Map();
const streams = new Set();
/** Requests answered with this problem instead ("unavailable"), set by tests over POST /dev/fail. */
let failing = null;
let refuseStreams = false;

installation.onChange((event, ws) => {
  for (const stream of streams)
    if (stream.wants(ws))
      stream.send(event, installation.show(ws), event === "progress" ? null : `${ws.id}:${ws.version}`);
});

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  try {
    if (url.pathname.startsWith("/dev/")) return develop(url, response);
    if (url.pathname.startsWith("/api/v1/")) return await api(request, response, url);
    if (url.pathname === "/health/coordinator") return json(response, 200, installation.health());
    if (url.pathname.startsWith("/w/")) return text(response, 200, "Here would be the IDE.");
    return file(response, url.pathname);
  } catch (error) {
    if (error?.code) return problem(response, error.status, error.code, error.detail, error.extra);
    console.error(error);
    return problem(response, 500, "internal", "The fake stumbled.");
  }
});

function develop(url, response) {
  if (url.pathname === "/dev/fail") failing = url.searchParams.get("code");
  if (url.pathname === "/dev/lost") {
    refuseStreams = url.searchParams.get("on") === "1";
    if (refuseStreams) for (const stream of streams) stream.end();
  }
  if (url.pathname === "/dev/reset") installation.reset();
  if (url.pathname === "/dev/many") installation.many(url.searchParams.get("owner"));
  response.writeHead(204).end();
}

async function api(request, response, url) {
  const path = url.pathname.slice("/api/v1".length);
  const body = ["POST", "PATCH"].includes(request.method) ? await read(request) : null;
  if (request.method === "POST" && path === "/auth/login") return signIn(response, body);
  const user = installation.users.find((u) => u.id === sessions.get(cookie(request)));
  if (!user) return problem(response, 401, "unauthorized", "Not signed in.");
  if (failing && !path.startsWith("/auth")) return problem(response, 503, failing, "Made to fail.");
  for (const [method, pattern, handler] of ROUTES) {
    const found = request.method === method && pattern.exec(path);
    if (found) return handler({ request, response, url, body, user, id: found[1] });
  }
  return problem(response, 404, "not_found", "No such thing.");
}

function signIn(response, { username, password }) {
  const user = installation.users.find((u) => u.username === username);
  if (username === "eager")
    return problem(response, 429, "rate_limited", "Slow down.", {}, { "Retry-After": "30" });
  if (!user || password !== "password" || user.disabled_at)
    return problem(response, 401, "unauthorized", "Wrong.");
  const session = crypto.randomUUID();
  sessions.set(session, user.id);
  response.setHeader("Set-Cookie", `codehub_session=${session}; HttpOnly; SameSite=Lax; Path=/`);
  return json(response, 200, { user });
}

const desire = (state) => (c) =>
  json(c.response, 202, installation.show(installation.setDesired(mine(c), state, c.user)));

const ROUTES = [
  ["GET", /^\/auth\/session$/, (c) => json(c.response, 200, { user: c.user })],
  ["POST", /^\/auth\/logout$/, (c) => (sessions.delete(cookie(c.request)), c.response.writeHead(204).end())],
  [
    "POST",
    /^\/auth\/password$/,
    (c) =>
      c.body.current === "password"
        ? c.response.writeHead(204).end()
        : problem(c.response, 403, "forbidden", "Wrong."),
  ],
  [
    "GET",
    /^\/events$/,
    (c) =>
      follow(c, c.url.searchParams.get("owner") === "all" ? () => true : (ws) => ws.owner_id === c.user.id),
  ],
  [
    "GET",
    /^\/workspaces$/,
    (c) => json(c.response, 200, { items: installation.all().map(installation.show), next_cursor: null }),
  ],
  [
    "POST",
    /^\/workspaces$/,
    (c) => json(c.response, 201, installation.show(installation.create(c.user, c.body))),
  ],
  ["GET", /^\/workspaces\/([^/]+)$/, (c) => json(c.response, 200, installation.show(mine(c)))],
  [
    "PATCH",
    /^\/workspaces\/([^/]+)$/,
    (c) => json(c.response, 200, installation.show(installation.edit(mine(c), c.body, c.user))),
  ],
  [
    "DELETE",
    /^\/workspaces\/([^/]+)$/,
    (c) => json(c.response, 202, installation.show(installation.remove(mine(c), c.user))),
  ],
  ["POST", /^\/workspaces\/([^/]+)\/start$/, desire("RUNNING")],
  ["POST", /^\/workspaces\/([^/]+)\/stop$/, desire("STANDBY")],
  ["POST", /^\/workspaces\/([^/]+)\/archive$/, desire("PENDING")],
  [
    "POST",
    /^\/workspaces\/([^/]+)\/keep-awake$/,
    (c) => json(c.response, 202, installation.show(installation.keepAwake(mine(c), c.body.hours, c.user))),
  ],
  [
    "POST",
    /^\/workspaces\/([^/]+)\/recover$/,
    (c) => json(c.response, 202, installation.show(installation.recover(mine(c), c.user))),
  ],
  ["GET", /^\/workspaces\/([^/]+)\/events$/, (c) => follow(c, (ws) => ws.id === c.id)],
  [
    "GET",
    /^\/workspaces\/([^/]+)\/history$/,
    (c) => json(c.response, 200, { items: installation.history(mine(c)), next_cursor: null }),
  ],
  [
    "GET",
    /^\/workspaces\/([^/]+)\/archives$/,
    (c) => json(c.response, 200, { items: installation.archives(mine(c)), next_cursor: null }),
  ],
  ["GET", /^\/workspaces\/([^/]+)\/logs$/, (c) => logs(c)],
  ["GET", /^\/images$/, (c) => json(c.response, 200, images)],
  ["GET", /^(\/admin)?\/savings$/, (c) => json(c.response, 200, installation.savings())],
  ["GET", /^\/limits$/, (c) => json(c.response, 200, installation.limits(c.user))],
  ["GET", /^\/ssh-keys$/, (c) => json(c.response, 200, installation.sshKeys(c.user))],
  ["POST", /^\/ssh-keys$/, (c) => json(c.response, 201, installation.addSshKey(c.user, c.body))],
  ["GET", /^\/tokens$/, (c) => json(c.response, 200, { items: c.user.tokens, next_cursor: null })],
  ["POST", /^\/tokens$/, (c) => json(c.response, 201, installation.createToken(c.user, c.body))],
  [
    "DELETE",
    /^\/tokens\/([^/]+)$/,
    (c) => ((c.user.tokens = c.user.tokens.filter((t) => t.id !== c.id)), c.response.writeHead(204).end()),
  ],
  ["GET", /^\/users$/, (c) => json(c.response, 200, { items: installation.users, next_cursor: null })],
  ["POST", /^\/users$/, (c) => json(c.response, 201, installation.addUser(c.body))],
  ["PATCH", /^\/users\/([^/]+)$/, (c) => json(c.response, 200, installation.changeUser(c.id, c.body))],
  ["GET", /^\/admin\/overview$/, (c) => json(c.response, 200, installation.overview())],
  ["GET", /^\/admin\/orphans$/, (c) => json(c.response, 200, { items: orphans(), next_cursor: null })],
  [
    "GET",
    /^\/admin\/audit$/,
    (c) => json(c.response, 200, { items: installation.audit(), next_cursor: null }),
  ],
];

function mine({ id, user }) {
  const ws = installation.find(id);
  if (!ws || (ws.owner_id !== user.id && user.role !== "admin"))
    throw { status: 404, code: "not_found", detail: "No such workspace." };
  return ws;
}

function openStream(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const send = (event, data, id) =>
    response.write(`event: ${event}\n${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(data)}\n\n`);
  const beat = setInterval(() => send("heartbeat", { at: new Date().toISOString() }), 30_000);
  const stream = { send, wants: () => false, end: () => response.end() };
  streams.add(stream);
  response.on("close", () => (clearInterval(beat), streams.delete(stream)));
  return stream;
}

function follow({ response }, wants) {
  if (refuseStreams) return problem(response, 503, "unavailable", "Made to fail.");
  const stream = openStream(response);
  stream.wants = wants;
  const shown = installation.all().filter(wants);
  stream.send("snapshot", { ids: shown.map((ws) => ws.id) });
  for (const ws of shown) stream.send("state_changed", installation.show(ws), `${ws.id}:${ws.version}`);
}

function logs(c) {
  const ws = mine(c);
  if (c.url.searchParams.get("follow") !== "true")
    return text(
      c.response,
      200,
      ws.observed_status === "RUNNING" ? installation.logLines(ws).join("\n") : "",
    );
  const stream = openStream(c.response);
  for (const line of installation.logLines(ws)) stream.send("log", { text: `${line}\n` });
  const more = setInterval(
    () =>
      stream.send("log", {
        line: `[I ${new Date().toISOString().slice(11, 19)}] 200 GET /api/contents (ann) 1.2ms`,
      }),
    2000,
  );
  c.response.on("close", () => clearInterval(more));
}

function cookie(request) {
  return /codehub_session=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
}

async function read(request) {
  let data = "";
  for await (const chunk of request) data += chunk;
  return data ? JSON.parse(data) : {};
}

function json(response, status, value) {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
}

function text(response, status, value) {
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" }).end(value);
}

function problem(response, status, code, detail, extra = {}, headers = {}) {
  response
    .writeHead(status, { "Content-Type": "application/problem+json", ...headers })
    .end(JSON.stringify({ type: "about:blank", title: code, status, code, detail, ...extra }));
}

function file(response, path) {
  const wanted = normalize(join(STATIC, path));
  const found =
    wanted.startsWith(STATIC) && extname(wanted) && existsSync(wanted) ? wanted : join(STATIC, "index.html");
  response.writeHead(200, {
    "Content-Type": TYPES[extname(found)] ?? "application/octet-stream",
    "Content-Security-Policy": CSP,
  });
  createReadStream(found).pipe(response);
}

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${server.address().port}`),
);
