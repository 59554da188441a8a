import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "../api/types";
import { archiveAddress, archivesQuery } from "../api/queries";
import { useLanguage, useMessages } from "../i18n";
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
    queryKey: [...base.queryKey, workspace.archive_key] as never,
  });
  return (
    <section className="panel" aria-labelledby="archives">
      <h2 id="archives">{m.detail.archives}</h2>
      {isError ? (
        <Failed error={error} />
      ) : !data ? (
        <Loading />
      ) : data.length === 0 ? (
        <Empty>{m.detail.archivesEmpty}</Empty>
      ) : (
        <>
          <p className="panel__lead">{m.detail.archivesLead}</p>
          <ul className="generations">
            {data.map((archive) => (
              <li key={archive.key} title={archive.key}>
                <strong>{bytes(language, archive.bytes)}</strong>
                <span>{m.detail.files(new Intl.NumberFormat(language).format(archive.files))}</span>
                <Ago at={archive.created_at} />
                {archive.key === workspace.archive_key && <span className="tag">{m.detail.current}</span>}
                <a
                  className="generations__download"
                  aria-label={m.detail.downloadOf(dateTime(language, archive.created_at))}
                  href={archiveAddress(workspace.id, archive.key)}
                  download
                >
                  {m.detail.download}
                </a>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
