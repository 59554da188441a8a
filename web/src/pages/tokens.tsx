import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client";
import { tokensQuery } from "../api/queries";
import type { ApiToken } from "../api/types";
import { useMessages } from "../i18n";
import { Dialog } from "../ui/dialog";
import { SelectField, TextField } from "../ui/fields";
import { Icon } from "../ui/icons";
import { notify, notifyError } from "../actions/notices";
import { Empty, Failed, Loading } from "../ui/states";
import { Table } from "../ui/table";
import { useTitle } from "../ui/title";
import { Ago } from "../ui/time";
import { errorSentence, fieldError } from "../words/errors";
import "./tokens.css";

export default function TokensPage() {
  const m = useMessages();
  useTitle(m.tokens.title);
  const tokens = useQuery(tokensQuery);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiToken | null>(null);
  return (
    <>
      <div className="page__head">
        <h1>{m.tokens.title}</h1>
        <button type="button" className="button button--primary" onClick={() => setCreating(true)}>
          <Icon name="plus" />
          {m.tokens.create}
        </button>
      </div>
      <p className="page__lead">{m.tokens.lead}</p>
      {tokens.isError ? (
        <Failed error={tokens.error} retry={() => void tokens.refetch()} />
      ) : !tokens.data ? (
        <Loading />
      ) : tokens.data.length === 0 ? (
        <Empty>{m.tokens.empty}</Empty>
      ) : (
        <Table
          label={m.tokens.title}
          rows={tokens.data}
          rowKey={(token) => token.id}
          columns={[
            { key: "name", title: m.tokens.columns.name, cell: (t) => <strong>{t.name}</strong>, bare: true },
            { key: "created", title: m.tokens.columns.created, cell: (t) => <Ago at={t.created_at} /> },
            {
              key: "used",
              title: m.tokens.columns.used,
              cell: (t) => (t.last_used_at ? <Ago at={t.last_used_at} /> : m.tokens.unused),
            },
            { key: "expires", title: m.tokens.columns.expires, cell: (t) => <Ago at={t.expires_at} /> },
            {
              key: "actions",
              title: m.admin.columns.actions,
              bare: true,
              cell: (t) => (
                <button
                  type="button"
                  className="button button--small"
                  aria-label={m.tokens.revokeNamed(t.name)}
                  onClick={() => setRevoking(t)}
                >
                  {m.tokens.revoke}
                </button>
              ),
            },
          ]}
        />
      )}
      {creating && <CreateToken onClose={() => setCreating(false)} />}
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </>
  );
}

const LIFETIMES = [7, 30, 90, 365] as const;

function CreateToken({ onClose }: { onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [secret, setSecret] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    if (!name.trim()) return;
    try {
      const body = { name: name.trim(), ...(days !== "" && { expires_in_days: Number(days) }) };
      setSecret((await call<{ token: string }>("POST", "/tokens", body)).token);
      void client.invalidateQueries({ queryKey: tokensQuery.queryKey });
    } catch (failure) {
      setError(failure);
    }
  };
  if (secret !== null) return <ShownOnce name={name} secret={secret} onClose={onClose} />;
  const nameError = fieldError(m, error, "name");
  return (
    <Dialog
      title={m.tokens.create}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={!name.trim()}>
            {m.tokens.create}
          </button>
        </>
      }
    >
      <TextField
        label={m.tokens.name}
        hint={m.tokens.nameHint}
        value={name}
        onChange={setName}
        error={nameError}
        maxLength={64}
        autoComplete="off"
      />
      <SelectField label={m.tokens.expires} value={days} onChange={setDays}>
        {LIFETIMES.map((n) => (
          <option key={n} value={n}>
            {m.tokens.days(n)}
          </option>
        ))}
        <option value="">{m.tokens.forever}</option>
      </SelectField>
      {error !== null && !nameError && (
        <p className="form-error" role="alert">
          {errorSentence(m, error)}
        </p>
      )}
    </Dialog>
  );
}

function ShownOnce({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  const m = useMessages();
  const copy = async () => {
    await navigator.clipboard.writeText(secret);
    notify(m.app.copied);
  };
  return (
    <Dialog
      title={m.tokens.tokenLabel(name)}
      onClose={onClose}
      actions={
        <button type="button" className="button" onClick={onClose}>
          {m.tokens.done}
        </button>
      }
    >
      <p>{m.tokens.once}</p>
      <div className="secret">
        <input
          className="input mono"
          readOnly
          aria-label={m.tokens.tokenLabel(name)}
          value={secret}
          onFocus={(e) => e.target.select()}
        />
        {/* The clipboard is only there on HTTPS and localhost; elsewhere the field is selected by hand. */}
        {window.isSecureContext && (
          <button type="button" className="button button--primary" onClick={() => void copy()}>
            {m.app.copy}
          </button>
        )}
      </div>
    </Dialog>
  );
}

function RevokeToken({ token, onClose }: { token: ApiToken; onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const revoke = async () => {
    onClose();
    try {
      await call("DELETE", `/tokens/${token.id}`);
    } catch (error) {
      notifyError(error);
    }
    void client.invalidateQueries({ queryKey: tokensQuery.queryKey });
  };
  return (
    <Dialog
      title={m.tokens.revokeTitle(token.name)}
      onClose={onClose}
      onSubmit={() => void revoke()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger">{m.tokens.revoke}</button>
        </>
      }
    >
      <p>{m.tokens.revokeText}</p>
    </Dialog>
  );
}
