import { useState } from "react";
import type { ErrorInfo, Workspace } from "../api/types";
import { useWorkspaceActions } from "../actions/workspace-actions";
import { useMessages } from "../i18n";
import type { ActionName } from "../live/store";
import { useUser } from "../session";
import { StatusMark } from "../ui/status";
import { Ago } from "../ui/time";
import { troubleWords } from "../words/trouble";
import { GiveUpDialog } from "../ui/give-up";
import "./workspace-trouble.css";

export function Trouble({
  workspace,
  info,
  asking,
}: {
  workspace: Workspace;
  info: ErrorInfo;
  asking: ActionName | null;
}) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  const admin = useUser().role === "admin";
  const { what, advice, output, files, forOwner, nodeAway } = troubleWords(m, info);
  const [givingUp, setGivingUp] = useState(false);
  return (
    <section
      className={info.is_terminal ? "panel trouble" : "panel trouble trouble--mild"}
      aria-labelledby="trouble"
    >
      <h2 id="trouble">
        <StatusMark family={info.is_terminal ? "error" : "working"} />
        {m.trouble.title}
      </h2>
      <p className="trouble__what">{what}</p>
      <p>
        {advice}
        {info.is_terminal && !admin && !forOwner && ` ${m.trouble.askAdmin}`}
      </p>
      {info.is_terminal && ["PROVISIONING", "RESTORING", "STARTING"].includes(info.operation) && (
        <p>
          <a href="#archives">{m.restore.fromTrouble}</a>
        </p>
      )}
      {files.length > 0 && (
        <>
          <p>{m.trouble.files}</p>
          <ul className="mono">
            {files.map((file) => (
              <li key={file}>{file}</li>
            ))}
          </ul>
        </>
      )}
      {nodeAway && (
        <p>
          {workspace.archive_key ? (
            <>
              {m.giveUp.archivedAt}: <Ago at={workspace.archived_at} />
            </>
          ) : (
            m.giveUp.none
          )}
        </p>
      )}
      <p className="trouble__meta">
        <Ago at={info.occurred_at} />
        {info.operation !== "NONE" && <> · {m.trouble.during(m.history.operation[info.operation])}</>}
        {info.error_count > 0 && <> · {m.trouble.attempts(info.error_count)}</>}
      </p>
      {output && (
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
        <pre className="trouble__output mono" tabIndex={0} aria-label={m.trouble.output} role="region">
          {output}
        </pre>
      )}
      <details className="trouble__more">
        <summary>{m.trouble.technical}</summary>
        <p className="mono">
          {info.reason}: {info.message}
        </p>
        {/* Scrollable text must be reachable without a mouse. */}
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
        <pre className="mono" tabIndex={0}>
          {JSON.stringify(info.context, null, 2)}
        </pre>
      </details>
      {forOwner && (
        <p className="card__actions">
          <button
            type="button"
            className="button button--primary"
            disabled={asking !== null}
            onClick={() => void actions.start(workspace)}
          >
            {m.actions.start}
          </button>
          {nodeAway ? (
            workspace.archive_key && (
              <button
                type="button"
                className="button button--danger"
                disabled={asking !== null}
                onClick={() => setGivingUp(true)}
              >
                {m.giveUp.submit}…
              </button>
            )
          ) : (
            <button
              type="button"
              className="button"
              disabled={asking !== null}
              onClick={() => void actions.recover(workspace)}
            >
              {m.trouble.tryAgain}
            </button>
          )}
        </p>
      )}
      {givingUp && workspace.archive_key && (
        <GiveUpDialog
          workspace={workspace}
          archiveKey={workspace.archive_key}
          onClose={() => setGivingUp(false)}
        />
      )}
      {info.is_terminal && admin && !forOwner && (
        <button
          type="button"
          className="button button--primary"
          disabled={asking !== null}
          onClick={() => void actions.recover(workspace)}
        >
          {m.actions.recover}
        </button>
      )}
    </section>
  );
}
