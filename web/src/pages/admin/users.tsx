import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, call } from "../../api/client";
import { usersQuery } from "../../api/queries";
import type { Role, User } from "../../api/types";
import { useMessages } from "../../i18n";
import { useUser } from "../../session";
import { Dialog } from "../../ui/dialog";
import { SelectField, TextField } from "../../ui/fields";
import { Icon } from "../../ui/icons";
import { Menu, type MenuItem } from "../../ui/menu";
import { notify, notifyError } from "../../actions/notices";
import { Failed, Loading } from "../../ui/states";
import { Table } from "../../ui/table";
import { Ago } from "../../ui/time";
import { errorSentence, fieldError } from "../../words/errors";

type Question = { kind: "add" } | { kind: "reset"; user: User } | { kind: "disable"; user: User };

export function UsersSection() {
  const m = useMessages();
  const me = useUser();
  const users = useQuery(usersQuery);
  const [question, setQuestion] = useState<Question | null>(null);
  const close = () => setQuestion(null);
  if (users.isError) return <Failed error={users.error} retry={() => void users.refetch()} />;
  if (!users.data) return <Loading />;
  const { columns } = m.admin;
  return (
    <div className="stack">
      <div className="stack__actions">
        <button type="button" className="button button--primary" onClick={() => setQuestion({ kind: "add" })}>
          <Icon name="plus" />
          {m.admin.addUser}
        </button>
      </div>
      <Table
        label={m.admin.users}
        rows={users.data}
        rowKey={(user) => user.id}
        columns={[
          {
            key: "name",
            title: columns.name,
            bare: true,
            cell: (user) => (
              <>
                <strong>{user.username}</strong>{" "}
                {user.id === me.id && <span className="tag">{m.admin.you}</span>}
              </>
            ),
          },
          { key: "role", title: columns.role, cell: (user) => m.admin.roles[user.role] },
          {
            key: "state",
            title: columns.state,
            cell: (user) =>
              user.disabled_at ? <span className="warn">{m.admin.disabled}</span> : m.admin.active,
          },
          { key: "created", title: columns.created, cell: (user) => <Ago at={user.created_at} /> },
          {
            key: "actions",
            title: columns.actions,
            bare: true,
            cell: (user) => <UserMenu user={user} onAsk={setQuestion} />,
          },
        ]}
      />
      {question?.kind === "add" && <AddUser onClose={close} />}
      {question?.kind === "reset" && <ResetPassword user={question.user} onClose={close} />}
      {question?.kind === "disable" && <DisableUser user={question.user} onClose={close} />}
    </div>
  );
}

function useChangeUser() {
  const m = useMessages();
  const client = useQueryClient();
  return async (user: User, change: { role?: Role; disabled?: boolean; password?: string }) => {
    await call("PATCH", `/users/${user.id}`, change);
    await client.invalidateQueries({ queryKey: usersQuery.queryKey });
    notify(m.admin.userChanged);
  };
}

function UserMenu({ user, onAsk }: { user: User; onAsk: (question: Question) => void }) {
  const m = useMessages();
  const me = useUser();
  const change = useChangeUser();
  const apply = (what: Parameters<typeof change>[1]) => void change(user, what).catch(notifyError);
  const items: MenuItem[] = [
    { label: m.admin.resetPassword, onSelect: () => onAsk({ kind: "reset", user }) },
    user.role === "admin"
      ? { label: m.admin.makeUser, onSelect: () => apply({ role: "user" }), disabled: user.id === me.id }
      : { label: m.admin.makeAdmin, onSelect: () => apply({ role: "admin" }) },
    user.disabled_at
      ? { label: m.admin.enable, onSelect: () => apply({ disabled: false }) }
      : {
          label: m.admin.disable,
          onSelect: () => onAsk({ kind: "disable", user }),
          tone: "danger",
          disabled: user.id === me.id,
        },
  ];
  return <Menu label={m.admin.userActions(user.username)} button={<Icon name="more" />} items={items} />;
}

function AddUser({ onClose }: { onClose: () => void }) {
  const m = useMessages();
  const client = useQueryClient();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState<Role>("user");
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    try {
      await call("POST", "/users", { username, password, role });
      void client.invalidateQueries({ queryKey: usersQuery.queryKey });
      notify(m.admin.userAdded(username));
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  const code = error instanceof ApiError ? error.code : null;
  const nameError =
    fieldError(m, error, "username") ??
    (code === "username_taken" || code === "unfit_username" ? errorSentence(m, error) : null);
  const passwordError =
    fieldError(m, error, "password") ?? (code === "unfit_password" ? errorSentence(m, error) : null);
  return (
    <Dialog
      title={m.admin.addUser}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={!username || !password}>
            {m.admin.addUser}
          </button>
        </>
      }
    >
      <TextField
        label={m.admin.username}
        value={username}
        onChange={setUsername}
        error={nameError}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
      />
      <TextField
        label={m.admin.password}
        type="password"
        value={password}
        onChange={setPassword}
        error={passwordError}
        hint={m.account.nextHint}
        autoComplete="new-password"
      />
      <SelectField label={m.admin.role} value={role} onChange={(value) => setRole(value as Role)}>
        <option value="user">{m.admin.roles.user}</option>
        <option value="admin">{m.admin.roles.admin}</option>
      </SelectField>
      {error !== null && !nameError && !passwordError && (
        <p className="form-error" role="alert">
          {errorSentence(m, error)}
        </p>
      )}
    </Dialog>
  );
}

function ResetPassword({ user, onClose }: { user: User; onClose: () => void }) {
  const m = useMessages();
  const change = useChangeUser();
  const [password, setPassword] = useState("");
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    try {
      await change(user, { password });
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog
      title={m.admin.resetTitle(user.username)}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--primary" disabled={password.length < 8}>
            {m.admin.resetPassword}
          </button>
        </>
      }
    >
      <p>{m.admin.resetText}</p>
      <TextField
        label={m.admin.newPassword}
        type="password"
        value={password}
        onChange={setPassword}
        hint={m.account.nextHint}
        error={error === null ? null : (fieldError(m, error, "password") ?? errorSentence(m, error))}
        autoComplete="new-password"
      />
    </Dialog>
  );
}

function DisableUser({ user, onClose }: { user: User; onClose: () => void }) {
  const m = useMessages();
  const change = useChangeUser();
  const submit = () => {
    onClose();
    void change(user, { disabled: true }).catch(notifyError);
  };
  return (
    <Dialog
      title={m.admin.disableTitle(user.username)}
      onClose={onClose}
      onSubmit={submit}
      actions={
        <>
          <button type="button" className="button" onClick={onClose}>
            {m.app.cancel}
          </button>
          <button className="button button--danger">{m.admin.disable}</button>
        </>
      }
    >
      <p>{m.admin.disableText}</p>
    </Dialog>
  );
}
