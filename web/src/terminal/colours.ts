/** The terminal in the page's colours. The sixteen of programs are ours, once for light and once for dark. */
import type { ITheme } from "@xterm/xterm";

const LIGHT = ["#1a2233", "#b3261e", "#0a7347", "#8f5200", "#2a5bd7", "#8338a8", "#0b6f80", "#545d6f"];
const DARK = ["#6f7a90", "#ff9087", "#4bd396", "#f2b75f", "#8fb4ff", "#d6a5ff", "#6fd3e3", "#e7eaf0"];
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

export function pageColours(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  const sixteen = style.colorScheme.includes("dark") ? DARK : LIGHT;
  const theme: ITheme = {
    background: value("--surface"),
    foreground: value("--ink"),
    cursor: value("--ink"),
    cursorAccent: value("--surface"),
    selectionBackground: value("--focus"),
    selectionForeground: value("--surface"),
  };
  for (const [i, name] of NAMES.entries()) {
    theme[name] = sixteen[i]!;
    theme[`bright${name[0]!.toUpperCase()}${name.slice(1)}` as "brightRed"] = sixteen[i]!;
  }
  return theme;
}
