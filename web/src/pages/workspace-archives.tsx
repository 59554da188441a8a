import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ArchiveGeneration, Workspace } from "../api/types";
import { archiveAddress, archivesQuery } from "../api/queries";
import { useLanguage, useMessages } from "../i18n";
import type { Messages } from "../i18n/messages";
import { Link } from "../router";
import { Icon } from "../ui/icons";
import { Menu, type MenuItem } from "../ui/menu";
import { RestoreDialog, ReturnNotice } from "../ui/restore";
import { SnapshotBar, SnapshotDialog, type Question } from "../ui/snapshots";
import { Empty, Failed, Loading } from "../ui/states";
import { Ago } from "../ui/time";
import { bytes } from "../words/size";
import { dateTime } from "../words/time";
import "./workspace-archives.css";

export function Archives({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const language = useLanguage();
  // The key is part of the question: a new archive asks anew, without anybody polling.
  const base = archivesQuery(workspace.id);
  const { data, error, isError } = useQuery({
    ...base,
    queryKey: [
      ...base.queryKey,
      workspace.archive_key,
      workspace.restore_from?.archive_key,
      workspace.op_seq,
      workspace.version,
    ] as never,
    placeholderData: keepPreviousData,
  });
  const [choosing, setChoosing] = useState<ArchiveGeneration | null>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const chosen = workspace.restore_from?.archive_key;
  return (
    <section className="panel" aria-labelledby="archives">
      <h2 id="archives">{m.detail.archives}</h2>
      {workspace.deleted_at === null && <SnapshotBar workspace={workspace} onAsk={setQuestion} />}
      {isError ? (
        <Failed error={error} />
      ) : !data ? (
        <Loading />
      ) : data.length === 0 ? (
        <Empty>{m.detail.archivesEmpty}</Empty>
      ) : (
        <>
          <p className="panel__lead">
            {m.detail.archivesInAll(data.length, bytes(language, sum(data)))} {m.detail.archivesLead}
          </p>
          <ReturnNotice workspace={workspace} />
          <ul className="generations">
            {data.map((archive) => (
              <li key={archive.key} title={archive.key}>
                <strong>{bytes(language, archive.bytes)}</strong>
                <span>{m.detail.files(new Intl.NumberFormat(language).format(archive.files))}</span>
                <Ago at={archive.created_at} />
                {archive.snapshot && (
                  <span className="tag generations__name" dir="auto">
                    {archive.snapshot.name}
                  </span>
                )}
                {archive.key === workspace.archive_key && <span className="tag">{m.detail.current}</span>}
                {archive.key === chosen && <span className="tag">{m.restore.chosen}</span>}
                {archive.damaged && <span className="tag">{m.restore.damaged}</span>}
                {archive.expiring && <span className="tag">{m.restore.expiring}</span>}
                <span className="generations__actions">
                  <Link
                    aria-label={m.detail.browseOf(dateTime(language, archive.created_at))}
                    href={`/workspaces/${workspace.id}/archives/${archive.key.split("/").slice(1, 3).join("/")}`}
                  >
                    {m.detail.browse}
                  </Link>
                  <a
                    aria-label={m.detail.downloadOf(dateTime(language, archive.created_at))}
                    href={archiveAddress(workspace.id, archive.key)}
                    download
                  >
                    {m.detail.download}
                  </a>
                  {offersRestore(workspace, archive) && (
                    <button
                      type="button"
                      className="button button--small"
                      aria-label={m.restore.buttonFor(dateTime(language, archive.created_at))}
                      onClick={() => setChoosing(archive)}
                    >
                      {m.restore.button}…
                    </button>
                  )}
                  {workspace.deleted_at === null && !archive.expiring && (
                    <Menu
                      label={m.snapshots.more(dateTime(language, archive.created_at))}
                      button={<Icon name="more" />}
                      items={menuItems(m, archive, setQuestion)}
                    />
                  )}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {choosing && (
        <RestoreDialog workspace={workspace} archive={choosing} onClose={() => setChoosing(null)} />
      )}
      {question && (
        <SnapshotDialog workspace={workspace} question={question} onClose={() => setQuestion(null)} />
      )}
    </section>
  );
}

function menuItems(m: Messages, archive: ArchiveGeneration, ask: (question: Question) => void): MenuItem[] {
  const copy: MenuItem = {
    label: `${m.copies.beside}…`,
    onSelect: () => ask({ kind: "copy", archive }),
  };
  if (!archive.snapshot)
    return [copy, { label: `${m.snapshots.keep}…`, onSelect: () => ask({ kind: "keep", archive }) }];
  return [
    copy,
    { label: `${m.snapshots.rename}…`, onSelect: () => ask({ kind: "rename", archive }) },
    { label: `${m.snapshots.remove}…`, tone: "danger", onSelect: () => ask({ kind: "remove", archive }) },
  ];
}

const sum = (archives: readonly ArchiveGeneration[]) => archives.reduce((all, each) => all + each.bytes, 0);

/** Not of what it is at already: an archived workspace has nothing but its current archive. */
function offersRestore(workspace: Workspace, archive: ArchiveGeneration): boolean {
  if (workspace.deleted_at !== null || archive.expiring) return false;
  if (archive.key === workspace.restore_from?.archive_key) return false;
  return !(workspace.status === "archived" && archive.key === workspace.archive_key);
}
