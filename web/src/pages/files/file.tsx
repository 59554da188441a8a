/** One file: as text, as a picture, or only to be downloaded. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { PICTURE_BYTES } from "../../files/listing";
import { contentPath, downloadAddress, nameOf, shownName } from "../../files/paths";
import { previewOf, type Preview } from "../../files/preview";
import { useLanguage, useMessages } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { Loading } from "../../ui/states";
import { bytes } from "../../words/size";
import { insideError } from "../../words/inside-errors";
import { Crumbs } from "./crumbs";
import { DeleteDialog, RenameDialog } from "./dialogs";

export function FileView({ id, path }: { id: string; path: string }) {
  const m = useMessages();
  const w = useInsideMessages();
  const [dialog, setDialog] = useState<"rename" | "delete" | null>(null);
  const preview = useQuery({
    queryKey: ["workspace", id, "file", path],
    queryFn: () => previewOf(contentPath(id, path)),
    staleTime: 0,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const name = nameOf(path);
  return (
    <section className="panel files__panel" aria-label={shownName(name)}>
      <Crumbs id={id} place={{ kind: "file", path }} />
      <div className="files__bar">
        <a className="button button--primary" href={downloadAddress(id, path, "file")} download={name}>
          {w.files.download}
        </a>
        <button type="button" className="button" onClick={() => setDialog("rename")}>
          {w.files.rename}
        </button>
        <button type="button" className="button" onClick={() => setDialog("delete")}>
          {w.files.delete}
        </button>
      </div>
      {preview.data ? (
        <Shown preview={preview.data} name={name} />
      ) : preview.isError ? (
        <div className="failed" role="alert">
          <p>{insideError(m, w, preview.error)}</p>
          <button type="button" className="button" onClick={() => void preview.refetch()}>
            {m.app.retry}
          </button>
        </div>
      ) : (
        <Loading />
      )}
      {dialog === "rename" && <RenameDialog id={id} path={path} onClose={() => setDialog(null)} />}
      {dialog === "delete" && (
        <DeleteDialog id={id} path={path} isFolder={false} onClose={() => setDialog(null)} />
      )}
    </section>
  );
}

function Shown({ preview, name }: { preview: Preview; name: string }) {
  const w = useInsideMessages();
  const language = useLanguage();
  switch (preview.kind) {
    case "text":
      return (
        <>
          {preview.size > preview.shown && (
            <p className="form-note">
              {w.files.part(bytes(language, preview.shown), bytes(language, preview.size))}
            </p>
          )}
          <pre
            className="files__text mono"
            role="region"
            aria-label={w.files.contentOf(shownName(name))}
            // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
            tabIndex={0}
          >
            {preview.text}
          </pre>
        </>
      );
    case "picture":
      return <Picture address={preview.address} name={name} />;
    case "empty":
      return <p className="empty-line">{w.files.emptyFile}</p>;
    case "large":
      return <p className="empty-line">{w.files.pictureTooLarge(bytes(language, PICTURE_BYTES))}</p>;
    case "none":
      return <p className="empty-line">{w.files.noPreview}</p>;
  }
}

function Picture({ address, name }: { address: string; name: string }) {
  const w = useInsideMessages();
  const [broken, setBroken] = useState(false);
  if (broken) return <p className="empty-line">{w.files.pictureBroken}</p>;
  return (
    <img className="files__picture" src={address} alt={shownName(name)} onError={() => setBroken(true)} />
  );
}
