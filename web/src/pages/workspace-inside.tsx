/** Ways into a workspace besides its IDE. */
import type { Workspace } from "../api/types";
import { useInsideMessages } from "../i18n/inside";
import { Link } from "../router";
import { Icon } from "../ui/icons";
import "./workspace-inside.css";

export function Inside({ workspace }: { workspace: Workspace }) {
  const w = useInsideMessages();
  return (
    <section className="panel inside" aria-labelledby="inside">
      <h2 id="inside">{w.inside.title}</h2>
      <div className="inside__ways">
        <Link className="button" href={`/workspaces/${workspace.id}/files`}>
          <Icon name="folder" />
          {w.files.title}
        </Link>
      </div>
    </section>
  );
}
