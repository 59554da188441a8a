/**
 * A button with further actions behind it. Radix brings the ARIA menu pattern (arrows, letters, Escape, Tab, pointer,
 * staying inside the window); looks and words are ours.
 */
import * as Radix from "@radix-ui/react-dropdown-menu";
import { useRef, type ReactNode } from "react";
import "./menu.css";

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
  const trigger = useRef<HTMLButtonElement>(null);
  const chosen = useRef<MenuItem | null>(null);
  const afterClosing = (event: Event) => {
    const item = chosen.current;
    if (!item) return;
    chosen.current = null;
    event.preventDefault();
    // First the focus, then the action: a dialog returns it to where it was, and that must be the button, not an
    // item that no longer exists.
    trigger.current?.focus();
    item.onSelect();
  };
  return (
    // Not modal: Radix would lock scrolling with a style element, which the content security policy refuses.
    <Radix.Root modal={false}>
      <Radix.Trigger ref={trigger} className={className} aria-label={label}>
        {button}
      </Radix.Trigger>
      {/* Where the button is and not at the end of the page: inside the landmark it belongs to. */}
      <Radix.Content
        className="menu"
        align="end"
        sideOffset={4}
        collisionPadding={8}
        loop
        aria-label={label}
        onCloseAutoFocus={afterClosing}
      >
        {items.map((item, i) =>
          item === "line" ? (
            <Radix.Separator key={`line-${i}`} className="menu__line" />
          ) : (
            <Radix.Item
              key={item.label}
              className={item.tone === "danger" ? "menu__item menu__item--danger" : "menu__item"}
              disabled={item.disabled ?? false}
              onSelect={() => {
                chosen.current = item;
              }}
            >
              {item.label}
            </Radix.Item>
          ),
        )}
      </Radix.Content>
    </Radix.Root>
  );
}
