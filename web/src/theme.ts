/** Light, dark, or whatever the system says. `public/appearance.js` applies the same choice before the first paint. */
import { Store, useStore } from "./store";

export type Theme = "system" | "light" | "dark";

const KEY = "codehub.theme";
const theme = new Store<Theme>(applied());

export function useTheme(): Theme {
  return useStore(theme);
}

export function setTheme(chosen: Theme): void {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
  theme.set(chosen);
}

function applied(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}
