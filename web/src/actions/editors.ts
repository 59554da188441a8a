/** Open a workspace in an editor on one's own machine, from its card. Loaded when it is asked for. */
import { call } from "../api/client";
import type { Ports, Workspace } from "../api/types";
import { messages } from "../i18n";
import { editorLinks, sshHost } from "../words/editors";
import { notify, notifyError } from "./notices";

/** The editor opens the home, which only the workspace knows. */
export async function openEditor(workspace: Workspace, userId: string, name: string): Promise<void> {
  try {
    const { home } = await call<Ports>("GET", `/workspaces/${workspace.id}/ports`);
    const editor = editorLinks(sshHost(workspace, userId), home ?? "/").find((each) => each.name === name);
    if (editor) location.assign(editor.address);
  } catch (error) {
    notifyError(error);
  }
}

/** The clipboard is only there on HTTPS and localhost; elsewhere the command is shown to be copied by hand. */
export async function copySshCommand(workspace: Workspace, userId: string): Promise<void> {
  const command = `ssh ${sshHost(workspace, userId)}`;
  if (window.isSecureContext) await navigator.clipboard.writeText(command);
  notify(window.isSecureContext ? `${messages().app.copied} ${command}` : command);
}
