/** Addresses of the dashboard. Five kinds of pages need a pattern, a hook and a link, not a library. */
import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { Store, useStore } from "./store";

const address = new Store(window.location.href, {
  whileWatched: () => {
    const follow = () => address.set(window.location.href);
    follow();
    window.addEventListener("popstate", follow);
    return () => window.removeEventListener("popstate", follow);
  },
});

/** Path and query of the page, following every navigation. */
export function useLocation(): URL {
  return new URL(useStore(address));
}

export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (options.replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
  address.set(window.location.href);
  if (!options.replace) window.scrollTo(0, 0);
}

export function Link({ href, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    rest.onClick?.(event);
    // A new tab, a new window or a download is the browser's business.
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  // oxlint-disable-next-line jsx-a11y/anchor-has-content
  return <a {...rest} href={href} onClick={follow} />;
}

/** The parts of `path` named in `pattern` ("/workspaces/:id"), or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split("/");
  const have = path.replace(/(.)\/$/, "$1").split("/");
  if (want.length !== have.length) return null;
  const found: Record<string, string> = {};
  for (const [i, part] of want.entries()) {
    const piece = have[i] ?? "";
    if (part.startsWith(":")) found[part.slice(1)] = piece;
    else if (part !== piece) return null;
  }
  return found;
}

const PAGES = [
  "/",
  "/workspaces/:id",
  "/workspaces/:id/files",
  "/workspaces/:id/archives/:op/:attempt",
  "/workspaces/:id/terminal",
  "/tokens",
  "/account",
  "/admin",
  "/admin/:section",
];

/** Whether the dashboard itself shows this path, or the server must (a workspace under /w/, for example). */
export function isOwnPage(path: string): boolean {
  const bare = path.split(/[?#]/)[0] ?? path;
  return PAGES.some((pattern) => match(pattern, bare) !== null);
}
