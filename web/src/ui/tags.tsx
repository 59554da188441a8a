/** A person's own order among workspaces, shown: tags, and the mark of what is pinned. */
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { Icon } from "./icons";
import "./tags.css";

export function TagList({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  if (workspace.tags.length === 0) return null;
  return (
    <ul className="tags" aria-label={m.list.tags}>
      {workspace.tags.map((tag) => (
        <li key={tag} className="tags__item">
          {tag}
        </li>
      ))}
    </ul>
  );
}

export function PinMark({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  if (!workspace.pinned) return null;
  return (
    <span className="pin" title={m.list.pinned}>
      <Icon name="pin" />
      <span className="sr-only">{m.list.pinned}</span>
    </span>
  );
}
