// Script of a workspace's tab, added by the proxy to the IDE's document. Served inside a function, behind the
// constants TEXTS and STYLE (pages/tab_script.py). Asks now and then how the workspace is, and says in the tab what
// the IDE cannot know: that it sleeps, or soon will. Asking is no activity and wakes nothing; waking is left to
// the person, whose click loads the page anew. Everything it shows is in a closed shadow root.
"use strict";

const VISIBLE_MS = 5000;
const HIDDEN_MS = 30000;
const NOTICE_SECONDS = 300;
const PORTS_MS = 20000;
const HIGHEST_PORT = 32767; // above are those that programs get by chance, as the kernels of notebooks
const ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

const onOwnHost = new RegExp(`^${ID}\\.`).test(location.hostname);
const inPath = new RegExp(`^/w/(${ID})/`).exec(location.pathname);
const stateUrl = onOwnHost ? "/_codehub/state" : inPath && `/api/v1/workspaces/${inPath[1]}`;
const chosen = /(?:^|;) ?codehub_lang=(en|ko)(?:;|$)/.exec(document.cookie);
const preferred = chosen ? [chosen[1]] : navigator.languages.map((each) => each.split("-")[0]);
const language = preferred.find((each) => each in TEXTS) || "en";
const text = TEXTS[language];
const locale = navigator.languages.find((each) => each.split("-")[0] === language) || language;

// The dashboard's choice of light or dark holds for IDEs that follow the system. On an origin of its own a workspace
// cannot read it, and follows the system itself.
try {
  const theme = onOwnHost ? null : localStorage.getItem("codehub.theme");
  const ask = window.matchMedia.bind(window);
  if (theme === "light" || theme === "dark")
    window.matchMedia = (query) => {
      const asked = /^\s*\(prefers-color-scheme:\s*(light|dark)\)\s*$/.exec(query);
      return ask(asked ? (asked[1] === theme ? "all" : "not all") : query);
    };
} catch {
  // no storage: the system's
}

let timer = 0;
let sleepsAt = 0; // by the server's clock, if nobody comes; 0: not foreseen
let away = null; // since when and why it does not run: {at, idle}
let shown = ""; // what the layer shows; equal contents are not drawn again
let looking = false; // the person put the layer aside to look at the page
let dismissed = 0; // the time of sleep whose notice was closed
let name = "";
let portsAt = 0; // when the ports are asked for next; asked only while somebody looks
let knownPorts = null; // null: what listened before the page was opened is no news

// What is shown -----------------------------------------------------------------------------------

function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

function button(label, act, main) {
  const element = make("button", main ? "button main" : "button", label);
  element.type = "button";
  // Only what a person does counts, not what a script of the page simulates.
  element.addEventListener("click", (event) => event.isTrusted && act());
  return element;
}

const host = make("codehub-tab");
const root = host.attachShadow({ mode: "closed" });
const sheet = new CSSStyleSheet(); // not subject to style-src
sheet.replaceSync(STYLE);
root.adoptedStyleSheets = [sheet];
const layer = make("dialog", "layer");
layer.lang = language;
layer.setAttribute("aria-labelledby", "title");
const notice = make("div", "notice");
notice.lang = language;
notice.setAttribute("role", "status");
notice.hidden = true;
const offer = make("div", "notice");
offer.lang = language;
offer.setAttribute("role", "status");
offer.hidden = true;
root.append(layer, notice, offer);
// The IDE's shortcuts must not see what is typed here.
for (const kind of ["keydown", "keypress", "keyup"]) host.addEventListener(kind, (event) => event.stopPropagation());
layer.addEventListener("close", () => {
  looking = shown !== "";
  if (looking) refreshNotice();
});

function attach() {
  if (!host.isConnected) document.documentElement.append(host);
}

function wake() {
  location.reload(); // a navigation of the whole tab: nothing less wakes a workspace
}

function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, key) => values[key]);
}

const time = (at) => new Date(at).toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });

function duration(seconds) {
  if (seconds < 90) return fill(text.seconds, { n: seconds });
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? fill(text.minutes, { n: minutes }) : fill(text.hours, { n: Math.round(minutes / 60) });
}

function bar(percent) {
  const known = typeof percent === "number";
  const element = make("div", known ? "bar" : "bar unknown", make("span"));
  element.setAttribute("role", "progressbar");
  element.setAttribute("aria-labelledby", "title");
  if (known) {
    element.setAttribute("aria-valuenow", percent);
    element.firstElementChild.style.width = `${percent}%`;
  }
  return element;
}

// title, words: strings; actions: [label, function], the first is the main one.
function show(view) {
  const key = JSON.stringify([view.title, view.words, view.percent]);
  if (key === shown) return;
  const again = shown !== "";
  shown = key;
  const title = make("h1", "", view.title);
  title.id = "title";
  const card = make("div", "card", make("p", "name", name), title);
  if (view.words) card.append(make("p", "", view.words));
  if ("percent" in view) card.append(bar(view.percent));
  const actions = view.actions.map(([label, act], index) => button(label, act, index === 0));
  card.append(make("div", "actions", ...actions));
  layer.replaceChildren(make("div", "box", card));
  attach();
  if (!again) looking = false;
  if (!looking && !layer.open) layer.showModal();
  if (layer.open) actions[0].focus();
  refreshNotice(view);
}

function hide() {
  shown = "";
  looking = false;
  away = null;
  if (layer.open) layer.close();
}

const look = () => [text.look, () => layer.close()];

// What is so --------------------------------------------------------------------------------------

function asleep(workspace, now) {
  if (away === null) {
    const due = sleepsAt !== 0 && sleepsAt <= now + 3000;
    const began = Date.parse(workspace.op_started_at || "");
    const ended = workspace.op_acted_at ? Date.parse(workspace.op_acted_at) : began;
    away = { at: ended || began || now, idle: due ? workspace.standby_ttl_seconds : 0 };
  }
  const words = away.idle ? `${fill(text.idle, { time: duration(away.idle) })} ${text.safe}` : text.safe;
  show({
    title: fill(text.asleep, { time: time(away.at) }),
    words,
    actions: [[text.wake, wake], look()],
  });
}

function draw(workspace, now) {
  name = workspace.name;
  setTitle();
  if (workspace.status === "error") {
    show({ title: text.error, words: text.error_words, actions: [[text.reload, wake], look()] });
  } else if (workspace.desired_state !== "RUNNING") {
    asleep(workspace, now);
  } else if (workspace.observed_status !== "RUNNING") {
    const percent = workspace.progress;
    const words = typeof percent === "number" ? `${percent} %` : "";
    show({ title: text.waking, words, percent, actions: [[text.open, wake], look()] });
  } else if (shown) {
    // Woken elsewhere. Loading anew is the person's choice: what is not saved is in this page alone.
    show({ title: text.again, words: text.again_words, actions: [[text.reload, wake], [text.stay, hide]] });
  }
  const next = workspace.activity && workspace.activity.next;
  if (workspace.observed_status === "RUNNING") {
    sleepsAt = next && next.to === "STANDBY" ? Date.parse(next.at) : 0;
  }
  const left = (sleepsAt - now) / 1000;
  const early = Math.min(NOTICE_SECONDS, workspace.standby_ttl_seconds / 2);
  if (!shown) drawNotice(sleepsAt && left > 0 && left <= early && sleepsAt !== dismissed, now);
}

function drawNotice(due, now) {
  notice.hidden = !due;
  if (!due) return;
  const minutes = Math.max(1, Math.ceil((sleepsAt - now) / 60000));
  const words = fill(text.soon, { n: minutes });
  if (notice.textContent.startsWith(words)) return;
  const close = () => {
    dismissed = sleepsAt;
    notice.hidden = true;
  };
  notice.replaceChildren(
    make("p", "", words),
    make("div", "actions", button(text.keep, keepAwake, true), button(text.close, close)),
  );
  attach();
}

// A program of the person's listens: lead to it, as they would have to make its address by hand.
async function offerPorts() {
  if (document.hidden || shown || Date.now() < portsAt) return;
  portsAt = Date.now() + PORTS_MS;
  const answer = await fetch(onOwnHost ? "/_codehub/ports" : `${stateUrl}/ports`, { cache: "no-store" });
  if (!answer.ok) return;
  const listed = (await answer.json()).ports.filter((each) => each.url && !each.is_ide && each.port <= HIGHEST_PORT);
  const fresh = knownPorts && listed.find((each) => !knownPorts.has(each.port));
  knownPorts = new Set(listed.map((each) => each.port));
  if (!fresh || !notice.hidden) return;
  const close = () => (offer.hidden = true);
  const open = () => {
    close();
    window.open(fresh.url, "_blank", "noopener");
  };
  offer.replaceChildren(
    make("p", "", fill(text.port, { port: fresh.port, process: fresh.process ? ` (${fresh.process})` : "" })),
    make("div", "actions", button(text.port_open, open, true), button(text.close, close)),
  );
  offer.hidden = false;
  attach();
}

// While the layer is put aside, the notice leads back.
function refreshNotice(view) {
  notice.hidden = !looking;
  if (!looking) return;
  const words = (view && view.title) || layer.querySelector("h1").textContent;
  const main = layer.querySelector(".button.main").textContent;
  notice.replaceChildren(
    make("p", "", words),
    make("div", "actions", button(main, wake, true)),
  );
}

// One hour, whatever happens to this tab.
async function keepAwake() {
  notice.hidden = true;
  try {
    await fetch(onOwnHost ? "/_codehub/keep-awake" : `${stateUrl}/keep-awake`, { method: "POST" });
  } catch {
    // the next look tells
  }
  plan(200);
}

// The tab's title ---------------------------------------------------------------------------------

function setTitle() {
  const prefix = `${name} · `;
  if (name && !document.title.startsWith(prefix)) document.title = document.title ? prefix + document.title : name;
}

let titled = null;
const titleWatch = new MutationObserver(() => {
  watchTitle();
  setTitle();
});

function watchTitle() {
  const element = document.querySelector("head > title");
  if (element === titled) return;
  titled = element;
  titleWatch.disconnect();
  titleWatch.observe(document.head, { childList: true });
  if (element) titleWatch.observe(element, { childList: true, characterData: true, subtree: true });
}

// Asking ------------------------------------------------------------------------------------------

function plan(delay) {
  clearTimeout(timer);
  timer = setTimeout(ask, delay);
}

async function ask() {
  clearTimeout(timer);
  try {
    const answer = await fetch(stateUrl, { cache: "no-store", headers: { Accept: "application/json" } });
    if (answer.status === 401 || answer.status === 404) return; // signed out, or deleted: the page will say so
    if (answer.ok) {
      const date = Date.parse(answer.headers.get("Date") || "");
      const workspace = await answer.json();
      draw(workspace, date || Date.now());
      if (shown) offer.hidden = true;
      else if (workspace.observed_status === "RUNNING") await offerPorts();
    }
  } catch {
    // no network, or CodeHub restarts: the IDE's own business until it is known better
  }
  plan(document.hidden ? HIDDEN_MS : VISIBLE_MS);
}

if (stateUrl && window === window.top) {
  document.addEventListener("visibilitychange", () => document.hidden || plan(200));
  window.addEventListener("online", () => plan(200));
  const begin = () => {
    watchTitle();
    ask();
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
}
