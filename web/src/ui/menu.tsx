/** A button with further actions behind it, as the ARIA menu pattern has it: arrows move, letters jump, Escape leaves. */
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface MenuItem {
  label: string;
  onSelect: () => void;
  tone?: "danger";
  disabled?: boolean;
}

interface MenuProps {
  label: string;
  button: ReactNode;
  items: (MenuItem | "line")[];
  className?: string;
}

export function Menu({ label, button, items, className = "button button--quiet button--icon" }: MenuProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const id = useId();

  useEffect(() => {
    if (!open) return;
    entries(root.current)[0]?.focus();
    const leave = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [open]);

  const close = () => {
    setOpen(false);
    trigger.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Tab") setOpen(false);
    else if (move(root.current, event.key)) event.preventDefault();
  };
  return (
    <div className="menu" ref={root}>
      <button
        ref={trigger}
        type="button"
        className={className}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={label}
        onClick={() => setOpen(!open)}
      >
        {button}
      </button>
      {open && (
        <div className="menu__list" role="menu" id={id} aria-label={label} tabIndex={-1} onKeyDown={onKey}>
          {items.map((item, i) =>
            item === "line" ? (
              <div key={`line-${i}`} role="separator" className="menu__line" />
            ) : (
              <button
                key={item.label}
                type="button"
                role="menuitem"
                tabIndex={-1}
                className={item.tone === "danger" ? "menu__item menu__item--danger" : "menu__item"}
                disabled={item.disabled}
                onClick={() => {
                  close();
                  item.onSelect();
                }}
              >
                {item.label}
              </button>
            ),
          )}
        </div>
      )}
    </div>
  );
}

function entries(root: HTMLElement | null): HTMLButtonElement[] {
  return [...(root?.querySelectorAll<HTMLButtonElement>('[role="menuitem"]:not(:disabled)') ?? [])];
}

function move(root: HTMLElement | null, key: string): boolean {
  const all = entries(root);
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  const target =
    key === "ArrowDown"
      ? all[(at + 1) % all.length]
      : key === "ArrowUp"
        ? all[(at - 1 + all.length) % all.length]
        : key === "Home"
          ? all[0]
          : key === "End"
            ? all[all.length - 1]
            : key.length === 1
              ? all.find((e) => e.textContent?.toLowerCase().startsWith(key.toLowerCase()))
              : undefined;
  target?.focus();
  return target !== undefined;
}
