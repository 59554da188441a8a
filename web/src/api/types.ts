/**
 * What the API says, by the names the dashboard uses. The shapes are the server's own (`openapi.ts`, written by
 * `make api-types`); columns keep their names from the database, so that a field seen here can be looked up in the
 * schema, the logs and the audit without translation.
 */
import type { components } from "./openapi";

type Schemas = components["schemas"];

export type DesiredState = Schemas["DesiredState"];
export type ObservedStatus = Schemas["ObservedStatus"];
export type Operation = Schemas["Operation"];
/** One word for people, decided by the server: the dashboard never derives it from the axes. */
export type Status = Schemas["Status"];

export type Workspace = Schemas["Workspace"];
/** At a limit: wait in line, or take the place of another one. */
export type StartWith = Partial<Schemas["StartWorkspace"]>;
export type WorkspaceEdit = Partial<Schemas["WorkspaceChange"]>;
export type Activity = Schemas["Activity"];
export type ErrorInfo = Schemas["ErrorInfo"];
export type HistoryEntry = Schemas["HistoryEntry"];
export type CauseCode = Schemas["CauseCode"];
export type Reason = Schemas["Reason"];
export type ArchiveGeneration = Schemas["ArchiveGeneration"];

export type FileEntry = Schemas["FileEntry"];
export type Directory = Schemas["DirectoryListing"];
export type Port = Schemas["Port"];
export type Ports = Schemas["Ports"];
export type Process = Schemas["Process"];
export type Processes = Schemas["Processes"];
export type Share = Schemas["Share"];
export type Shares = Schemas["Shares"];
export type ShareLevel = Schemas["ShareLevel"];

export type User = Schemas["User"];
export type Role = Schemas["Role"];
export type SessionInfo = Schemas["SessionInfo"];
export type ApiToken = Schemas["Token"];
export type SshKey = Schemas["SshKey"];
export type SshKeys = Schemas["SshKeys"];
export type SshGateway = Schemas["SshGateway"];
export type TokenShownOnce = Schemas["TokenShownOnce"];

export type Images = Schemas["Images"];
export type Limits = Schemas["Limits"];
export type Savings = Schemas["Savings"];
export type Overview = Schemas["Overview"];
export type Setting = Schemas["Setting"];
export type Finding = Schemas["Finding"];
export type Repair = Schemas["Repair"];
export type AuditEntry = Schemas["AuditEntry"];
export type CoordinatorHealth = Schemas["CoordinatorReport"];
export type FieldError = Schemas["FieldError"];

/** A part of a list; the document has one schema for each kind of item. */
export type Page<Item> = Omit<Schemas["Page_Workspace_"], "items"> & { items: Item[] };
