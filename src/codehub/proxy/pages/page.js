// Script of the proxy's pages: follows a workspace's events and reloads the waiting page as soon as the
// workspace accepts connections. Never wakes a workspace: only a person's navigation does.
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

function wait() {
  const bar = document.getElementById("bar");
  const steps = [...document.querySelectorAll(".steps li")];
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

  function draw(status, progress) {
    const known = typeof progress === "number";
    show("doing", text[status] || text.waking);
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
        location.reload();
      }
      return answer.status;
    } catch {
      return 0; // no network; the next poll tries again
    }
  }

  async function open() {
    if (opening) return;
    opening = true;
    draw("running", null);
    for (let pause = 300; !left; pause = Math.min(pause * 1.5, 3000)) {
      const status = await ready();
      if (status === 401 || status === 404) location.reload();
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
      draw(status, workspace.progress);
    }
  });
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
