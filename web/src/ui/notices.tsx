/** Where notices are shown and read out. */
import { dismiss, notices } from "../actions/notices";
import { useMessages } from "../i18n";
import { useStore } from "../store";
import { Icon } from "./icons";
import "./notices.css";

export function Notices() {
  const m = useMessages();
  return (
    <div className="notices" role="status" aria-live="polite">
      {useStore(notices).map((notice) => (
        <div key={notice.id} className={`notice notice--${notice.tone}`}>
          <span>{notice.text}</span>
          <button
            type="button"
            className="notice__close"
            aria-label={m.app.close}
            onClick={() => dismiss(notice.id)}
          >
            <Icon name="cross" />
          </button>
        </div>
      ))}
    </div>
  );
}
