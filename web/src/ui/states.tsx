/** What a page shows when it has nothing to show yet, or could not get it. */
import type { ReactNode } from "react";
import { useMessages } from "../i18n";
import { errorSentence } from "../words/errors";
import "./states.css";

export function Loading() {
  const m = useMessages();
  return (
    <p className="loading" role="status">
      {m.app.loading}
    </p>
  );
}

export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  const m = useMessages();
  return (
    <div className="failed" role="alert">
      <p>{errorSentence(m, error)}</p>
      {retry && (
        <button type="button" className="button" onClick={retry}>
          {m.app.retry}
        </button>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty-line">{children}</p>;
}
