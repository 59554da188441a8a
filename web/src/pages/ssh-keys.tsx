/** The account page's section with one's public keys, and how to connect by a plain ssh. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client";
import { sshKeysQuery } from "../api/queries";
import type { SshGateway, SshKey } from "../api/types";
import { notifyError } from "../actions/notices";
import { useMessages } from "../i18n";
import { useUser } from "../session";
import { Dialog } from "../ui/dialog";
import { TextArea, TextField } from "../ui/fields";
import { Icon } from "../ui/icons";
import { Empty, Failed, Loading } from "../ui/states";
import { Table } from "../ui/table";
import { Ago } from "../ui/time";
import { errorSentence, fieldError } from "../words/errors";
import "./ssh-keys.css";

export function SshKeys() {
  const m = useMessages();
  const keys = useQuery(sshKeysQuery);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<SshKey | null>(null);
  return (
    <section className="ssh-keys" aria-labelledby="ssh-keys">
      <div className="ssh-keys__head">
        <h2 id="ssh-keys">{m.sshKeys.title}</h2>
        <button type="button" className="button" onClick={() => setAdding(true)}>
          <Icon name="plus" />
          {m.sshKeys.add}
        </button>
      </div>
      <p className="ssh-keys__lead">{m.sshKeys.lead}</p>
      {keys.isError ? (
        <Failed error={keys.error} retry={() => void keys.refetch()} />
      ) : !keys.data ? (
        <Loading />
      ) : (
        <>
          <Usage gateway={keys.data.gateway} />
          {keys.data.items.length === 0 ? (
            <Empty>{m.sshKeys.empty}</Empty>
          ) : (
            <KeyTable keys={keys.data.items} onRemove={setRemoving} />
          )}
        </>
      )}
      {adding && <AddKey onClose={() => setAdding(false)} />}
      {removing && <RemoveKey sshKey={removing} onClose={() => setRemoving(null)} />}
    </section>
  );
}

function Usage({ gateway }: { gateway: SshGateway | null }) {
  const m = useMessages();
  const user = useUser();
  if (gateway === null) return <p className="ssh-keys__lead">{m.sshKeys.noGateway}</p>;
  return (
    <dl className="ssh-keys__usage">
      <dt>{m.sshKeys.connect}</dt>
      <dd className="mono">{`ssh -J ${user.username}@${gateway.host}:${gateway.port} ${m.sshKeys.workspace}`}</dd>
      <dt>{m.sshKeys.gatewayKey}</dt>
      <dd className="mono">{gateway.fingerprint}</dd>
    </dl>
  );
}

function KeyTable({ keys, onRemove }: { keys: readonly SshKey[]; onRemove: (key: SshKey) => void }) {
  const m = useMessages();
  return (
    <Table
      label={m.sshKeys.title}
      rows={keys}
      rowKey={(key) => key.id}
      columns={[
        { key: "name", title: m.sshKeys.columns.name, cell: (k) => <strong>{k.name}</strong>, bare: true },
        {
          key: "fingerprint",
          title: m.sshKeys.columns.fingerprint,
          cell: (k) => <span className="mono ssh-keys__fingerprint">{k.fingerprint}</span>,
        },
        { key: "added", title: m.sshKeys.columns.added, cell: (k) => <Ago at={k.added_at} /> },
        {
          key: "used",
          title: m.sshKeys.columns.used,
          cell: (k) => (k.last_used_at ? <Ago at={k.last_used_at} /> : m.sshKeys.unused),
        },
        {
          key: "actions",
          title: m.admin.columns.actions,
          bare: true,
          cell: (k) => (
            <button
              type="button"
              className="button button--small"
              aria-label={m.sshKeys.removeNamed(k.name)}
              onClick={() => onRemove(k)}
            >
              {m.sshKeys.remove}
            </button>
          ),
        },
      ]}
    />
  );
}

function AddKey({ onClose }: { onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const chosen = name.trim() || commentOf(text);
  const submit = async () => {
    if (!text.trim() || !chosen) return;
    setError(null);
    try {
      await call("POST", "/ssh-keys", { name: chosen, public_key: text });
      void client.invalidateQueries({ queryKey: sshKeysQuery.queryKey });
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  const textError = fieldError(m, error, "public_key");
  const nameError = fieldError(m, error, "name");
  return (
    <Dialog
      title={m.sshKeys.add}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={!text.trim() || !chosen}>
            {m.sshKeys.add}
          </button>
        </>
      }
    >
      <TextArea
        label={m.sshKeys.publicKey}
        hint={m.sshKeys.publicKeyHint}
        rows={5}
        value={text}
        onChange={setText}
        error={textError}
      />
      <TextField
        label={m.sshKeys.name}
        hint={m.sshKeys.nameHint}
        value={name}
        placeholder={commentOf(text)}
        onChange={setName}
        error={nameError}
        maxLength={64}
        autoComplete="off"
      />
      {error !== null && !textError && !nameError && (
        <p className="form-error" role="alert">
          {errorSentence(m, error)}
        </p>
      )}
    </Dialog>
  );
}

/** What stands after the key, mostly whose it is: ssh-ed25519 AAAA… ann@laptop. */
function commentOf(text: string): string {
  return text.trim().split(/\s+/).slice(2).join(" ").slice(0, 64);
}

function RemoveKey({ sshKey, onClose }: { sshKey: SshKey; onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const remove = async () => {
    onClose();
    try {
      await call("DELETE", `/ssh-keys/${sshKey.id}`);
    } catch (error) {
      notifyError(error);
    }
    void client.invalidateQueries({ queryKey: sshKeysQuery.queryKey });
  };
  return (
    <Dialog
      title={m.sshKeys.removeTitle(sshKey.name)}
      onClose={onClose}
      onSubmit={() => void remove()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger">{m.sshKeys.remove}</button>
        </>
      }
    >
      <p>{m.sshKeys.removeText}</p>
    </Dialog>
  );
}
