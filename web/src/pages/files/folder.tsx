/** One folder: what is in it, and what can be done with it. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type DragEvent } from "react";
import { ApiError, call } from "../../api/client";
import type { Directory, FileEntry } from "../../api/types";
import { notify } from "../../actions/notices";
import { arranged } from "../../files/listing";
import { addressOf, downloadAddress, nameOf, type Place } from "../../files/paths";
import { uploadsOf } from "../../files/uploads";
import { useLanguage, useMessages } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { navigate } from "../../router";
import { Store, useStore } from "../../store";
import { Loading } from "../../ui/states";
import { insideError } from "../../words/inside-errors";
import { Crumbs } from "./crumbs";
import { NewFolderDialog, OverwriteDialog } from "./dialogs";
import { Entries } from "./entries";

/** For all folders, until the dashboard is left. */
const showHidden = new Store(false);

export function Folder({ id, path }: { id: string; path: string }) {
  const m = useMessages();
  const w = useInsideMessages();
  const place: Place = { kind: "folder", path };
  const listing = useQuery({
    queryKey: ["workspace", id, "files", path],
    queryFn: () => call<Directory>("GET", `/workspaces/${id}/files?${new URLSearchParams({ path })}`),
    staleTime: 0,
  });
  const isFile = path !== "" && listing.error instanceof ApiError && listing.error.code === "file_conflict";
  useEffect(() => {
    // A link may lead to a file, which nobody knows before following it.
    if (isFile) navigate(addressOf(id, { kind: "file", path }), { replace: true });
  }, [isFile, id, path]);
  return (
    <section className="panel files__panel" aria-label={path ? nameOf(path) : w.files.home}>
      <Crumbs id={id} place={place} />
      {listing.isError && !isFile ? (
        // Also over what was there before: the folder may be gone.
        <div className="failed" role="alert">
          <p>{insideError(m, w, listing.error)}</p>
          <button type="button" className="button" onClick={() => void listing.refetch()}>
            {m.app.retry}
          </button>
        </div>
      ) : listing.data && !isFile ? (
        <Content
          id={id}
          path={path}
          directory={listing.data}
          refresh={() => void listing.refetch()}
          refreshing={listing.isFetching}
        />
      ) : (
        <Loading />
      )}
    </section>
  );
}

interface ContentProps {
  id: string;
  path: string;
  directory: Directory;
  refresh: () => void;
  refreshing: boolean;
}

function Content({ id, path, directory, refresh, refreshing }: ContentProps) {
  const w = useInsideMessages();
  const language = useLanguage();
  const hidden = useStore(showHidden);
  const [making, setMaking] = useState(false);
  const { clash, setClash, choose, dragging, zone } = useDrops(id, path, directory.entries);
  const picker = useRef<HTMLInputElement>(null);
  const shown = arranged(directory.entries, language, hidden);
  return (
    <div className={dragging ? "files__zone is-over" : "files__zone"} {...zone}>
      <div className="files__bar">
        <button type="button" className="button button--primary" onClick={() => picker.current?.click()}>
          {w.files.upload}
        </button>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={w.files.upload}
          onChange={(event) => {
            choose([...(event.target.files ?? [])]);
            event.target.value = ""; // the same file may be chosen again
          }}
        />
        <button type="button" className="button" onClick={() => setMaking(true)}>
          {w.files.newFolder}
        </button>
        <a className="button" href={downloadAddress(id, path, "folder")} download>
          {w.files.downloadTar}
        </a>
        <button type="button" className="button" disabled={refreshing} onClick={refresh}>
          {w.files.refresh}
        </button>
        <label className="files__hidden">
          <input
            type="checkbox"
            checked={hidden}
            onChange={(event) => showHidden.set(event.target.checked)}
          />
          {w.files.hidden}
        </label>
      </div>
      {directory.truncated && (
        <p className="form-note">
          {w.files.truncated(new Intl.NumberFormat(language).format(directory.entries.length))}
        </p>
      )}
      {shown.length > 0 ? (
        <Entries id={id} folder={path} entries={shown} />
      ) : (
        <p className="empty-line files__empty">
          {directory.entries.length > 0 ? w.files.onlyHidden(directory.entries.length) : w.files.empty}
        </p>
      )}
      <p className="files__hint">{dragging ? w.files.dropHere : w.files.uploadHint}</p>
      {making && <NewFolderDialog id={id} folder={path} onClose={() => setMaking(false)} />}
      {clash && (
        <OverwriteDialog
          names={clash.names}
          some={clash.files.length > clash.names.length}
          onClose={() => setClash(null)}
          onChoose={(replace) => {
            const names = new Set(clash.names);
            const files = replace ? clash.files : clash.files.filter((file) => !names.has(file.name));
            uploadsOf(id).add(path, files, (name) => names.has(name));
            setClash(null);
          }}
        />
      )}
    </div>
  );
}

interface Clash {
  files: File[];
  names: string[];
}

/** Files that come by dropping or choosing. What is there already is asked about; the server refuses the rest. */
function useDrops(id: string, path: string, entries: readonly FileEntry[]) {
  const w = useInsideMessages();
  const [dragging, setDragging] = useState(false);
  const [clash, setClash] = useState<Clash | null>(null);
  const choose = (files: File[]) => {
    const there = new Set(entries.map((entry) => entry.name));
    const names = files.map((file) => file.name).filter((name) => there.has(name));
    if (names.length > 0) setClash({ files, names });
    else if (files.length > 0) uploadsOf(id).add(path, files, () => false);
  };
  const holdsFiles = (event: DragEvent) => event.dataTransfer.types.includes("Files");
  const zone = {
    onDragOver: (event: DragEvent) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      setDragging(true);
    },
    onDragLeave: (event: DragEvent) => {
      if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setDragging(false);
    },
    onDrop: (event: DragEvent) => {
      setDragging(false);
      if (!holdsFiles(event)) return;
      event.preventDefault();
      const folders = new Set<string>();
      for (const item of event.dataTransfer.items) {
        const entry = item.webkitGetAsEntry?.();
        if (entry?.isDirectory) folders.add(entry.name);
      }
      if (folders.size > 0) notify(w.files.noFolders, "bad");
      choose([...event.dataTransfer.files].filter((file) => !folders.has(file.name)));
    },
  };
  return { clash, setClash, choose, dragging, zone };
}
