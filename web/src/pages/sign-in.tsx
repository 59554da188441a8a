import { useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { chooseLanguage } from "../actions/language";
import { ApiError, call } from "../api/client";
import { sessionQuery } from "../api/queries";
import type { User } from "../api/types";
import { LANGUAGES, useLanguage, useMessages, type Language } from "../i18n";
import { isOwnPage, navigate, useLocation } from "../router";
import { TextField } from "../ui/fields";
import { useTitle } from "../ui/title";
import { Brand } from "../ui/icons";
import { errorSentence } from "../words/errors";
import { localPath } from "../words/local-path";
import "./sign-in.css";

export function SignIn() {
  const m = useMessages();
  useTitle(m.signIn.title);
  const language = useLanguage();
  const url = useLocation();
  const client = useQueryClient();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const { user } = await call<{ user: User }>("POST", "/auth/login", { username, password });
      client.setQueryData(sessionQuery.queryKey, user);
      goOn(url.searchParams.get("next"));
    } catch (failure) {
      setPassword("");
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const wrong = error instanceof ApiError && error.status === 401;
  return (
    <main className="sign-in" id="content">
      <form className="sign-in__card" onSubmit={(event) => void submit(event)} noValidate>
        <div className="sign-in__brand">
          <Brand />
          <span>CodeHub</span>
        </div>
        <h1>{m.signIn.title}</h1>
        <p className="sign-in__lead">{url.searchParams.has("ended") ? m.signIn.ended : m.signIn.lead}</p>
        <TextField
          label={m.signIn.username}
          value={username}
          onChange={setUsername}
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          required
          // The page is for nothing else.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
        />
        <TextField
          label={m.signIn.password}
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="current-password"
          required
        />
        {error !== null && (
          <p className="form-error" role="alert">
            {wrong ? m.signIn.wrong : errorSentence(m, error)}
          </p>
        )}
        <button className="button button--primary button--wide" disabled={busy || !username || !password}>
          {m.signIn.submit}
        </button>
        <p className="sign-in__hint">{m.signIn.forgotten}</p>
      </form>
      <p className="sign-in__languages">
        {(Object.keys(LANGUAGES) as Language[])
          .filter((l) => l !== language)
          .map((l) => (
            <button key={l} type="button" className="link-button" lang={l} onClick={() => chooseLanguage(l)}>
              {LANGUAGES[l]}
            </button>
          ))}
      </p>
    </main>
  );
}

/** Back to where the person wanted to be: a page of ours, or one the server shows (a workspace under /w/). */
function goOn(next: string | null): void {
  const target = localPath(next);
  if (isOwnPage(target)) navigate(target, { replace: true });
  else window.location.replace(target);
}
