/** How a workspace is reached from one's own machine: the name ssh has for it, and the addresses that editors open. */
import type { Workspace } from "../api/types";

const HOST = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Whether the API lets anybody in, as `phase_of` on the server decides it. */
export const isOpen = (ws: Workspace) =>
  ws.status !== "error" && ws.desired_state === "RUNNING" && ws.observed_status === "RUNNING";

/** As `codehub config-ssh` has it. By its id where the name is none for a host, or is looked up among one's own first. */
export const sshHost = (ws: Workspace, userId: string) =>
  `${ws.owner_id === userId && HOST.test(ws.name) ? ws.name : ws.id}.codehub`;

export interface EditorLink {
  name: string;
  address: string;
}

/** `home` is what the workspace says of itself: it stays the path of the address, whatever it is. */
export function editorLinks(host: string, home: string): EditorLink[] {
  const path = `/${home.split("/").filter(Boolean).map(encodeURIComponent).join("/")}`;
  const remote = `vscode-remote/ssh-remote+${host}${path}`;
  const gateway = `host=${host}&port=22&user=codehub&type=ssh&deploy=true&projectPath=${encodeURIComponent(home)}`;
  return [
    { name: "VS Code", address: `vscode://${remote}` },
    { name: "Cursor", address: `cursor://${remote}` },
    { name: "JetBrains", address: `jetbrains-gateway://connect#${gateway}` },
  ];
}
