/** The files of one archive: nothing is woken or restored to look. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, call } from "../../api/client";
import { archivesQuery } from "../../api/queries";
import type { Directory, FileEntry, Workspace } from "../../api/types";
import { notify } from "../../actions/notices";
import { arranged } from "../../files/listing";
import { join, shownName, tidy, crumbs as stepsOf, nameOf } from "../../files/paths";
import { useLanguage, useMessages } from "../../i18n";
import { useInsideMessages } from "../../i18n/inside";
import { Link, navigate, useLocation } from "../../router";
import { Dialog } from "../../ui/dialog";
import { SelectField } from "../../ui/fields";
import { Icon } from "../../ui/icons";
import { Menu, type MenuItem } from "../../ui/menu";
import { Loading } from "../../ui/states";
import { Ago } from "../../ui/time";
import { useTitle } from "../../ui/title";
import { WorkspaceById } from "../../ui/workspace-by-id";
import { isOpen } from "../../words/editors";
import { insideError } from "../../words/inside-errors";
import { bytes } from "../../words/size";
import { dateTime } from "../../words/time";
import "../workspace.css";
import "./files.css";

const AT_ONCE = 500;

/** Which archive: the parts of its key after the workspace. */
interface Archive {
  id: string;
  op: string;
  attempt: string;
}

export default function ArchivedFilesPage(archive: Archive) {
  return (
    <WorkspaceById id={archive.id}>
      {(workspace) => <View workspace={workspace} archive={archive} />}
    </WorkspaceById>
  );
}

const pageOf = ({ id, op, attempt }: Archive, path: string) => {
  const page = `/workspaces/${id}/archives/${op}/${attempt}`;
  return path ? `${page}?${new URLSearchParams({ path })}` : page;
};

const apiOf = ({ id, op, attempt }: Archive, what: string, path: string) =>
  `/workspaces/${id}/archives/${op}/${attempt}/files${what}?${new URLSearchParams({ path })}`;

function View({ workspace, archive }: { workspace: Workspace; archive: Archive }) {
  const m = useMessages();
  const w = useInsideMessages();
  const path = tidy(useLocation().searchParams.get("path") ?? "");
  useTitle(w.archived.of(workspace.name));
  const listing = useQuery({
    queryKey: ["workspace", workspace.id, "archived", archive.op, archive.attempt, path],
    queryFn: () => call<Directory>("GET", apiOf(archive, "", path)),
    staleTime: Infinity, // an archive never changes
    // The first look reads all of it, which may take longer than one request.
    retry: (_, error) => error instanceof ApiError && error.code === "archive_indexing",
    retryDelay: 2000,
    placeholderData: keepPreviousData,
  });
  const reading =
    listing.failureReason instanceof ApiError && listing.failureReason.code === "archive_indexing";
  return (
    <article className="files" data-workspace={workspace.id}>
      <Link href={`/workspaces/${workspace.id}`} className="back">
        <Icon name="left" />
        {workspace.name}
      </Link>
      <h1 className="files__title">{w.archived.title}</h1>
      <Generations workspace={workspace} archive={archive} path={path} />
      <div className="files__content">
        <section className="panel files__panel" aria-label={path ? shownName(nameOf(path)) : w.files.home}>
          <Steps archive={archive} path={path} />
          {listing.isError ? (
            <div className="failed" role="alert">
              <p>{insideError(m, w, listing.error)}</p>
              <button type="button" className="button" onClick={() => void listing.refetch()}>
                {m.app.retry}
              </button>
            </div>
          ) : listing.data ? (
            <Content workspace={workspace} archive={archive} path={path} directory={listing.data} />
          ) : (
            <>
              <Loading />
              {reading && <p role="status">{m.errors.archive_indexing}</p>}
            </>
          )}
        </section>
      </div>
    </article>
  );
}

interface Place {
  workspace: Workspace;
  archive: Archive;
  path: string;
}

/** The same folder at another time. */
function Generations({ workspace, archive, path }: Place) {
  const w = useInsideMessages();
  const language = useLanguage();
  const { data } = useQuery(archivesQuery(workspace.id));
  const here = `${archive.op}/${archive.attempt}`;
  if (!data) return null;
  return (
    <div className="files__generation">
      <SelectField
        label={w.archived.made}
        value={here}
        onChange={(chosen) => {
          const [op = "", attempt = ""] = chosen.split("/");
          navigate(pageOf({ id: workspace.id, op, attempt }, path));
        }}
      >
        {data.map((each) => (
          <option key={each.key} value={each.key.split("/").slice(1, 3).join("/")}>
            {dateTime(language, each.created_at)}, {bytes(language, each.bytes)}
          </option>
        ))}
      </SelectField>
    </div>
  );
}

function Steps({ archive, path }: { archive: Archive; path: string }) {
  const w = useInsideMessages();
  const steps = [{ name: w.files.home, path: "" }, ...stepsOf(path)];
  return (
    <nav aria-label={w.files.where} className="crumbs">
      <ol>
        {steps.map((step, i) => (
          <li key={step.path}>
            {i === steps.length - 1 ? (
              <span aria-current="page">
                <bdi>{shownName(step.name)}</bdi>
              </span>
            ) : (
              <Link href={pageOf(archive, step.path)}>
                <bdi>{shownName(step.name)}</bdi>
              </Link>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}

function Content({ workspace, archive, path, directory }: Place & { directory: Directory }) {
  const w = useInsideMessages();
  const language = useLanguage();
  const [most, setMost] = useState(AT_ONCE);
  const [putting, setPutting] = useState<string | null>(null);
  const shown = arranged(directory.entries, language, true);
  return (
    <>
      <div className="files__bar">
        <a className="button" href={`/api/v1${apiOf(archive, "/archive", path)}`} download>
          {w.files.downloadTar}
        </a>
      </div>
      {directory.truncated && (
        <p className="form-note">
          {w.archived.truncated(new Intl.NumberFormat(language).format(shown.length))}
        </p>
      )}
      {shown.length === 0 ? (
        <p className="empty-line">{w.files.empty}</p>
      ) : (
        <table className="entries" role="table" aria-label={w.archived.title}>
          <Heads />
          <tbody role="rowgroup">
            {shown.slice(0, most).map((entry) => (
              <Row
                key={entry.name}
                archive={archive}
                path={join(path, entry.name)}
                entry={entry}
                onPutBack={() => setPutting(join(path, entry.name))}
              />
            ))}
          </tbody>
        </table>
      )}
      {shown.length > most && (
        <button type="button" className="button" onClick={() => setMost(most + AT_ONCE)}>
          {w.files.more(Math.min(shown.length - most, AT_ONCE))}
        </button>
      )}
      {putting !== null && (
        <PutBackDialog
          workspace={workspace}
          archive={archive}
          path={putting}
          onClose={() => setPutting(null)}
        />
      )}
    </>
  );
}

function Heads() {
  const { columns } = useInsideMessages().files;
  return (
    <thead role="rowgroup">
      <tr role="row">
        <th role="columnheader" scope="col">
          {columns.name}
        </th>
        <th role="columnheader" scope="col" className="entries__size">
          {columns.size}
        </th>
        <th role="columnheader" scope="col" className="entries__time">
          {columns.modified}
        </th>
        <th role="columnheader" scope="col">
          <span className="sr-only">{columns.actions}</span>
        </th>
      </tr>
    </thead>
  );
}

interface RowProps {
  archive: Archive;
  path: string;
  entry: FileEntry;
  onPutBack: () => void;
}

function Row({ archive, path, entry, onPutBack }: RowProps) {
  const w = useInsideMessages();
  const language = useLanguage();
  const name = shownName(entry.name);
  const isFolder = entry.type === "directory";
  const address = `/api/v1${apiOf(archive, isFolder ? "/archive" : "/content", path)}`;
  const items: MenuItem[] = [
    {
      label: isFolder ? w.files.downloadTar : w.files.download,
      onSelect: () => window.location.assign(address), // an attachment: the page stays
    },
  ];
  if (entry.type === "file") items.push({ label: `${w.archived.putBack}…`, onSelect: onPutBack });
  return (
    <tr role="row">
      <td role="cell" className="entries__name">
        <Icon name={isFolder ? "folder" : "file"} />
        {isFolder ? (
          <Link href={pageOf(archive, path)}>
            <bdi>{name}</bdi>
          </Link>
        ) : entry.type === "file" ? (
          <a href={address} download={entry.name}>
            <bdi>{name}</bdi>
          </a>
        ) : (
          <bdi>{name}</bdi>
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
        {(isFolder || entry.type === "file") && (
          <Menu label={w.files.actionsFor(name)} button={<Icon name="more" />} items={items} />
        )}
      </td>
    </tr>
  );
}

function PutBackDialog({ workspace, archive, path, onClose }: Place & { onClose: () => void }) {
  const m = useMessages();
  const w = useInsideMessages();
  const [overwrite, setOverwrite] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const running = isOpen(workspace);
  const submit = async () => {
    setBusy(true);
    try {
      const { id, op, attempt } = archive;
      await call("POST", `/workspaces/${id}/archives/${op}/${attempt}/files/put-back`, { path, overwrite });
      notify(w.archived.isBack(shownName(nameOf(path))));
      onClose();
    } catch (failure) {
      setError(insideError(m, w, failure));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={w.archived.putBackTitle(shownName(nameOf(path)))}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={busy || !running}>
            {w.archived.putBack}
          </button>
        </>
      }
    >
      <p>{running ? w.archived.putBackText(shownName(path)) : w.archived.needsRunning}</p>
      {running && (
        <label>
          <input
            type="checkbox"
            checked={overwrite}
            onChange={(event) => setOverwrite(event.target.checked)}
          />{" "}
          {w.archived.overwrite}
        </label>
      )}
      {error && (
        <p className="form-error" role="alert">
          {error}
        </p>
      )}
    </Dialog>
  );
}
