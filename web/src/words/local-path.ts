/**
 * Where to go after signing in. The address comes from the query string, so anybody can write it into a link: only a
 * path on this very host is followed, everything else leads to the list of workspaces.
 */
export function localPath(next: string | null): string {
  // Browsers drop tabs and newlines from addresses and read a backslash as a slash: "/\t/evil", "/\evil".
  // eslint-disable-next-line no-control-regex
  if (!next || !/^\/(?![/\\])/.test(next) || /[\u0000-\u001f\u007f\\]/.test(next)) return "/";
  return next;
}
