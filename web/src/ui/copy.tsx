import { notify } from "../actions/notices";
import { useMessages } from "../i18n";

/** The clipboard is only there on HTTPS and localhost; elsewhere the text is shown to be copied by hand. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const m = useMessages();
  if (!window.isSecureContext) return <code className="mono">{text}</code>;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    notify(m.app.copied);
  };
  return (
    <button type="button" className="button button--small" onClick={() => void copy()}>
      {label}
    </button>
  );
}
