/** A shell in a workspace. It stays there when the page is left, and is found again by the same address. */
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { call } from "../api/client";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useAsking } from "../live/hooks";
import { Link as PageLink, useLocation } from "../router";
import { pageColours } from "../terminal/colours";
import { Link, type Phase } from "../terminal/link";
import { writeStylesByScript } from "../terminal/styles-by-script";
import { useTheme } from "../theme";
import { Icon } from "../ui/icons";
import { useTitle } from "../ui/title";
import { WorkspaceById } from "../ui/workspace-by-id";
import "./terminal.css";

const KEYS: [label: string, sent: string][] = [
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["^C", "\x03"],
  ["^D", "\x04"],
  ["←", "\x1b[D"],
  ["↑", "\x1b[A"],
  ["↓", "\x1b[B"],
  ["→", "\x1b[C"],
];

export default function TerminalPage({ id }: { id: string }) {
  return <WorkspaceById id={id}>{(workspace) => <View workspace={workspace} />}</WorkspaceById>;
}

function View({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const name = new URLSearchParams(useLocation().search).get("id") ?? "main";
  useTitle(`${m.terminal.title}: ${workspace.name}`);
  const another = `/workspaces/${workspace.id}/terminal?id=${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  return (
    <article className="terminal" data-workspace={workspace.id}>
      <div className="terminal__head">
        <PageLink href={`/workspaces/${workspace.id}`} className="back">
          <Icon name="left" />
          {workspace.name}
        </PageLink>
        <h1>{m.terminal.title}</h1>
        <a className="button button--small" href={another} target="_blank" rel="noopener">
          <Icon name="plus" />
          {m.terminal.another}
        </a>
      </div>
      {workspace.observed_status === "RUNNING" ? (
        <Shell id={workspace.id} name={name} key={name} />
      ) : (
        <Away workspace={workspace} />
      )}
    </article>
  );
}

/** It does not run. Nothing wakes it but the person. */
function Away({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const asking = useAsking(workspace.id);
  const starts = workspace.desired_state === "RUNNING" && workspace.status !== "error";
  return (
    <div className="panel terminal__away" role="status">
      <p>
        {workspace.status === "error"
          ? m.terminal.ended.broken
          : starts
            ? m.terminal.starting
            : m.terminal.asleep}
      </p>
      {!starts && workspace.status !== "error" && (
        <button
          type="button"
          className="button button--primary"
          disabled={asking !== null}
          onClick={() => void actions.start(workspace)}
        >
          {m.terminal.wake}
        </button>
      )}
    </div>
  );
}

function Shell({ id, name }: { id: string; name: string }) {
  const m = useMessages();
  const theme = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const opened = useRef<{ terminal: Terminal; link: Link } | null>(null);
  const [phase, setPhase] = useState<Phase>({ is: "connecting" });
  const [isNew, setIsNew] = useState(false);
  const label = m.terminal.label;

  useEffect(() => {
    const made = openShell(place.current!, { id, name, label, onPhase: setPhase, onNewShell: setIsNew });
    opened.current = made;
    return made.close;
  }, [id, name, label]);
  useEffect(() => {
    const apply = () => {
      if (opened.current) opened.current.terminal.options.theme = pageColours();
    };
    apply();
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", apply);
    return () => system.removeEventListener("change", apply);
  }, [theme]);

  const press = (sent: string) => {
    opened.current?.link.input(sent);
    opened.current?.terminal.focus();
  };
  const words =
    phase.is === "ended"
      ? phase.how === "exited"
        ? m.terminal.exited(phase.exitCode ?? 0)
        : m.terminal.ended[phase.how]
      : m.terminal[phase.is];
  return (
    <>
      <div className="terminal__state" role="status" data-phase={phase.is}>
        <span>{phase.is === "open" && isNew ? m.terminal.newShell : words}</span>
        {phase.is === "ended" && phase.how !== "signedOut" && (
          <button type="button" className="button button--small" onClick={() => opened.current?.link.again()}>
            {phase.how === "exited" ? m.terminal.startNew : m.terminal.connect}
          </button>
        )}
      </div>
      <div className="terminal__place" ref={place} />
      <div className="terminal__keys" role="group" aria-label={m.terminal.keys}>
        {KEYS.map(([key, sent]) => (
          <button
            type="button"
            className="button button--small"
            key={key}
            onPointerDown={(event) => event.preventDefault()} // the keyboard of a phone stays
            onClick={() => press(sent)}
          >
            {key}
          </button>
        ))}
      </div>
    </>
  );
}

interface ShellOptions {
  id: string;
  name: string;
  label: string;
  onPhase: (phase: Phase) => void;
  onNewShell: (isNew: boolean) => void;
}

function openShell(place: HTMLElement, options: ShellOptions) {
  const stopWritingStyles = writeStylesByScript();
  const style = getComputedStyle(document.documentElement);
  const terminal = new Terminal({
    fontFamily: style.getPropertyValue("--mono"),
    fontSize: 14,
    scrollback: 5000,
    minimumContrastRatio: 4.5,
    theme: pageColours(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  terminal.textarea?.setAttribute("aria-label", options.label);
  fit.fit();
  const link = new Link({
    address: (query) =>
      `${window.location.origin.replace("http", "ws")}/api/v1/workspaces/${options.id}/terminal?${query}`,
    terminal: options.name,
    screen: {
      get columns() {
        return terminal.cols;
      },
      get rows() {
        return terminal.rows;
      },
      clear: () => {
        options.onNewShell(false);
        terminal.reset();
      },
      show: (bytes, done) => terminal.write(bytes, done),
      onNewShell: () => options.onNewShell(true),
    },
    onPhase: options.onPhase,
    mayRetry: isSignedIn,
  });
  terminal.onData((text) => link.input(text));
  terminal.onResize(({ cols, rows }) => link.resize(cols, rows));
  const watcher = new ResizeObserver(() => fit.fit());
  watcher.observe(place);
  const hurry = () => link.hurry();
  window.addEventListener("online", hurry);
  document.addEventListener("visibilitychange", hurry);
  link.open();
  terminal.focus();
  const close = () => {
    watcher.disconnect();
    window.removeEventListener("online", hurry);
    document.removeEventListener("visibilitychange", hurry);
    link.close();
    terminal.dispose();
    stopWritingStyles();
  };
  return { terminal, link, close };
}

/** A browser does not tell why a WebSocket was refused. Asking for the session does (and a 401 signs out). */
async function isSignedIn(): Promise<boolean> {
  try {
    await call("GET", "/auth/session");
    return true;
  } catch (error) {
    return !(error instanceof Error && "status" in error && error.status === 401);
  }
}
