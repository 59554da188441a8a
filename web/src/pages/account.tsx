import { useState } from "react";
import { signOut } from "../sign-out";
import { ApiError, call } from "../api/client";
import { LANGUAGES, useLanguage, useMessages, type Language } from "../i18n";
import { useUser } from "../session";
import { setTheme, useTheme } from "../theme";
import { Choice, TextField } from "../ui/fields";
import { useTitle } from "../ui/title";
import { chooseLanguage } from "../actions/language";
import { notify } from "../actions/notices";
import { errorSentence, fieldError } from "../words/errors";
import { SshKeys } from "./ssh-keys";
import "./account.css";

export default function AccountPage() {
  const m = useMessages();
  const user = useUser();
  useTitle(m.account.title);
  return (
    <>
      <div className="page__head">
        <h1>{m.account.title}</h1>
        <button type="button" className="button" onClick={() => void signOut()}>
          {m.app.signOut}
        </button>
      </div>
      <p className="page__lead">{m.account.signedInAs(user.username)}</p>
      <div className="account">
        <Appearance />
        <Password />
      </div>
      <SshKeys />
    </>
  );
}

function Appearance() {
  const m = useMessages();
  const language = useLanguage();
  const theme = useTheme();
  return (
    <section className="panel stack" aria-labelledby="appearance">
      <h2 id="appearance">{m.account.appearance}</h2>
      <Choice
        visibleLabel
        label={m.account.language}
        value={language}
        onChange={chooseLanguage}
        options={Object.entries(LANGUAGES) as [Language, string][]}
      />
      <Choice
        visibleLabel
        label={m.account.theme}
        value={theme}
        onChange={setTheme}
        options={[
          ["system", m.account.themes.system],
          ["light", m.account.themes.light],
          ["dark", m.account.themes.dark],
        ]}
      />
    </section>
  );
}

function Password() {
  const m = useMessages();
  const user = useUser();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    setError(null);
    try {
      await call("POST", "/auth/password", { current, new: next });
      setCurrent("");
      setNext("");
      notify(m.account.changed);
    } catch (failure) {
      setError(failure);
    }
  };
  const wrong =
    error instanceof ApiError && ["forbidden", "invalid_credentials", "wrong_password"].includes(error.code);
  const nextError = fieldError(m, error, "new");
  return (
    <section className="panel" aria-labelledby="password">
      <h2 id="password">{m.account.password}</h2>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {/* For password managers, which want to know whose password this is. */}
        <input
          className="sr-only"
          type="text"
          autoComplete="username"
          value={user.username}
          readOnly
          tabIndex={-1}
          aria-hidden="true"
        />
        <TextField
          label={m.account.current}
          type="password"
          value={current}
          onChange={setCurrent}
          autoComplete="current-password"
          error={wrong ? m.account.wrongCurrent : fieldError(m, error, "current")}
        />
        <TextField
          label={m.account.next}
          type="password"
          hint={m.account.nextHint}
          value={next}
          onChange={setNext}
          autoComplete="new-password"
          error={nextError}
        />
        {error !== null && !wrong && !nextError && (
          <p className="form-error" role="alert">
            {errorSentence(m, error)}
          </p>
        )}
        <div className="stack__actions">
          <button className="button" disabled={!current || next.length < 8}>
            {m.account.change}
          </button>
        </div>
      </form>
    </section>
  );
}
