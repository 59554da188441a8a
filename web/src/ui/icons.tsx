/** Drawn for 16 px, in the colour of the text around them. Decoration only: words carry the meaning. */
import type { ReactNode } from "react";
import "./icons.css";

const PATHS = {
  plus: <path d="M8 3v10M3 8h10" />,
  more: (
    <g fill="currentColor" stroke="none">
      <circle cx="3" cy="8" r="1.4" />
      <circle cx="8" cy="8" r="1.4" />
      <circle cx="13" cy="8" r="1.4" />
    </g>
  ),
  search: <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14" />,
  open: <path d="M6.5 3.5H3.5v9h9v-3M9 2.5h4.5V7M13 3 7.5 8.5" />,
  play: <path d="M5 3.2v9.6L12.5 8Z" fill="currentColor" strokeLinejoin="round" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" />,
  pencil: <path d="m3 13 .6-2.8L10.8 3a1.1 1.1 0 0 1 1.6 0l.6.6a1.1 1.1 0 0 1 0 1.6l-7.2 7.2L3 13Z" />,
  cross: <path d="m4 4 8 8M12 4l-8 8" />,
  pin: <path d="M5.5 2.5h5M6.5 2.5v4L4 9.5h8l-2.5-3v-4M8 9.5V14" />,
  check: <path d="m3 8.5 3.2 3.2L13 5" />,
  down: <path d="m4 6 4 4 4-4" />,
  left: <path d="m10 3-5 5 5 5" />,
  grid: <path d="M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z" />,
  folder: <path d="M1.75 4.25v8.5h12.5v-7H7.5l-1.75-2h-4Z" strokeLinejoin="round" />,
  file: <path d="M3.75 1.75h5l3.5 3.5v9h-8.5Zm5 0v3.5h3.5" strokeLinejoin="round" />,
  key: <path d="M5.5 12.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM7.7 7.3 13.5 1.5M11 4l2 2" />,
  person: (
    <path d="M8 7.5a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5ZM2.5 14c.4-2.8 2.6-4.25 5.5-4.25S13.1 11.2 13.5 14" />
  ),
  shield: <path d="M8 1.8 13 3.6v4c0 3.2-2.1 5.3-5 6.6-2.9-1.3-5-3.4-5-6.6v-4Z" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      {PATHS[name]}
    </svg>
  );
}

export function Brand() {
  return (
    <svg
      className="brand__mark"
      viewBox="0 0 32 32"
      width="28"
      height="28"
      aria-hidden="true"
      focusable="false"
    >
      <path className="brand__rail" d="M5 24h11" />
      <circle className="brand__low" cx="5" cy="24" r="3" />
      <circle className="brand__mid" cx="16" cy="24" r="3" />
      <path className="brand__rise" d="M18 21.5 25 11" />
      <circle className="brand__high" cx="26" cy="9" r="5" />
    </svg>
  );
}
