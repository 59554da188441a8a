/** What the pages ask the API besides the live stream. Nothing here polls: live changes invalidate what they concern. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { ApiError, call } from "./client";
import type {
  ApiToken,
  ArchiveGeneration,
  AuditEntry,
  CoordinatorHealth,
  HistoryEntry,
  Images,
  Limits,
  Finding,
  Setting,
  Overview,
  Savings,
  Page,
  SshKeys,
  User,
  Workspace,
} from "./types";

/** The signed-in person, or null. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<User | null> => {
    try {
      return (await call<{ user: User }>("GET", "/auth/session")).user;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: Infinity,
});

export const limitsQuery = queryOptions({
  queryKey: ["limits"],
  queryFn: () => call<Limits>("GET", "/limits"),
});

export const savingsQuery = queryOptions({
  queryKey: ["savings"],
  queryFn: () => call<Savings>("GET", "/savings"),
  staleTime: 60_000,
});

export const allSavingsQuery = queryOptions({
  queryKey: ["admin", "savings"],
  queryFn: () => call<Savings>("GET", "/admin/savings"),
});

/** Of the limits only what never changes while the server runs: who asks for it does not follow the rest. */
export const attemptsQuery = queryOptions({
  ...limitsQuery,
  select: (limits) => limits.attempts,
  staleTime: Infinity,
});

export const imagesQuery = queryOptions({
  queryKey: ["images"],
  queryFn: () => call<Images>("GET", "/images"),
  // No event tells how far an installation is: ask while there is one.
  refetchInterval: (query: { state: { data: Images | undefined } }) =>
    query.state.data?.items.some((image) => image.installation?.percent != null) ? 2000 : false,
});

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: async () => (await call<Page<ApiToken>>("GET", "/tokens")).items,
});

export const sshKeysQuery = queryOptions({
  queryKey: ["ssh-keys"],
  queryFn: () => call<SshKeys>("GET", "/ssh-keys"),
});

export const usersQuery = queryOptions({ queryKey: ["users"], queryFn: () => everyPage<User>("/users") });

export const workspaceQuery = (id: string) =>
  queryOptions({ queryKey: ["workspace", id], queryFn: () => call<Workspace>("GET", `/workspaces/${id}`) });

export const archivesQuery = (id: string) =>
  queryOptions({
    queryKey: ["workspace", id, "archives"],
    queryFn: async () => (await call<Page<ArchiveGeneration>>("GET", `/workspaces/${id}/archives`)).items,
  });

/** Where an archive is downloaded from: its key, below its workspace. */
export const archiveAddress = (id: string, key: string) =>
  `/api/v1/workspaces/${id}/archives/${key.slice(id.length + 1).replace(/[^/]*$/, "home.tar.zst")}`;

export const historyQuery = (id: string) =>
  paged<HistoryEntry>(["workspace", id, "history"], `/workspaces/${id}/history`);

export const auditQuery = paged<AuditEntry>(["admin", "audit"], "/admin/audit");

export const overviewQuery = queryOptions({
  queryKey: ["admin", "overview"],
  queryFn: () => call<Overview>("GET", "/admin/overview"),
});

export const findingsQuery = queryOptions({
  queryKey: ["admin", "findings"],
  queryFn: () => call<Page<Finding>>("GET", "/admin/findings"),
});

export const settingsQuery = queryOptions({
  queryKey: ["admin", "settings"],
  queryFn: () => call<Page<Setting>>("GET", "/admin/settings"),
});

export const coordinatorsQuery = queryOptions({
  queryKey: ["admin", "coordinators"],
  queryFn: () => call<CoordinatorHealth>("GET", "/health/coordinator"),
});

export const everyonesQuery = (filters: { owner: string; status: string; q: string }) => {
  const query = new URLSearchParams({ owner: filters.owner });
  if (filters.status) query.set("status", filters.status);
  if (filters.q) query.set("q", filters.q);
  return paged<Workspace>(["admin", "workspaces", filters], `/workspaces?${query}`);
};

function paged<Item>(key: readonly unknown[], path: string) {
  return infiniteQueryOptions({
    queryKey: key,
    queryFn: ({ pageParam }) => call<Page<Item>>("GET", withCursor(path, pageParam)),
    initialPageParam: null as string | null,
    getNextPageParam: (page: Page<Item>) => page.next_cursor,
  });
}

function withCursor(path: string, cursor: string | null): string {
  return cursor === null
    ? path
    : `${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`;
}

/** All pages of a list that is short by nature (people of a team), but must not end at fifty. */
async function everyPage<Item>(path: string): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<Item> = await call("GET", withCursor(`${path}?limit=200`, cursor));
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}
