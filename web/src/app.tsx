/** The frame around every page: who is signed in, where one can go, and whether the live connection stands. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef, type ReactNode } from "react";
import { limitRefusal } from "./actions/limit";
import { unauthorized } from "./api/client";
import { limitsQuery, sessionQuery } from "./api/queries";
import type { User } from "./api/types";
import { useMessages } from "./i18n";
import { Freshness } from "./live/freshness";
import { LiveProvider, useLive, useLiveStore } from "./live/hooks";
import { SignIn } from "./pages/sign-in";
import { WorkspaceList } from "./pages/workspaces";
import { isOwnPage, Link, match, navigate, useLocation } from "./router";
import { EnginesAway } from "./ui/engines-away";
import { Announcer } from "./ui/announcer";
import { Brand, Icon, type IconName } from "./ui/icons";
import { Menu } from "./ui/menu";
import { Notices } from "./ui/notices";
import { Failed, Loading } from "./ui/states";
import { SessionContext } from "./session";
import { signOut } from "./sign-out";
import { useStore } from "./store";
import { localPath } from "./words/local-path";
import "./app.css";

// The list comes with the first load; every other page when somebody opens it.
const WorkspacePage = lazy(() => import("./pages/workspace"));
const FilesPage = lazy(() => import("./pages/files"));
const ArchivedFilesPage = lazy(() => import("./pages/files/archived"));
const TerminalPage = lazy(() => import("./pages/terminal"));
const TokensPage = lazy(() => import("./pages/tokens"));
const AccountPage = lazy(() => import("./pages/account"));
const LimitDialog = lazy(() => import("./ui/limit").then((limit) => ({ default: limit.LimitDialog })));
const AdminPages = lazy(() => import("./pages/admin"));

/** Comes with the first refusal. */
function Limit() {
  const refused = useStore(limitRefusal) !== null;
  return (
    refused && (
      <Suspense>
        <LimitDialog />
      </Suspense>
    )
  );
}

export function App() {
  const client = useQueryClient();
  const session = useQuery(sessionQuery);
  const { pathname, search } = useLocation();
  const atSignIn = pathname === "/login";

  useEffect(
    () =>
      unauthorized.subscribe(() => {
        // Before signing in, a refusal is the answer to "is anybody signed in?" and nothing has ended.
        if (client.getQueryData(sessionQuery.queryKey) == null) return;
        client.setQueryData(sessionQuery.queryKey, null);
        client.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
        navigate(signInAddress(window.location.pathname + window.location.search, true), { replace: true });
      }),
    [client],
  );
  const signedOut = session.data === null;
  useEffect(() => {
    if (signedOut && !atSignIn) navigate(signInAddress(pathname + search, false), { replace: true });
  }, [signedOut, atSignIn, pathname, search]);

  const next = localPath(new URLSearchParams(search).get("next"));
  // Only to pages of our own: were the server to disagree about the session, two redirects would chase each other.
  const goOn = session.data != null && atSignIn && isOwnPage(next);
  useEffect(() => {
    if (goOn) navigate(next, { replace: true });
  }, [goOn, next]);

  if (session.isError)
    return (
      <main className="page">
        <Failed error={session.error} retry={() => void session.refetch()} />
      </main>
    );
  if (session.data === undefined) return <Loading />;
  if (session.data === null || atSignIn)
    return (
      <>
        <SignIn />
        <Notices />
      </>
    );
  return (
    <SessionContext.Provider value={session.data}>
      <LiveProvider url="/api/v1/events" key={session.data.id}>
        <Shell user={session.data} path={pathname}>
          <Suspense fallback={<Loading />}>{pageFor(pathname, session.data)}</Suspense>
        </Shell>
      </LiveProvider>
    </SessionContext.Provider>
  );
}

function signInAddress(from: string, ended: boolean): string {
  const query = new URLSearchParams();
  if (from !== "/") query.set("next", from);
  if (ended) query.set("ended", "");
  return query.size > 0 ? `/login?${query}` : "/login";
}

function pageFor(path: string, user: User): ReactNode {
  if (match("/", path)) return <WorkspaceList />;
  const workspace = match("/workspaces/:id", path);
  if (workspace?.id) return <WorkspacePage id={workspace.id} key={workspace.id} />;
  const files = match("/workspaces/:id/files", path);
  if (files?.id) return <FilesPage id={files.id} key={files.id} />;
  const archived = match("/workspaces/:id/archives/:op/:attempt", path);
  if (archived?.id && archived.op && archived.attempt)
    return (
      <ArchivedFilesPage id={archived.id} op={archived.op} attempt={archived.attempt} key={archived.id} />
    );
  const terminal = match("/workspaces/:id/terminal", path);
  if (terminal?.id) return <TerminalPage id={terminal.id} key={terminal.id} />;
  if (match("/tokens", path)) return <TokensPage />;
  if (match("/account", path)) return <AccountPage />;
  const admin = match("/admin/:section", path) ?? match("/admin", path);
  if (admin && user.role === "admin") return <AdminPages section={admin.section ?? "overview"} />;
  return <NotFound />;
}

export function NotFound() {
  const m = useMessages();
  return (
    <div className="not-found">
      <h1>{m.app.notFoundTitle}</h1>
      <p>{m.app.notFoundText}</p>
      <Link className="button" href="/">
        {m.app.toWorkspaces}
      </Link>
    </div>
  );
}

function Shell({ user, path, children }: { user: User; path: string; children: ReactNode }) {
  const m = useMessages();
  const content = useRef<HTMLElement>(null);
  const cameFrom = useRef(path);
  useEffect(() => {
    // A new page begins at its content, for the keyboard and for a screen reader, as it would without scripts.
    if (cameFrom.current !== path) content.current?.focus({ preventScroll: true });
    cameFrom.current = path;
  }, [path]);
  return (
    <>
      <a className="skip" href="#content">
        {m.app.skip}
      </a>
      <header className="top">
        <div className="top__inner">
          <Link href="/" className="brand" aria-label="CodeHub">
            <Brand />
            <span className="brand__name">CodeHub</span>
          </Link>
          <nav className="nav" aria-label={m.app.main}>
            <NavLink href="/" icon="grid" path={path} text={m.app.workspaces} also="/workspaces" />
            <NavLink href="/tokens" icon="key" path={path} text={m.app.tokens} />
            {user.role === "admin" && (
              <NavLink href="/admin" icon="shield" path={path} text={m.app.admin} also="/admin" />
            )}
            <span className="nav__phone">
              <NavLink href="/account" icon="person" path={path} text={m.app.account} />
            </span>
          </nav>
          <Usage />
          <div className="top__account">
            <AccountMenu user={user} />
          </div>
        </div>
      </header>
      <ConnectionBanner />
      <EnginesAway />
      <main className="page" id="content" tabIndex={-1} ref={content}>
        {children}
      </main>
      <Notices />
      <Announcer />
      <Freshness />
      <Limit />
    </>
  );
}

function NavLink(props: { href: string; text: string; icon: IconName; path: string; also?: string }) {
  const current =
    props.path === props.href || (props.also !== undefined && props.path.startsWith(props.also));
  return (
    <Link href={props.href} className="nav__link" aria-current={current ? "page" : undefined}>
      <Icon name={props.icon} />
      <span>{props.text}</span>
    </Link>
  );
}

function AccountMenu({ user }: { user: User }) {
  const m = useMessages();
  return (
    <Menu
      label={`${m.app.menu}: ${user.username}`}
      className="button button--quiet"
      button={
        <>
          <span>{user.username}</span>
          <Icon name="down" />
        </>
      }
      items={[
        { label: m.app.account, onSelect: () => navigate("/account") },
        { label: m.app.signOut, onSelect: () => void signOut() },
      ]}
    />
  );
}

/** How much of the person's allowance runs; asked again whenever a workspace changed. */
function Usage() {
  const m = useMessages();
  const client = useQueryClient();
  const changes = useLive((live) => live.changes);
  const { data } = useQuery(limitsQuery);
  useEffect(() => {
    const later = setTimeout(() => void client.invalidateQueries({ queryKey: limitsQuery.queryKey }), 400);
    return () => clearTimeout(later);
  }, [changes, client]);
  if (!data) return <span className="usage" />;
  const { used, allowed } = data.user;
  return (
    <span className="usage" title={m.app.usedHint(used, allowed)}>
      {allowed <= 8 && (
        <span className="usage__pips" aria-hidden="true">
          {Array.from({ length: allowed }, (_, i) => (
            <span key={i} className={i < used ? "usage__pip is-used" : "usage__pip"} />
          ))}
        </span>
      )}
      <span>{m.app.used(used, allowed)}</span>
    </span>
  );
}

function ConnectionBanner() {
  const m = useMessages();
  const store = useLiveStore();
  const phase = useLive((live) => live.phase);
  return (
    <div role="status" className="banner-slot">
      {phase === "lost" && (
        <div className="banner">
          <span>{m.app.connectionLost}</span>
          <button type="button" className="button button--small" onClick={store.retryNow}>
            {m.app.reconnectNow}
          </button>
        </div>
      )}
    </div>
  );
}
