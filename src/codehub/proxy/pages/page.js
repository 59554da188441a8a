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
  for (const kind of ["state_changed", "progress", "error"]) {
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

  function draw(status, progress, waitingFor) {
    const known = typeof progress === "number";
    show("doing", waitingFor ? `${text.waiting_for_node}: ${waitingFor}` : text[status] || text.waking);
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

function limit() {
  for (const button of document.querySelectorAll("button[data-stop]")) {
    button.addEventListener("click", async () => {
      button.disabled = true;
      button.textContent = text.stopping;
      show("message", "");
      const url = `/api/v1/workspaces/${button.dataset.stop}`;
      try {
        const answer = await fetch(`${url}/stop`, { method: "POST", headers: { Accept: "application/json" } });
        if (!answer.ok) throw new Error(String(answer.status));
        follow(`${url}/events`, (workspace) => {
          if (workspace.status && !["running", "stopping"].includes(workspace.status)) location.reload();
        });
        setTimeout(() => location.reload(), 20000);
      } catch {
        button.disabled = false;
        button.textContent = text.stop;
        show("message", text.failed);
      }
    });
  }
}

if (page.dataset.page === "waiting") wait();
if (page.dataset.page === "limit") limit();
