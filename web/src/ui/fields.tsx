/** Form fields: label, control, hint and error always in the same places and always tied together for a screen reader. */
import { useId, useState, type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes } from "react";
import { useMessages } from "../i18n";
import { duration } from "../words/time";
import "./fields.css";

interface FrameProps {
  label: string;
  hint?: string | undefined;
  error?: string | null | undefined;
  optional?: boolean | undefined;
}

interface Wiring {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
}

function Frame({
  label,
  hint,
  error,
  optional,
  children,
}: FrameProps & { children: (wiring: Wiring) => ReactNode }) {
  const id = useId();
  const m = useMessages();
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label className="field__label" htmlFor={id}>
        {label}
        {optional && <span className="field__optional"> {m.create.optional}</span>}
      </label>
      {children({
        id,
        "aria-describedby": describedBy || undefined,
        "aria-invalid": error ? true : undefined,
      })}
      {hint && (
        <p className="field__hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p className="field__error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

type InputProps = FrameProps &
  Omit<InputHTMLAttributes<HTMLInputElement>, "onChange"> & { onChange: (value: string) => void };

export function TextField({ label, hint, error, optional, onChange, ...rest }: InputProps) {
  return (
    <Frame label={label} hint={hint} error={error} optional={optional}>
      {(wiring) => (
        <input className="input" {...rest} {...wiring} onChange={(e) => onChange(e.target.value)} />
      )}
    </Frame>
  );
}

export function TextArea({
  label,
  hint,
  error,
  optional,
  value,
  onChange,
  rows = 3,
}: FrameProps & { value: string; rows?: number; onChange: (value: string) => void }) {
  return (
    <Frame label={label} hint={hint} error={error} optional={optional}>
      {(wiring) => (
        <textarea
          className="input"
          rows={rows}
          value={value}
          {...wiring}
          onChange={(e) => onChange(e.target.value)}
        />
      )}
    </Frame>
  );
}

type SelectProps = FrameProps &
  Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange"> & { onChange: (value: string) => void };

export function SelectField({ label, hint, error, optional, onChange, children, ...rest }: SelectProps) {
  return (
    <Frame label={label} hint={hint} error={error} optional={optional}>
      {(wiring) => (
        <select className="input select" {...rest} {...wiring} onChange={(e) => onChange(e.target.value)}>
          {children}
        </select>
      )}
    </Frame>
  );
}

export const STANDBY_CHOICES = [300, 900, 1800, 3600, 14400, 0] as const;
export const ARCHIVE_CHOICES = [3600, 86400, 259200, 604800, 2592000, 0] as const;

interface DurationProps extends FrameProps {
  /** Null: whatever the operator set for everybody. */
  seconds: number | null;
  choices: readonly (number | null)[];
  onChange: (seconds: number | null) => void;
}

/** A time from a short list, or any other in minutes. Zero is "never", said in words. */
export function DurationField({ label, error, seconds, choices, onChange }: DurationProps) {
  const m = useMessages();
  const [custom, setCustom] = useState(!choices.includes(seconds));
  const word = (s: number | null) => (s === null ? m.ttl.usual : s === 0 ? m.ttl.never : duration(m, s));
  const pick = (value: string) => {
    setCustom(value === "other");
    if (value !== "other") onChange(value === "" ? null : Number(value));
    else if (!seconds) onChange(3600);
  };
  return (
    <div className="duration">
      <SelectField
        label={label}
        value={custom ? "other" : String(seconds ?? "")}
        onChange={pick}
        error={custom ? null : error}
      >
        {choices.map((s) => (
          <option key={s} value={s ?? ""}>
            {word(s)}
          </option>
        ))}
        <option value="other">{m.ttl.other}</option>
      </SelectField>
      {custom && (
        <TextField
          label={m.ttl.otherLabel(label)}
          type="number"
          min={1}
          inputMode="numeric"
          value={seconds ? String(Math.round(seconds / 60)) : ""}
          error={error}
          onChange={(value) => onChange(Math.max(0, Math.round(Number(value) * 60)))}
        />
      )}
    </div>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  visibleLabel?: boolean;
}) {
  const name = useId();
  return (
    <fieldset className="choice">
      <legend className={props.visibleLabel ? "field__label" : "sr-only"}>{props.label}</legend>
      <div className="choice__row">
        {props.options.map(([value, text]) => (
          <label key={value} className="choice__item">
            <input
              type="radio"
              name={name}
              checked={props.value === value}
              onChange={() => props.onChange(value)}
            />
            <span>{text}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
