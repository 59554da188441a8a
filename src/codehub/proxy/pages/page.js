// Script of the proxy's pages: follows a workspace's events and reloads the waiting page as soon as the
// workspace's editor answers. Never wakes a workspace: only a person's navigation does.
"use strict";

const page = document.querySelector("main");
const text = JSON.parse(page.dataset.text || "{}");
const show = (id, value) => {
  const element = document.getElementById(id);
  if (element && element.textContent !== value) element.textContent = value;
};

function follow(url, onWorkspace) {
  const source = new EventSource(url);
  const read = (event) => {
    try {
      onWorkspace(JSON.parse(event.data), source);
    } catch (error) {
      console.warn("unreadable event", error);
    }
  };
  for (const kind of ["state_changed", "progress", "activity", "error"]) {
    source.addEventListener(kind, (event) => event.data && read(event));
  }
  source.addEventListener("deleted", () => location.reload());
  return source;
}

const MEASURED = ["restoring", "archiving"];
const UNITS = ["B", "kB", "MB", "GB", "TB"];

function size(bytes) {
  let unit = 0;
  while (bytes >= 1000 && unit < UNITS.length - 1) {
    bytes /= 1000;
    unit += 1;
  }
  return `${bytes.toLocaleString(document.documentElement.lang, { maximumFractionDigits: bytes < 10 && unit ? 1 : 0 })} ${UNITS[unit]}`;
}

const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, key) => values[key]);

// Says how much is done, and how long the rest takes at the speed so far.
function makeMeter() {
  let of = "";
  let from = null;
  return (operation, done, total) => {
    if (operation !== of || !from || done < from.done) {
      of = operation;
      from = { done, at: performance.now() };
    }
    const words = [fill(total ? text.amount : text.amount_unknown, { done: size(done), total: size(total || 0) })];
    const seconds = (performance.now() - from.at) / 1000;
    if (total && seconds >= 2 && done > from.done && done < total) {
      const left = ((total - done) * seconds) / (done - from.done);
      words.push(left < 90 ? fill(text.left_seconds, { n: Math.max(1, Math.round(left)) })
        : fill(text.left_minutes, { n: Math.round(left / 60) }));
    }
    return words.join(" · ");
  };
}

// Shows the last lines of what the container writes while it starts.
function makeOutput() {
  const box = document.getElementById("output");
  const lines = box.querySelector("pre");
  let next = 0;
  return async () => {
    if (document.hidden || performance.now() < next) return;
    next = performance.now() + 1500;
    try {
      const answer = await fetch(page.dataset.logs, { cache: "no-store", redirect: "manual" });
      const said = answer.ok ? (await answer.text()).trimEnd() : "";
      if (!said) return;
      const shown = said.split("\n").slice(-40).join("\n");
      const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
      if (lines.textContent !== shown) lines.textContent = shown;
      if (atEnd) lines.scrollTop = lines.scrollHeight;
      box.hidden = false;
    } catch {
      // no network; the next round tries again
    }
  };
}

function wait() {
  const bar = document.getElementById("bar");
  const steps = [...document.querySelectorAll(".steps li")];
  const meter = makeMeter();
  const output = makeOutput();
  let opening = false;
  let left = false;
  let status = page.dataset.status;

  function step(name) {
    const at = steps.findIndex((item) => item.dataset.step === name);
    steps.forEach((item, index) => {
      item.classList.toggle("done", index < at);
      if (index === at) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
  }

  function draw(status, operationProgress, waitingFor) {
    const installing = /^installing (.+) (\d+) %$/.exec(waitingFor || "");
    const progress = installing ? Number(installing[2]) : operationProgress;
    const known = typeof progress === "number";
    if (installing) show("doing", text.installing.replace("{title}", installing[1]));
    else show("doing", waitingFor ? `${text.waiting_for_node}: ${waitingFor}` : text[status] || text.waking);
    show("percent", known ? `${progress} %` : "");
    bar.classList.toggle("unknown", !known);
    bar.firstElementChild.style.width = known ? `${progress}%` : "";
    if (known) bar.setAttribute("aria-valuenow", progress);
    else bar.removeAttribute("aria-valuenow");
    step({ provisioning: "files", restoring: "files", starting: "start", running: "open" }[status]
      || (steps[0] && steps[0].dataset.step));
    document.title = known ? `${progress} % · ${text.title}` : text.title;
  }

  async function ready() {
    try {
      const answer = await fetch(page.dataset.ready, { cache: "no-store", redirect: "manual" });
      if (answer.status === 204 && !left) {
        left = true;
        show("doing", text.ready);
        location.reload();
      }
      return answer.status;
    } catch {
      return 0; // no network; the next poll tries again
    }
  }

  function measure(workspace) {
    const known = typeof workspace.done_bytes === "number";
    if (known) show("amount", meter(workspace.operation, workspace.done_bytes, workspace.total_bytes));
    // A change of state says nothing of bytes: the last figures hold as long as the operation does.
    if (known || workspace.status) document.getElementById("amount").hidden = !known && !MEASURED.includes(workspace.status);
  }

  async function open() {
    if (opening) return;
    opening = true;
    draw("running", null);
    for (let pause = 300; !left; pause = Math.min(pause * 1.5, 3000)) {
      const status = await ready();
      if (status === 401 || status === 404) location.reload();
      if (!left) output();
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  function asleepAgain() {
    document.getElementById("again").hidden = false;
    show("doing", text.asleep);
    show("percent", "");
    bar.classList.remove("unknown");
    bar.firstElementChild.style.width = "0";
    steps.forEach((item) => item.removeAttribute("aria-current"));
  }

  draw(status, page.dataset.progress ? Number(page.dataset.progress) : null);
  if (status === "running") open();
  follow(page.dataset.events, (workspace) => {
    if (workspace.queued_at) location.reload(); // it waits for a place now: another page says where it stands
    // Progress events carry the operation and no status: keep the last status then.
    const operation = String(workspace.operation || "").toLowerCase();
    status = workspace.status || (text[operation] ? operation : status);
    if (workspace.status === "error") location.reload();
    else if (workspace.status === "running") open();
    else if (workspace.desired_state && workspace.desired_state !== "RUNNING") asleepAgain();
    else {
      document.getElementById("again").hidden = true;
      draw(status, workspace.progress, workspace.waiting_for);
      measure(workspace);
    }
  });
  setInterval(() => status === "starting" && output(), 1000);
  // Fallback in case events do not arrive: poll every 5 s.
  setInterval(() => opening || document.hidden || ready(), 5000);
}

function duration(seconds) {
  if (seconds < 90) return fill(text.seconds, { n: Math.max(1, Math.round(seconds)) });
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? fill(text.minutes, { n: minutes }) : fill(text.hours, { n: Math.round(minutes / 60) });
}

async function post(url, body) {
  const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }) };
  const answer = await fetch(url, { method: "POST", headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(String(answer.status));
}

// A button that asks for a change and loads the page anew: what is so now is the server's to say.
function act(button, busy, ask) {
  button.addEventListener("click", async () => {
    const words = button.textContent;
    button.disabled = true;
    if (busy) button.textContent = busy;
    show("message", "");
    try {
      await ask();
      location.reload();
    } catch {
      button.disabled = false;
      button.textContent = words;
      show("message", text.swap_failed);
    }
  });
}

async function showIdle(button) {
  const answer = await fetch(`/api/v1/workspaces/${button.dataset.instead}`, { cache: "no-store" });
  if (!answer.ok) return;
  const workspace = await answer.json();
  const { awake, connections, last_seen_at: seen } = workspace.activity;
  const now = Date.parse(answer.headers.get("Date") || "") || Date.now();
  const since = awake && awake.since ? awake.since : seen || workspace.last_access_at;
  const idle = (now - Date.parse(since)) / 1000;
  const used = connections === null || (connections > 0 && idle < 60) || (awake && awake.work);
  button.parentElement.querySelector(".idle").textContent = used ? text.in_use : fill(text.idle_for, { time: duration(idle) });
}

function limit() {
  const start = `${page.dataset.api}/start`;
  for (const button of document.querySelectorAll("button[data-instead]")) {
    // In line, if the place is not free yet: the other one may have to finish something first.
    act(button, text.swapping, () => post(start, { instead_of: button.dataset.instead, queue: true }));
    showIdle(button).catch(() => {});
  }
  const wait = document.getElementById("wait");
  if (wait instanceof HTMLButtonElement) act(wait, "", () => post(start, { queue: true }));
}

function queued() {
  const draw = ({ place, limit, estimated_seconds: seconds }) => {
    const own = limit === "limit_user" && place === 1;
    show("doing", own ? text.queue_own : place === 1 ? text.queue_next : fill(text.queue_place, { n: place }));
    show("percent", seconds === null ? "" : fill(text.queue_estimate, { time: duration(seconds) }));
  };
  const leave = document.getElementById("leave");
  if (leave) {
    leave.addEventListener("click", async () => {
      leave.disabled = true;
      try {
        await post(leave.dataset.url);
        location.assign("/");
      } catch {
        leave.disabled = false;
        show("message", text.swap_failed);
      }
    });
  }
  follow(page.dataset.events, (workspace) => {
    if (workspace.activity && workspace.activity.queue) draw(workspace.activity.queue);
    if (workspace.status === undefined) return;
    // Its turn, or somebody took it out of the line: the page that fits is a navigation away.
    if (workspace.desired_state === "RUNNING") location.reload();
    else if (workspace.queued_at === null) location.assign("/");
  });
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(page.dataset.ready, { cache: "no-store", redirect: "manual" }).catch(() => null);
    if (answer && answer.status === 204) location.reload();
  }, 5000);
}

if (page.dataset.page === "waiting") wait();
if (page.dataset.page === "queued") queued();
if (page.dataset.page === "limit") limit();
