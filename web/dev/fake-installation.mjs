/** The make-believe behind the fake API: a few people, workspaces in every state, and operations that take seconds. */
import { randomUUID } from "node:crypto";

const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const ahead = (seconds) => ago(-seconds);
const LEVEL = { PENDING: 0, STANDBY: 1, RUNNING: 2 };
const NAMES = ["PENDING", "STANDBY", "RUNNING"];
const STEP_MS = Number(process.env.STEP_MS ?? 300);
const ALLOWED = 2;

export const images = {
  items: [
    { name: "jupyterlab", title: null, node_local_home: false, installation: null },
    {
      name: "code-server",
      title: "VS Code",
      node_local_home: false,
      installation: { version: null, offered: "4.139.1", percent: null, fetched_mb: 260, disk_mb: 850 },
    },
  ],
  default: "jupyterlab",
};

export const orphans = () => [
  { kind: "volume", name: "ws-0191f3a2-home", first_seen_at: ago(86400 * 3), bytes: 1_830_000_000 },
  {
    kind: "archive",
    name: "0191f3a2-77aa/9b1c-2f/1/home.tar.zst",
    first_seen_at: ago(5400),
    bytes: 412_000_000,
  },
  {
    kind: "volume",
    name: "pvc-5f0c1a77",
    first_seen_at: ago(86400),
    bytes: 10_737_418_240,
    why: "retained",
  },
  { kind: "container", name: "ws-0191c001", first_seen_at: ago(240), bytes: null, why: "unknown_workspace" },
];

const refuse = (status, code, detail, extra) => ({ status, code, detail, extra });

/** The cause as the server tells it: the sentence, and the code with its parameters where there is one. */
function coded(cause) {
  const unit = { s: 1, min: 60, h: 3600, d: 86400 };
  const timed = /^(idle|not used) for (\d+) (s|min|h|d)$/.exec(cause ?? "");
  if (timed) {
    const cause_code = timed[1] === "idle" ? "idle" : "forgotten";
    return { cause, cause_code, cause_params: { seconds: Number(timed[2]) * unit[timed[3]] } };
  }
  if (cause === "opened the link") return { cause, cause_code: "link_opened", cause_params: {} };
  const asked = /^(created|edited|asked to \w+)$/.test(cause ?? "");
  return { cause, cause_code: asked ? cause.replaceAll(" ", "_") : null, cause_params: {} };
}

export function makeInstallation() {
  const listeners = [];
  const workspaces = new Map();
  const events = new Map();
  const audit = [];
  const users = [];
  const emit = (event, ws) => listeners.forEach((listener) => listener(event, ws));

  function change(ws, columns, actor, cause = null) {
    const changes = {};
    for (const [key, value] of Object.entries(columns)) {
      changes[key] = [ws[key] ?? null, value];
      ws[key] = value;
    }
    ws.version += 1;
    ws.updated_at = ago(0);
    events.get(ws.id).unshift({
      seq: Date.now() * 100 + (ws.version % 100),
      version: ws.version,
      at: ago(0),
      changes,
      actor,
      ...coded(cause),
    });
    emit("state_changed", ws);
    if (columns.error_info) emit("error", ws);
  }

  function step(ws) {
    if (ws.frozen || ws.operation !== "NONE" || ws.error_info?.is_terminal) return;
    if (ws.deleted_at) return run(ws, "DELETING", "DELETED", { observed_status: "DELETED" });
    const here = LEVEL[ws.observed_status];
    const there = LEVEL[ws.desired_state];
    if (here === there) return;
    const next = NAMES[here + Math.sign(there - here)];
    if (there > here)
      run(ws, here === 1 ? "STARTING" : ws.archive_key ? "RESTORING" : "PROVISIONING", next, {});
    else
      run(
        ws,
        here === 2 ? "STOPPING" : "ARCHIVING",
        next,
        here === 1 ? { archive_key: `${ws.id}/${randomUUID()}/1/home.tar.zst` } : {},
      );
  }

  function run(ws, operation, target, extra) {
    change(ws, { operation, op_id: randomUUID(), op_started_at: ago(0) }, "reconciler");
    let percent = 0;
    const timer = setInterval(() => {
      percent += operation === "RESTORING" || operation === "ARCHIVING" ? 10 : 34;
      if (percent < 100) {
        ws.progress = operation === "STARTING" || operation === "STOPPING" ? null : percent;
        return emit("progress", ws);
      }
      clearInterval(timer);
      ws.progress = null;
      change(ws, { observed_status: target, observed_at: ago(0), ...extra }, "observer");
      if (target === "DELETED") return (workspaces.delete(ws.id), emit("deleted", ws));
      change(ws, { operation: "NONE", op_id: null, op_started_at: null }, "reconciler");
      step(ws);
    }, STEP_MS);
  }

  function status(ws) {
    if (ws.observed_status === "DELETED") return "deleted";
    if (ws.deleted_at) return "deleting";
    if (ws.error_info?.is_terminal) return "error";
    if (ws.operation !== "NONE") return ws.operation.toLowerCase();
    if (ws.observed_status === "PENDING") return ws.archive_key ? "archived" : "new";
    return ws.observed_status.toLowerCase();
  }

  function whatNext(ws) {
    if (ws.operation !== "NONE" || ws.error_info) return null;
    if (
      ws.observed_status === "RUNNING" &&
      ws.connections === 0 &&
      ws.standby_ttl_seconds > 0 &&
      !ws.awake_until
    )
      return { to: "STANDBY", at: ws.nextAt ?? ahead(260), why: "idle" };
    if (ws.observed_status === "STANDBY" && ws.archive_ttl_seconds > 0)
      return { to: "PENDING", at: ws.nextAt ?? ahead(71_000), why: "unused" };
    return null;
  }

  const show = ({ frozen: _frozen, connections, nextAt, kind, seenAgo, ...ws }) => ({
    ...ws,
    status: status(ws),
    holds_place: ws.deleted_at === null && ws.desired_state === "RUNNING",
    url: `/w/${ws.id}/`,
    activity: {
      connections,
      last_seen_at: ago(seenAgo),
      kind,
      awake: null,
      next: whatNext({ ...ws, connections, nextAt }),
      queue: ws.queued_at
        ? { place: 2, limit: "limit_global", since: ws.queued_at, estimated_seconds: 540 }
        : null,
    },
  });

  function add(owner, name, columns = {}) {
    const id = randomUUID();
    const ws = {
      id,
      owner_id: owner.id,
      name,
      description: "",
      tags: [],
      pinned: false,
      memo: "",
      image_ref: "jupyterlab",
      desired_state: "PENDING",
      standby_ttl_seconds: 300,
      archive_ttl_seconds: 86400,
      last_access_at: ago(400),
      awake_until: null,
      queued_at: null,
      active_until: null,
      deleted_at: null,
      observed_status: "PENDING",
      health_status: "OK",
      observed_at: ago(4),
      operation: "NONE",
      op_id: null,
      op_seq: 0,
      op_started_at: null,
      op_acted_at: null,
      archive_key: null,
      archived_at: null,
      restore_from: null,
      return_given_up: null,
      node_local_home: false,
      error_count: 0,
      error_info: null,
      last_retry_at: null,
      previous_status: null,
      version: 1,
      created_at: ago(86400 * 12),
      updated_at: ago(60),
      progress: null,
      connections: 0,
      kind: "websocket",
      seenAgo: 40,
      ...columns,
    };
    workspaces.set(id, ws);
    events.set(id, [
      {
        seq: 1,
        version: 1,
        at: ws.created_at,
        changes: {},
        actor: `user:${owner.username}`,
        ...coded("created"),
      },
    ]);
    return ws;
  }

  function past(ws, ...entries) {
    const list = events.get(ws.id);
    for (const [seconds, changes, actor, cause] of entries) {
      ws.version += 1;
      list.unshift({
        seq: ws.version,
        version: ws.version,
        at: ago(seconds),
        changes,
        actor,
        ...coded(cause ?? null),
      });
    }
  }

  function populate() {
    for (const user of users) if (user.username !== "ann") user.tokens = [];
    workspaces.clear();
    events.clear();
    audit.length = 0;
    const [ann, admin] = users;
    const key = "0191/1f2e/1/home.tar.zst";
    const run1 = add(ann, "atlas", {
      desired_state: "RUNNING",
      observed_status: "RUNNING",
      connections: 2,
      archive_key: key,
      archived_at: new Date(Date.now() - 40_000).toISOString(),
      description: "Routing experiments for the map team.",
    });
    past(
      run1,
      [86400 * 2, { desired_state: ["RUNNING", "STANDBY"] }, "ttl", "idle for 5 min"],
      [86400 * 2 - 2, { operation: ["NONE", "STOPPING"] }, "reconciler"],
      [86400 * 2 - 6, { observed_status: ["RUNNING", "STANDBY"] }, "observer"],
      [86400, { desired_state: ["STANDBY", "PENDING"] }, "ttl", "not used for 1 d"],
      [86400 - 2, { operation: ["NONE", "ARCHIVING"] }, "reconciler"],
      [86400 - 40, { archive_key: [null, key] }, "reconciler"],
      [86400 - 44, { observed_status: ["STANDBY", "PENDING"] }, "observer"],
      [3600, { desired_state: ["PENDING", "RUNNING"] }, "user:ann", "opened the link"],
      [3598, { operation: ["NONE", "RESTORING"] }, "reconciler"],
      [3570, { observed_status: ["PENDING", "STANDBY"] }, "observer"],
      [3569, { operation: ["RESTORING", "NONE"] }, "reconciler"],
      [3568, { operation: ["NONE", "STARTING"] }, "reconciler"],
      [3565, { observed_status: ["STANDBY", "RUNNING"] }, "observer"],
      [1200, { name: ["map", "atlas"] }, "user:ann", "edited"],
    );
    add(ann, "borealis", {
      desired_state: "RUNNING",
      observed_status: "RUNNING",
      image_ref: "code-server",
      nextAt: ahead(262),
    });
    add(ann, "cassini", { desired_state: "STANDBY", observed_status: "STANDBY", nextAt: ahead(71_000) });
    add(ann, "dune-notebooks", { archive_key: key });
    add(ann, "delta", { desired_state: "STANDBY", observed_status: "STANDBY", queued_at: ago(240) });
    add(ann, "ember", { created_at: ago(30) });
    add(ann, "fjord", {
      desired_state: "RUNNING",
      archive_key: key,
      operation: "RESTORING",
      op_id: "x",
      progress: 45,
      frozen: true,
    });
    const broken = add(ann, "granite", {
      desired_state: "RUNNING",
      observed_status: "STANDBY",
      health_status: "ERROR",
      archive_key: key,
      error_count: 4,
      error_info: {
        reason: "RetryExceeded",
        message: "image jupyterlab:9 could not be pulled",
        is_terminal: true,
        operation: "STARTING",
        error_count: 4,
        occurred_at: ago(320),
        context: {
          output: ["pulling jupyterlab:9", "manifest unknown"],
          code: "IMAGE_PULL_FAILED",
          max_retries: 3,
          last_error: "manifest unknown",
        },
      },
    });
    const pulling = {
      reason: "ActionFailed",
      message: "manifest for jupyterlab:9 not found: manifest unknown",
      is_terminal: false,
      operation: "STARTING",
      error_count: 1,
      context: { code: "IMAGE_PULL_FAILED" },
    };
    past(
      broken,
      [420, { error_info: [null, pulling] }, "reconciler", pulling.message],
      [
        320,
        { error_info: [null, { ...pulling, is_terminal: true }], operation: ["STARTING", "NONE"] },
        "reconciler",
        pulling.message,
      ],
      [318, { health_status: ["OK", "ERROR"] }, "observer"],
    );
    add(ann, "harbor", {
      desired_state: "RUNNING",
      observed_status: "STANDBY",
      operation: "STARTING",
      op_id: "y",
      frozen: true,
      error_count: 1,
      error_info: {
        reason: "Unreachable",
        message: "docker did not answer",
        is_terminal: false,
        operation: "STARTING",
        error_count: 1,
        occurred_at: ago(20),
        context: { code: "DOCKER_API_ERROR" },
      },
    });
    add(ann, "iris", { desired_state: "STANDBY", observed_status: "RUNNING", frozen: true });
    add(ann, "juniper-with-quite-a-long-name-that-someone-really-typed-in", {
      deleted_at: ago(3),
      operation: "DELETING",
      observed_status: "STANDBY",
      desired_state: "STANDBY",
      frozen: true,
    });
    add(admin, "console", { desired_state: "RUNNING", observed_status: "RUNNING", awake_until: ahead(7200) });
    for (const [i, action] of [
      "workspace.desired.running",
      "workspace.create",
      "user.create",
      "workspace.recover",
      "workspace.desired.standby",
    ].entries())
      audit.push({
        seq: 100 - i,
        at: ago(90 + i * 700),
        actor: i % 2 ? "user:admin" : "user:ann",
        action,
        subject: i === 2 ? "newcomer" : run1.id,
        detail: i === 2 ? { role: "user" } : { name: "atlas", start: true },
      });
  }

  for (const [username, role] of [
    ["ann", "user"],
    ["admin", "admin"],
    ["newcomer", "user"],
    ["leaver", "user"],
  ])
    users.push({
      id: randomUUID(),
      username,
      role,
      disabled_at: username === "leaver" ? ago(86400 * 9) : null,
      created_at: ago(86400 * 30),
      tokens: [],
    });
  const sshKeys = ["ann@laptop", "desk at work"].map((name, i) => ({
    id: randomUUID(),
    name,
    public_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII38LAmTqn7IksOkCKTigyQQ14kQ0F8LndRfe+nmkQ2S",
    fingerprint: "SHA256:WxML8JEKqn6a2mQEje+Z7z+ElgmfAcZpeRAgOrZ11Qo",
    added_at: ago(86400 * (i + 2)),
    last_used_at: i === 0 ? ago(600) : null,
  }));
  users[0].tokens = [
    {
      id: randomUUID(),
      name: "laptop",
      created_at: ago(86400 * 8),
      expires_at: ahead(86400 * 82),
      last_used_at: ago(300),
    },
    { id: randomUUID(), name: "nightly build", created_at: ago(86400), expires_at: null, last_used_at: null },
  ];
  populate();

  const holds = (ws) =>
    !ws.frozen && ws.desired_state === "RUNNING" && !ws.deleted_at && !ws.error_info?.is_terminal;
  const used = (user) => [...workspaces.values()].filter((ws) => ws.owner_id === user.id && holds(ws)).length;
  const takePlace = (user) => {
    if (used(user) >= ALLOWED)
      throw refuse(429, "limit_user", "Limit reached.", { used: used(user), allowed: ALLOWED, running: [] });
  };
  const note = (actor, action, ws, detail = {}) =>
    audit.unshift({
      seq: 1000 + audit.length,
      at: ago(0),
      actor: `user:${actor.username}`,
      action,
      subject: ws.id,
      detail,
    });
  const ownerOf = (ws) => users.find((u) => u.id === ws.owner_id);

  return {
    users,
    show,
    onChange: (listener) => listeners.push(listener),
    reset: populate,
    /** Five hundred for somebody: how a long list looks. */
    many(username) {
      const owner = users.find((user) => user.username === username);
      for (let i = 1; i <= 500; i += 1)
        add(owner, `experiment ${i}`, {
          ...(i % 5 === 0
            ? { desired_state: "STANDBY", observed_status: "STANDBY", nextAt: ahead(900 * i) }
            : { archive_key: "0191/1f2e/1/home.tar.zst" }),
          ...(i % 250 === 0 && { desired_state: "RUNNING", observed_status: "RUNNING", nextAt: ahead(200) }),
          last_access_at: ago(3600 * i),
        });
    },
    all: () => [...workspaces.values()],
    find: (id) => workspaces.get(id),
    history: (ws) => events.get(ws.id),
    audit: () => audit,
    create(user, body) {
      if (!body.name || body.name.length > 64)
        throw refuse(422, "validation_failed", "Bad name.", {
          errors: [{ field: "name", message: "1 to 64 characters" }],
        });
      if ([...workspaces.values()].some((ws) => ws.owner_id === user.id && ws.name === body.name))
        throw refuse(409, "name_taken", "Taken.");
      if (body.start) takePlace(user);
      const { start, ...columns } = body;
      const ws = add(user, body.name, {
        ...columns,
        desired_state: start ? "RUNNING" : "PENDING",
        created_at: ago(0),
        last_access_at: ago(0),
      });
      emit("state_changed", ws);
      setTimeout(() => step(ws), STEP_MS);
      return ws;
    },
    setDesired(ws, state, actor) {
      if (state === "RUNNING" && ws.desired_state !== "RUNNING") takePlace(ownerOf(ws));
      if (state === "STANDBY" && ws.desired_state === "PENDING") throw refuse(409, "archived", "Archived.");
      if (ws.desired_state !== state)
        change(ws, { desired_state: state }, `user:${actor.username}`, "asked to");
      note(actor, `workspace.desired.${state.toLowerCase()}`, ws);
      setTimeout(() => step(ws), STEP_MS);
      return ws;
    },
    edit(ws, columns, actor) {
      if (
        columns.name &&
        [...workspaces.values()].some(
          (o) => o !== ws && o.owner_id === ws.owner_id && o.name === columns.name,
        )
      )
        throw refuse(409, "name_taken", "Taken.");
      change(ws, columns, `user:${actor.username}`, "edited");
      return ws;
    },
    remove(ws, actor) {
      change(ws, { deleted_at: ago(0) }, `user:${actor.username}`, "asked to delete");
      setTimeout(() => step(ws), STEP_MS);
      return ws;
    },
    keepAwake(ws, hours, actor) {
      change(
        ws,
        { awake_until: hours ? ahead(hours * 3600) : null },
        `user:${actor.username}`,
        "asked to keep awake",
      );
      return ws;
    },
    recover(ws, actor) {
      if (ws.error_info)
        change(
          ws,
          { error_info: null, error_count: 0, health_status: "OK" },
          `user:${actor.username}`,
          "asked to recover",
        );
      note(actor, "workspace.recover", ws);
      setTimeout(() => step(ws), STEP_MS);
      return ws;
    },
    archives: (ws) =>
      ws.archive_key
        ? [1, 2, 3].map((n) => ({
            key: n === 1 ? ws.archive_key : `${ws.id}/${n}/1/home.tar.zst`,
            bytes: 412_000_000 / n,
            files: 18_211 - n * 40,
            created_at: ago(86400 * n),
          }))
        : [],
    logLines: (ws) => [
      `[I] Serving notebooks from local directory: /home/${ws.name}`,
      "[I] Jupyter Server is running at:",
      `[I] http://127.0.0.1:40123/w/${ws.id}/lab`,
      "[I] Use Control-C to stop this server.",
    ],
    savings: () => ({
      since: "2026-11-01T00:00:00Z",
      hours_existed: 1320,
      hours_ran: 192,
      hours_saved: 1128,
      money: 90.24,
      currency: "EUR",
    }),
    limits: (user) => ({
      user: { used: used(user), allowed: ALLOWED },
      global: { used: [...workspaces.values()].filter(holds).length, allowed: 100 },
      attempts: 4,
    }),
    sshKeys: (user) => ({
      items: user.username === "ann" ? sshKeys : [],
      next_cursor: null,
      gateway: {
        host: "codehub.example.org",
        port: 2222,
        host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBJ9GfX85iiqotD+ELkt1S9yLMdTE1NVAU7ZjPktZN6q",
        fingerprint: "SHA256:lTKuXpVfL4OT8vVB+h1O2gzOERv3g81TE/2UmlQZfY0",
      },
    }),
    addSshKey() {
      const message = "These are several lines. Add one key at a time.";
      throw refuse(422, "unfit_key", message, {
        errors: [{ field: "public_key", message, code: "key_private", params: {} }],
      });
    },
    createToken(user, { name, expires_in_days: days }) {
      const token = {
        id: randomUUID(),
        name,
        created_at: ago(0),
        expires_at: days ? ahead(days * 86400) : null,
        last_used_at: null,
      };
      user.tokens.push(token);
      return { ...token, token: `chb_${randomUUID().replaceAll("-", "")}` };
    },
    addUser({ username, role }) {
      if (users.some((u) => u.username === username)) throw refuse(409, "username_taken", "Taken.");
      const user = { id: randomUUID(), username, role, disabled_at: null, created_at: ago(0), tokens: [] };
      users.push(user);
      return user;
    },
    changeUser(id, { role, disabled }) {
      const user = users.find((u) => u.id === id);
      if (role) user.role = role;
      if (disabled !== undefined) user.disabled_at = disabled ? ago(0) : null;
      return user;
    },
    overview() {
      const counts = {};
      for (const ws of workspaces.values()) counts[status(ws)] = (counts[status(ws)] ?? 0) + 1;
      const leaders = ["observer", "wc", "ttl", "gc", "events"].map((name, i) => ({
        name,
        holder_id: i === 3 ? "node-b" : "node-a",
        acquired_at: ago(86400 * 2 + i),
        epoch: 7 + i,
      }));
      return { counts, leaders, archive_bytes: 48_200_000_000 };
    },
    health() {
      const tick = (n, error = null) => ({
        is_leader: true,
        holder_id: "node-a",
        acquired_at: ago(86400 * 2),
        epoch: 7,
        last_tick_at: ago(n),
        last_error: error,
        away: error ? { docker: error } : {},
      });
      const coordinators = {
        observer: tick(3),
        wc: tick(2, "docker did not answer within 5 s"),
        ttl: tick(31),
        gc: {
          is_leader: false,
          holder_id: "node-b",
          acquired_at: ago(200_000),
          epoch: 10,
          last_tick_at: null,
          last_error: null,
        },
        events: tick(1),
      };
      return { node_id: "node-a", uptime_seconds: 187_400, is_leader: true, coordinators };
    },
  };
}
