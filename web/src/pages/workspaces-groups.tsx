/** The list in groups, by tag or by state, and the tags to narrow it down by. */
import type { Status, Workspace } from "../api/types";
import { useMessages, type Messages } from "../i18n";
import { Remembered } from "../remembered";
import "../ui/tags.css";

export type Grouping = "none" | "tag" | "state";

export const grouping = new Remembered<Grouping>("codehub.group", ["none", "tag", "state"]);

export interface Group {
  key: string;
  title: string | null;
  items: Workspace[];
}

const STATES: readonly (readonly [keyof Messages["list"]["filters"], readonly Status[]])[] = [
  ["trouble", ["error"]],
  ["running", ["running", "starting", "provisioning", "restoring"]],
  ["asleep", ["standby", "stopping"]],
  ["archived", ["archived", "archiving", "new", "deleting", "deleted"]],
];

/** Every tag once, in the order of the alphabet. */
export function tagsOf(workspaces: readonly Workspace[]): string[] {
  return [...new Set(workspaces.flatMap((ws) => ws.tags))].sort((a, b) => a.localeCompare(b));
}

/** The workspaces of `shown`, in its order within each group. One with several tags is in each of their groups. */
export function grouped(m: Messages, shown: Workspace[], by: Grouping): Group[] {
  if (by === "none") return [{ key: "all", title: null, items: shown }];
  if (by === "state")
    return filled(
      STATES.map(([name, statuses]) => ({
        key: name,
        title: m.list.filters[name],
        items: shown.filter((ws) => statuses.includes(ws.status)),
      })),
    );
  return filled([
    ...tagsOf(shown).map((tag) => ({
      key: `tag ${tag}`,
      title: tag,
      items: shown.filter((ws) => ws.tags.includes(tag)),
    })),
    { key: "untagged", title: m.list.untagged, items: shown.filter((ws) => ws.tags.length === 0) },
  ]);
}

/** There is always one, also without a workspace: what is awaited is shown in the last one. */
const filled = (groups: Group[]): Group[] => {
  const left = groups.filter((group) => group.items.length > 0);
  return left.length > 0 ? left : [{ key: "all", title: null, items: [] }];
};

interface TagFilterProps {
  tags: string[];
  chosen: string | null;
  onChoose: (tag: string | null) => void;
}

export function TagFilter({ tags, chosen, onChoose }: TagFilterProps) {
  const m = useMessages();
  if (tags.length === 0) return null;
  return (
    <div className="tags tags--filter" role="group" aria-label={m.list.tags}>
      {tags.map((tag) => (
        <button
          key={tag}
          type="button"
          className="tags__choice"
          aria-pressed={tag === chosen}
          onClick={() => onChoose(tag === chosen ? null : tag)}
        >
          {tag}
        </button>
      ))}
    </div>
  );
}
