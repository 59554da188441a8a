/** The entries of a folder, as a table; on a phone as lines, with the roles spelled out as in `ui/table.tsx`. */
import { useState } from "react";
import type { FileEntry } from "../../api/types";
import { addressOf, downloadAddress, join, shownName } from "../../files/paths";
import { useLanguage } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { Link } from "../../router";
import { Icon } from "../../ui/icons";
import { Menu, type MenuItem } from "../../ui/menu";
import { Ago } from "../../ui/time";
import { bytes } from "../../words/size";
import { DeleteDialog, RenameDialog } from "./dialogs";

/** Each row has a menu: thousands at once would take seconds to draw. */
const AT_ONCE = 500;

export function Entries({ id, folder, entries }: { id: string; folder: string; entries: FileEntry[] }) {
  const w = useInsideMessages();
  const [most, setMost] = useState(AT_ONCE);
  const [dialog, setDialog] = useState<{ kind: "rename" | "delete"; entry: FileEntry } | null>(null);
  const close = () => setDialog(null);
  const left = entries.length - most;
  return (
    <>
      <table className="entries" role="table" aria-label={w.files.title}>
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">
              {w.files.columns.name}
            </th>
            <th role="columnheader" scope="col" className="entries__size">
              {w.files.columns.size}
            </th>
            <th role="columnheader" scope="col" className="entries__time">
              {w.files.columns.modified}
            </th>
            <th role="columnheader" scope="col">
              <span className="sr-only">{w.files.columns.actions}</span>
            </th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {entries.slice(0, most).map((entry) => (
            <Row
              key={entry.name}
              id={id}
              folder={folder}
              entry={entry}
              onRename={() => setDialog({ kind: "rename", entry })}
              onDelete={() => setDialog({ kind: "delete", entry })}
            />
          ))}
        </tbody>
      </table>
      {left > 0 && (
        <button type="button" className="button" onClick={() => setMost(most + AT_ONCE)}>
          {w.files.more(Math.min(left, AT_ONCE))}
        </button>
      )}
      {dialog?.kind === "rename" && (
        <RenameDialog id={id} path={join(folder, dialog.entry.name)} onClose={close} />
      )}
      {dialog?.kind === "delete" && (
        <DeleteDialog
          id={id}
          path={join(folder, dialog.entry.name)}
          isFolder={dialog.entry.type === "directory"}
          onClose={close}
        />
      )}
    </>
  );
}

interface RowProps {
  id: string;
  folder: string;
  entry: FileEntry;
  onRename: () => void;
  onDelete: () => void;
}

function Row({ id, folder, entry, onRename, onDelete }: RowProps) {
  const w = useInsideMessages();
  const language = useLanguage();
  const path = join(folder, entry.name);
  const name = shownName(entry.name);
  const isFolder = entry.type === "directory";
  const items: (MenuItem | "line")[] = [
    { label: w.files.rename, onSelect: onRename },
    "line",
    { label: w.files.delete, onSelect: onDelete, tone: "danger" },
  ];
  if (isFolder || entry.type === "file")
    items.unshift({
      label: isFolder ? w.files.downloadTar : w.files.download,
      onSelect: () => download(downloadAddress(id, path, isFolder ? "folder" : "file"), entry.name, isFolder),
    });
  // Where a link leads is found out by following it: as a folder first.
  const kind = entry.type === "file" ? "file" : "folder";
  return (
    <tr role="row">
      <td role="cell" className="entries__name">
        <Icon name={isFolder ? "folder" : "file"} />
        {entry.type === "other" ? (
          <bdi title={w.files.special}>{name}</bdi>
        ) : (
          <Link href={addressOf(id, { kind, path })}>
            <bdi>{name}</bdi>
          </Link>
        )}
        {isFolder && <span className="sr-only">{w.files.folder}</span>}
        {entry.target && <span className="entries__target">{w.files.link(shownName(entry.target))}</span>}
      </td>
      <td role="cell" className="entries__size">
        {entry.type === "file" && bytes(language, entry.size)}
      </td>
      <td role="cell" className="entries__time">
        <Ago at={entry.modified_at} />
      </td>
      <td role="cell" className="entries__menu">
        <Menu label={w.files.actionsFor(name)} button={<Icon name="more" />} items={items} />
      </td>
    </tr>
  );
}

/** By the browser itself, which shows progress and writes to the disk as it comes. */
function download(address: string, name: string, isFolder: boolean): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = isFolder ? `${name}.tar` : name;
  link.click();
}
