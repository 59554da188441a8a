/** A question that must be answered before going on: the browser's own dialog, which keeps focus and hears Escape. */
import { useEffect, useId, useRef, type FormEvent, type ReactNode } from "react";
import { useMessages } from "../i18n";
import { Icon } from "./icons";
import "./dialog.css";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** With it the dialog is a form; the actions belong to it. */
  onSubmit?: () => void;
  actions?: ReactNode;
}

export function Dialog({ title, onClose, children, onSubmit, actions }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const m = useMessages();
  useEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    dialog?.showModal();
    // The browser would choose the close button; who opens a form wants to type.
    dialog?.querySelector<HTMLElement>(".dialog__body :is(input, select, textarea):not(:disabled)")?.focus();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit?.();
  };
  const content = (
    <>
      <div className="dialog__body">{children}</div>
      {actions && <div className="dialog__actions">{actions}</div>}
    </>
  );
  return (
    <dialog
      ref={ref}
      className="dialog"
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header className="dialog__head">
        <h2 id={titleId}>{title}</h2>
        <button
          type="button"
          className="button button--quiet button--icon"
          aria-label={m.app.close}
          onClick={onClose}
        >
          <Icon name="cross" />
        </button>
      </header>
      {onSubmit ? (
        <form onSubmit={submit} noValidate>
          {content}
        </form>
      ) : (
        content
      )}
    </dialog>
  );
}
