import { useState } from "react";
import { useWorkspaceActions } from "../actions/workspace-actions";
import type { Workspace, WorkspaceEdit } from "../api/types";
import { useMessages } from "../i18n";
import { ARCHIVE_CHOICES, DurationField, STANDBY_CHOICES, TextArea, TextField } from "../ui/fields";
import { notify } from "../actions/notices";
import { errorSentence, fieldError } from "../words/errors";

type Draft = Required<WorkspaceEdit>;
const FIELDS = ["name", "description", "memo", "standby_ttl_seconds", "archive_ttl_seconds"] as const;

export function Settings({ workspace }: { workspace: Workspace }) {
  const m = useMessages();
  const actions = useWorkspaceActions();
  // Only what was touched is kept here, so that changes made elsewhere keep arriving in the untouched fields.
  const [edits, setEdits] = useState<WorkspaceEdit>({});
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const value = <K extends keyof Draft>(key: K) => (edits[key] ?? workspace[key]) as Draft[K];
  const set = (change: WorkspaceEdit) => setEdits((old) => ({ ...old, ...change }));
  const changed = Object.fromEntries(
    FIELDS.filter((f) => f in edits && edits[f] !== workspace[f]).map((f) => [f, edits[f]]),
  );
  const dirty = Object.keys(changed).length > 0;

  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await actions.edit(workspace, changed);
      setEdits({});
      notify(m.app.saved);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className="panel" aria-labelledby="settings">
      <h2 id="settings">{m.detail.settings}</h2>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (dirty && !busy) void save();
        }}
      >
        <TextField
          label={m.detail.name}
          value={value("name")}
          maxLength={64}
          onChange={(name) => set({ name })}
          error={fieldError(m, error, "name")}
          autoComplete="off"
        />
        <TextField
          label={m.detail.description}
          value={value("description")}
          onChange={(description) => set({ description })}
          optional
          autoComplete="off"
        />
        <TextArea label={m.detail.memo} value={value("memo")} onChange={(memo) => set({ memo })} optional />
        <div className="pair">
          <DurationField
            label={m.create.standby}
            seconds={value("standby_ttl_seconds")}
            choices={STANDBY_CHOICES}
            onChange={(s) => set({ standby_ttl_seconds: s ?? 0 })}
            error={fieldError(m, error, "standby_ttl_seconds")}
          />
          <DurationField
            label={m.create.archive}
            seconds={value("archive_ttl_seconds")}
            choices={ARCHIVE_CHOICES}
            onChange={(s) => set({ archive_ttl_seconds: s ?? 0 })}
            error={fieldError(m, error, "archive_ttl_seconds")}
          />
        </div>
        {error !== null && (
          <p className="form-error" role="alert">
            {errorSentence(m, error)}
          </p>
        )}
        <div className="stack__actions">
          <button className="button" disabled={!dirty || busy}>
            {m.app.save}
          </button>
        </div>
      </form>
    </section>
  );
}
