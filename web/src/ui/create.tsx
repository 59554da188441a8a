import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, call } from "../api/client";
import { imagesQuery } from "../api/queries";
import type { Workspace } from "../api/types";
import { useMessages } from "../i18n";
import { useLiveStore } from "../live/hooks";
import { errorSentence, fieldError } from "../words/errors";
import { Dialog } from "./dialog";
import { ARCHIVE_CHOICES, DurationField, STANDBY_CHOICES, TextField } from "./fields";
import { ImageChoice } from "./image-choice";
import { showLimit } from "../actions/limit";

export function CreateDialog({ onClose }: { onClose: () => void }) {
  const m = useMessages();
  const store = useLiveStore();
  const images = useQuery(imagesQuery);
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [image, setImage] = useState<string | null>(null);
  const [standby, setStandby] = useState<number | null>(null);
  const [archive, setArchive] = useState<number | null>(null);
  const [start, setStart] = useState(true);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  const chosen = image ?? images.data?.default ?? null;
  const chosenImage = images.data?.items.find((each) => each.name === chosen);
  const submit = async (queue = false) => {
    if (!name.trim() || busy) return;
    setBusy(true);
    setError(null);
    try {
      const made = await call<Workspace>("POST", "/workspaces", {
        name: name.trim(),
        ...(chosen && { image_ref: chosen }),
        ...(description.trim() && { description: description.trim() }),
        ...(standby !== null && { standby_ttl_seconds: standby }),
        ...(archive !== null && { archive_ttl_seconds: archive }),
        start,
        ...(queue && { queue }),
      });
      store.observe(made);
      onClose();
    } catch (failure) {
      if (failure instanceof ApiError && failure.code.startsWith("limit_"))
        showLimit({ workspace: null, error: failure, wait: () => void submit(true) });
      setError(failure);
      setBusy(false);
    }
  };
  const nameError =
    fieldError(m, error, "name") ??
    (error instanceof ApiError && error.code === "name_taken" ? m.errors.name_taken : null);
  const known =
    nameError ??
    fieldError(m, error, "standby_ttl_seconds") ??
    fieldError(m, error, "archive_ttl_seconds") ??
    fieldError(m, error, "image_ref");
  return (
    <Dialog
      title={m.create.title}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={!name.trim() || busy}>
            {m.create.submit}
          </button>
        </>
      }
    >
      <TextField
        label={m.create.name}
        hint={m.create.nameHint}
        value={name}
        onChange={setName}
        error={nameError}
        maxLength={64}
        autoComplete="off"
        required
      />
      <ImageChoice
        images={images.data}
        value={chosen ?? ""}
        onChange={setImage}
        error={fieldError(m, error, "image_ref")}
      />
      {chosenImage?.node_local_home && (
        <p className="form-note" role="note">
          {m.create.nodeLocal}
        </p>
      )}
      <TextField
        label={m.create.description}
        value={description}
        onChange={setDescription}
        optional
        autoComplete="off"
      />
      <fieldset className="group">
        <legend className="group__title">{m.create.rest}</legend>
        <div className="pair">
          <DurationField
            label={m.create.standby}
            seconds={standby}
            choices={[null, ...STANDBY_CHOICES]}
            onChange={setStandby}
            error={fieldError(m, error, "standby_ttl_seconds")}
          />
          <DurationField
            label={m.create.archive}
            seconds={archive}
            choices={[null, ...ARCHIVE_CHOICES]}
            onChange={setArchive}
            error={fieldError(m, error, "archive_ttl_seconds")}
          />
        </div>
      </fieldset>
      <label className="check">
        <input type="checkbox" checked={start} onChange={(event) => setStart(event.target.checked)} />
        <span>{m.create.startNow}</span>
      </label>
      {error !== null && !known && (
        <p className="form-error" role="alert">
          {errorSentence(m, error)}
        </p>
      )}
    </Dialog>
  );
}
