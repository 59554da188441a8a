/** Files on their way into the workspace. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { shownName } from "../../files/paths";
import { uploadsOf, type Upload } from "../../files/uploads";
import { useLanguage, useMessages } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { useStore } from "../../store";
import { Icon } from "../../ui/icons";
import { bytes } from "../../words/size";
import { insideError } from "../../words/inside-errors";

export function Uploads({ workspaceId }: { workspaceId: string }) {
  const w = useInsideMessages();
  const queue = uploadsOf(workspaceId);
  const uploads = useStore(queue.uploads);
  const client = useQueryClient();
  useEffect(
    () =>
      queue.arrived.subscribe(
        (folder) => void client.invalidateQueries({ queryKey: ["workspace", workspaceId, "files", folder] }),
      ),
    [queue, client, workspaceId],
  );
  const busy = queue.isBusy;
  useEffect(() => {
    if (!busy) return;
    // Leaving would end what is under way; the browser asks, in its own words.
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [busy]);
  if (uploads.length === 0) return null;
  return (
    <section className="panel uploads" aria-labelledby="uploads">
      <div className="panel__head">
        <h2 id="uploads">{w.files.uploads}</h2>
        {!busy && (
          <button type="button" className="button button--small" onClick={() => queue.clear()}>
            {w.files.clearUploads}
          </button>
        )}
      </div>
      <ul>
        {uploads.map((upload) => (
          <Line key={upload.id} upload={upload} cancel={() => queue.cancel(upload.id)} />
        ))}
      </ul>
    </section>
  );
}

function Line({ upload, cancel }: { upload: Upload; cancel: () => void }) {
  const m = useMessages();
  const w = useInsideMessages();
  const language = useLanguage();
  const name = shownName(upload.name);
  const pending = upload.state === "waiting" || upload.state === "sending";
  return (
    <li className="uploads__line" data-state={upload.state}>
      <span className="uploads__name">
        <bdi>{name}</bdi>
      </span>
      {upload.state === "sending" && (
        <progress aria-label={w.files.uploadOf(name)} value={upload.sent} max={Math.max(upload.size, 1)} />
      )}
      <span
        className={upload.state === "failed" ? "uploads__state warn" : "uploads__state"}
        role={upload.state === "failed" ? "alert" : undefined}
      >
        {upload.state === "failed"
          ? insideError(m, w, upload.error)
          : upload.state === "sending"
            ? bytes(language, upload.sent)
            : w.files[upload.state]}
      </span>
      {pending && (
        <button
          type="button"
          className="button button--quiet button--icon"
          aria-label={w.files.cancelUpload(name)}
          onClick={cancel}
        >
          <Icon name="cross" />
        </button>
      )}
    </li>
  );
}
