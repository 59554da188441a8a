/** Who may open a port besides its owner: its label, how far it is shared, and until when. */
import { useState } from "react";
import { call } from "../api/client";
import type { Share, ShareLevel, Shares, Workspace } from "../api/types";
import { notify } from "../actions/notices";
import { useMessages } from "../i18n";
import { useInsideMessages, type InsideMessages } from "../i18n/inside";
import { CopyButton } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { SelectField, TextField } from "../ui/fields";
import { Ago } from "../ui/time";
import { fieldError } from "../words/errors";
import { insideError } from "../words/inside-errors";
import { duration } from "../words/time";

const LEVELS: readonly ShareLevel[] = ["private", "signed_in", "public"];
const HOUR = 3600;
const LASTS = [HOUR, 8 * HOUR, 24 * HOUR, 72 * HOUR, 168 * HOUR, 720 * HOUR];

interface ShareProps {
  workspace: Workspace;
  port: number;
  share: Share | undefined;
  rules: Shares;
  onChanged: () => Promise<void>;
  onClose: () => void;
}

export function ShareDialog({ workspace, port, share, rules, onChanged, onClose }: ShareProps) {
  const m = useMessages();
  const w = useInsideMessages();
  const allowed = LEVELS.slice(0, LEVELS.indexOf(rules.highest) + 1);
  const [label, setLabel] = useState(share?.label ?? "");
  const [level, setLevel] = useState<ShareLevel>(
    share && allowed.includes(share.level) ? share.level : "private",
  );
  const [lasts, setLasts] = useState<number | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const path = `/workspaces/${workspace.id}/shares/${port}`;
  const choices = LASTS.filter((each) => each <= rules.max_link_hours * HOUR);
  const seconds = lasts ?? (level === "public" ? Math.min(24 * HOUR, rules.max_link_hours * HOUR) : null);

  const change = async (act: () => Promise<unknown>, after: () => void) => {
    setBusy(true);
    setError(null);
    try {
      await act();
      await onChanged();
      after();
    } catch (refusal) {
      setError(refusal);
    } finally {
      setBusy(false);
    }
  };
  const save = (newLink: boolean) =>
    change(
      () =>
        call("PUT", path, {
          level,
          label,
          lasts_seconds: level === "private" ? null : seconds,
          new_link: newLink,
        }),
      () => {
        notify(newLink ? w.share.renewed : w.share.saved);
        if (level !== "public") onClose();
      },
    );
  const remove = () =>
    change(
      () => call("DELETE", path),
      () => {
        notify(w.share.removed);
        onClose();
      },
    );

  return (
    <Dialog
      title={w.share.title(port)}
      onClose={onClose}
      onSubmit={() => void save(false)}
      actions={
        <>
          {share && (
            <button type="button" className="button" disabled={busy} onClick={() => void remove()}>
              {w.share.remove}
            </button>
          )}
          <button type="submit" className="button button--primary" disabled={busy}>
            {w.share.save}
          </button>
        </>
      }
    >
      <div className="share">
        <TextField
          label={w.share.label}
          value={label}
          maxLength={64}
          optional
          onChange={setLabel}
          error={fieldError(m, error, "label")}
        />
        <SelectField
          label={w.share.who}
          value={level}
          hint={hintOf(w, rules)}
          onChange={(value) => setLevel(value as ShareLevel)}
        >
          {LEVELS.map((each) => (
            <option key={each} value={each} disabled={!allowed.includes(each)}>
              {w.share.choices[each]}
            </option>
          ))}
        </SelectField>
        {level !== "private" && (
          <>
            <SelectField
              label={w.share.lasts}
              value={String(seconds ?? "")}
              onChange={(value) => setLasts(value === "" ? null : Number(value))}
            >
              {level === "signed_in" && <option value="">{w.share.untilRemoved}</option>}
              {choices.map((each) => (
                <option key={each} value={each}>
                  {duration(m, each)}
                </option>
              ))}
            </SelectField>
            <p className="inside__note">{w.share.visitors}</p>
          </>
        )}
        {share?.link && level === "public" && (
          <PublicLink share={share} link={share.link} busy={busy} onRenew={() => void save(true)} />
        )}
        {error !== null && <p role="alert">{insideError(m, w, error)}</p>}
      </div>
    </Dialog>
  );
}

interface LinkProps {
  share: Share;
  link: string;
  busy: boolean;
  onRenew: () => void;
}

function PublicLink({ share, link, busy, onRenew }: LinkProps) {
  const w = useInsideMessages();
  return (
    <div className="field">
      <span className="field__label">{w.share.link}</span>
      <div className="share__link">
        <code className="mono">{link}</code>
        {window.isSecureContext && <CopyButton text={link} label={w.share.copyLink} />}
        <button type="button" className="button button--small" disabled={busy} onClick={onRenew}>
          {w.share.renew}
        </button>
      </div>
      <p className="field__hint">
        {w.share.linkHint} {w.share.ends} <Ago at={share.expires_at} />
      </p>
    </div>
  );
}

function hintOf(w: InsideMessages, rules: Shares): string | undefined {
  return rules.lower_because === null ? undefined : w.share.because[rules.lower_because];
}
