// Written by `make api-types` from the API's OpenAPI document. Do not edit: `make check` compares.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
  schemas: {
    /**
     * Activity
     * @description Connections and last use. Null: unknown at the moment.
     */
    Activity: {
      /** @description Null: it does not run, or is about to sleep */
      awake: components["schemas"]["Awake"] | null;
      /** Connections */
      connections: number | null;
      /**
       * Kind
       * @description http, websocket or start
       */
      kind: string | null;
      /** Last Seen At */
      last_seen_at: string | null;
      next: components["schemas"]["NextChange"] | null;
      /** @description Null: it does not wait for a running place */
      queue: components["schemas"]["QueuePlace"] | null;
    };
    /**
     * ArchiveGeneration
     * @example {
     *       "key": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f/7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01/0190c7a25b1e7c3d9f003a5d2c1b4e6f/home.tar.zst",
     *       "bytes": 1048576,
     *       "files": 120,
     *       "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
     *       "created_at": "2025-01-01T09:00:00+00:00",
     *       "current": false,
     *       "chosen": false,
     *       "damaged": false,
     *       "expiring": false,
     *       "snapshot": {
     *         "id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *         "name": "before the upgrade"
     *       }
     *     }
     */
    ArchiveGeneration: {
      /** Bytes */
      bytes: number;
      /**
       * Chosen
       * @description The workspace is to return to it
       */
      chosen: boolean;
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
      /**
       * Current
       * @description It is the archive the workspace is restored from
       */
      current: boolean;
      /**
       * Damaged
       * @description A restore found it missing or damaged
       */
      damaged: boolean;
      /**
       * Expiring
       * @description Not kept any longer: it is about to be removed and cannot be chosen
       */
      expiring: boolean;
      /** Files */
      files: number;
      /** Key */
      key: string;
      /** Sha256 */
      sha256: string;
      /** @description The name it is kept under until that is deleted; null: it is no snapshot */
      snapshot: components["schemas"]["NamedSnapshot"] | null;
    };
    /**
     * AuditEntry
     * @example {
     *       "seq": 7,
     *       "at": "2025-01-01T12:00:00+00:00",
     *       "actor": "user:ann",
     *       "action": "workspace.desired.running",
     *       "subject": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *       "detail": {}
     *     }
     */
    AuditEntry: {
      /** Action */
      action: string;
      /** Actor */
      actor: string;
      /**
       * At
       * Format: date-time
       */
      at: string;
      /** Detail */
      detail: {
        [key: string]: unknown;
      };
      /** Seq */
      seq: number;
      /** Subject */
      subject: string | null;
    };
    /**
     * Awake
     * @description Why a running workspace is not put to sleep now.
     */
    Awake: {
      /** @description never: its idle time is 0; kept: a person asked for it; open: in a window, touched within the limit; busy: it works by itself; used: a short time ago; unknown: activity cannot be read */
      because: components["schemas"]["AwakeBecause"];
      /**
       * Since
       * @description open and used: when a person last caused something, at the latest; busy: since when it is so
       */
      since: string | null;
      /** @description busy: what it does */
      work: components["schemas"]["Work"] | null;
    };
    /**
     * AwakeBecause
     * @description Why a running workspace is not put to sleep now.
     * @enum {string}
     */
    AwakeBecause: "never" | "kept" | "open" | "busy" | "used" | "unknown";
    /**
     * BusyWith
     * @description What a busy workspace does.
     * @enum {string}
     */
    BusyWith: "kernel" | "job" | "cpu" | "ide" | "unknown";
    /**
     * CauseCode
     * @enum {string}
     */
    CauseCode:
      | "created"
      | "adopted"
      | "edited"
      | "asked_to_start"
      | "asked_to_stop"
      | "asked_to_archive"
      | "asked_to_delete"
      | "asked_to_recover"
      | "returned_to_archive"
      | "asked_to_return"
      | "return_cancelled"
      | "asked_for_snapshot"
      | "snapshot_cancelled"
      | "snapshot_kept"
      | "snapshot_renamed"
      | "snapshot_deleted"
      | "copied"
      | "kept_awake"
      | "may_sleep"
      | "link_opened"
      | "queued"
      | "place_free"
      | "made_room"
      | "idle"
      | "untouched"
      | "busy"
      | "forgotten"
      | "restored_unbound";
    /**
     * Command
     * @description A command to run. No shell is involved: ``argv`` is what the program gets.
     */
    Command: {
      /**
       * Argv
       * @example [
       *       "make",
       *       "test"
       *     ]
       */
      argv: string[];
      /**
       * Cwd
       * @description Default: the home
       * @example project
       */
      cwd?: string | null;
      /**
       * Env
       * @description Added to the workspace's own
       * @example {
       *       "CI": "1"
       *     }
       */
      env?: {
        [key: string]: string;
      };
      /**
       * Stdin
       * Format: base64
       * @description Base64
       * @default
       * @example aGVsbG8K
       */
      stdin: string;
      /**
       * Timeout Seconds
       * @description After it all it started is killed
       * @default 300
       */
      timeout_seconds: number;
    };
    /** CoordinatorReport */
    CoordinatorReport: {
      /** Coordinators */
      coordinators: {
        [key: string]: components["schemas"]["CoordinatorState"];
      };
      /** Is Leader */
      is_leader: boolean;
      /** Node Id */
      node_id: string;
      /** Uptime Seconds */
      uptime_seconds: number;
    };
    /** CoordinatorState */
    CoordinatorState: {
      /** Acquired At */
      acquired_at?: string | null;
      /**
       * Away
       * @description Engines that do not answer, as the leader sees them
       * @default {}
       */
      away: {
        [key: string]: unknown;
      };
      /** Epoch */
      epoch?: number | null;
      /** Holder Id */
      holder_id?: string | null;
      /** Is Leader */
      is_leader: boolean;
      /** Last Error */
      last_error?: string | null;
      /** Last Tick At */
      last_tick_at?: string | null;
      /**
       * Rivals
       * @description Other leaders of the same coordinator: replicas with another COORDINATOR_LOCK_ID
       * @default []
       */
      rivals: components["schemas"]["RivalLeader"][];
    };
    /**
     * DesiredState
     * @description The state a person or a policy wants. Written by the services layer alone.
     * @enum {string}
     */
    DesiredState: "PENDING" | "STANDBY" | "RUNNING";
    /**
     * DetachedCommand
     * @description A command that goes on by itself. No shell is involved: ``argv`` is what the program gets.
     */
    DetachedCommand: {
      /**
       * Argv
       * @example [
       *       "make",
       *       "test"
       *     ]
       */
      argv: string[];
      /**
       * Cwd
       * @description Default: the home
       * @example project
       */
      cwd?: string | null;
      /**
       * Env
       * @description Added to the workspace's own
       * @example {
       *       "CI": "1"
       *     }
       */
      env?: {
        [key: string]: string;
      };
      /**
       * Stdin
       * Format: base64
       * @description Base64
       * @default
       * @example aGVsbG8K
       */
      stdin: string;
      /**
       * Timeout Seconds
       * @description After it all it started is killed. Default: until the workspace stops
       * @example 86400
       */
      timeout_seconds?: number | null;
    };
    /**
     * DirectoryListing
     * @description A directory's entries, by name. ``truncated``: there are more than are listed.
     */
    DirectoryListing: {
      /** Entries */
      entries: components["schemas"]["FileEntry"][];
      /**
       * Truncated
       * @example false
       */
      truncated: boolean;
    };
    /** ErrorInfo */
    ErrorInfo: {
      /** Context */
      context: {
        [key: string]: unknown;
      };
      /** Error Count */
      error_count: number;
      /** Is Terminal */
      is_terminal: boolean;
      /** Message */
      message: string;
      /**
       * Occurred At
       * Format: date-time
       */
      occurred_at: string;
      operation: components["schemas"]["Operation"];
      reason: components["schemas"]["Reason"];
    };
    /** FieldError */
    FieldError: {
      /**
       * Code
       * @description For programs and other languages; `not_valid`: see `message`
       */
      code: string;
      /** Field */
      field: string;
      /**
       * Message
       * @description In English
       */
      message: string;
      /**
       * Params
       * @description What the code is about, for example `max_length`
       */
      params: {
        [key: string]: number | string;
      };
    };
    /**
     * FileEntry
     * @description A file, directory or link.
     */
    FileEntry: {
      /**
       * Mode
       * @example 0644
       */
      mode: string;
      /**
       * Modified At
       * Format: date-time
       * @example 2025-01-01T12:00:00Z
       */
      modified_at: string;
      /**
       * Name
       * @example today.md
       */
      name: string;
      /**
       * Size
       * @example 1204
       */
      size: number;
      /**
       * Target
       * @description Of a link
       * @example null
       */
      target?: string | null;
      /**
       * Type
       * @example file
       * @enum {string}
       */
      type: "file" | "directory" | "symlink" | "other";
    };
    /**
     * Finding
     * @example {
     *       "kind": "unknown_volume",
     *       "subject": "ws-0190b6a8-4f7e-7c3b-9d2e-1f6a5b4c3d2e-home",
     *       "workspace_id": "0190b6a8-4f7e-7c3b-9d2e-1f6a5b4c3d2e",
     *       "name": null,
     *       "owner": null,
     *       "since": null,
     *       "bytes": null,
     *       "message": null,
     *       "operation": null,
     *       "repairs": [
     *         "adopt"
     *       ]
     *     }
     */
    Finding: {
      /** Bytes */
      bytes: number | null;
      kind: components["schemas"]["FindingKind"];
      /** Message */
      message: string | null;
      /** Name */
      name: string | null;
      operation: components["schemas"]["Operation"] | null;
      /** Owner */
      owner: string | null;
      /**
       * Repairs
       * @description What may be asked for; empty: nothing, or it ends by itself
       */
      repairs: components["schemas"]["Repair"][];
      /** Since */
      since: string | null;
      /**
       * Subject
       * @description The workspace's name, or that of what exists without one
       */
      subject: string;
      /**
       * Workspace Id
       * @description What a repair is asked for; it need not have a workspace
       */
      workspace_id: string | null;
    };
    /**
     * FindingKind
     * @description What disagrees.
     * @enum {string}
     */
    FindingKind:
      | "error"
      | "volume_vanished"
      | "archiving_given_up"
      | "long_operation"
      | "only_copy"
      | "unknown_container"
      | "unknown_volume"
      | "unknown_archive"
      | "retained_volume"
      | "expiring_archive";
    /**
     * FindingRepair
     * @example {
     *       "repair": "adopt",
     *       "name": "found"
     *     }
     */
    FindingRepair: {
      /**
       * Image Ref
       * @description `adopt`: one of GET /images; null: the default
       */
      image_ref?: string | null;
      /**
       * Name
       * @description `adopt`: of the new workspace
       */
      name?: string | null;
      repair: components["schemas"]["Repair"];
    };
    /** Health */
    Health: {
      /**
       * Status
       * @constant
       */
      status: "ok";
    };
    /**
     * HealthStatus
     * @enum {string}
     */
    HealthStatus: "OK" | "ERROR";
    /**
     * HistoryEntry
     * @example {
     *       "seq": 41,
     *       "version": 9,
     *       "at": "2025-01-01T12:00:05+00:00",
     *       "changes": {
     *         "observed_status": [
     *           "STANDBY",
     *           "RUNNING"
     *         ]
     *       },
     *       "actor": "observer",
     *       "cause": null,
     *       "cause_code": null,
     *       "cause_params": {}
     *     }
     */
    HistoryEntry: {
      /** Actor */
      actor: string | null;
      /**
       * At
       * Format: date-time
       */
      at: string;
      /**
       * Cause
       * @description English text, as recorded
       */
      cause: string | null;
      /** @description Null: free text, for example an engine's own message */
      cause_code: components["schemas"]["CauseCode"] | null;
      /**
       * Cause Params
       * @description `seconds`, where the cause has a duration
       */
      cause_params: {
        [key: string]: number;
      };
      /**
       * Changes
       * @description Column → [before, after]
       */
      changes: {
        [key: string]: [unknown, unknown];
      };
      /** Seq */
      seq: number;
      /** Version */
      version: number;
    };
    /**
     * IdeInstallation
     * @description An IDE that CodeHub installs on its machine when a workspace first wants it.
     */
    IdeInstallation: {
      /**
       * Disk Mb
       * @description About how much disk it takes
       */
      disk_mb: number;
      /**
       * Fetched Mb
       * @description About how much is fetched
       */
      fetched_mb: number;
      /**
       * Offered
       * @description The version that `codehub ide install` gets
       */
      offered: string;
      /**
       * Percent
       * @description Of the installation that runs now; null: none does
       */
      percent: number | null;
      /**
       * Version
       * @description The version that is there; null: none yet
       */
      version: string | null;
    };
    /** Image */
    Image: {
      /** @description Null: it is there, or is fetched by the container engine */
      installation: components["schemas"]["IdeInstallation"] | null;
      /** Name */
      name: string;
      /**
       * Node Local Home
       * @description Homes of its workspaces are on one node: a lost node is a lost home, up to its last archive
       */
      node_local_home: boolean;
      /**
       * Title
       * @description What people call it; null: nothing but its name is known
       */
      title: string | null;
    };
    /**
     * Images
     * @description Images of the runtime. No items: any image is accepted.
     * @example {
     *       "items": [
     *         {
     *           "name": "jupyterlab",
     *           "title": null,
     *           "node_local_home": false,
     *           "installation": null
     *         }
     *       ],
     *       "default": "jupyterlab"
     *     }
     */
    Images: {
      /** Default */
      default: string | null;
      /** Items */
      items: components["schemas"]["Image"][];
    };
    /**
     * KeepAwake
     * @example {
     *       "hours": 4
     *     }
     */
    KeepAwake: {
      /**
       * Hours
       * @description 0: cancel
       */
      hours: number;
    };
    /**
     * Kill
     * @description The signal to send. TERM, INT, HUP and QUIT are followed by KILL after five seconds.
     */
    Kill: {
      /**
       * Signal
       * @default TERM
       * @example TERM
       * @enum {string}
       */
      signal: "TERM" | "INT" | "HUP" | "QUIT" | "KILL" | "USR1" | "USR2";
    };
    /** Leader */
    Leader: {
      /**
       * Acquired At
       * Format: date-time
       */
      acquired_at: string;
      /** Epoch */
      epoch: number;
      /** Holder Id */
      holder_id: string;
      /** Last Tick At */
      last_tick_at: string | null;
      /** Name */
      name: string;
    };
    /**
     * LimitKind
     * @enum {string}
     */
    LimitKind: "limit_user" | "limit_global";
    /**
     * Limits
     * @example {
     *       "user": {
     *         "used": 1,
     *         "allowed": 2
     *       },
     *       "global": {
     *         "used": 7,
     *         "allowed": 100
     *       },
     *       "attempts": 4
     *     }
     */
    Limits: {
      /**
       * Attempts
       * @description Attempts of an operation before a terminal error
       */
      attempts: number;
      global: components["schemas"]["Usage"];
      user: components["schemas"]["Usage"];
    };
    /**
     * Login
     * @example {
     *       "username": "ann",
     *       "password": "correct horse"
     *     }
     */
    Login: {
      /** Password */
      password: string;
      /** Username */
      username: string;
    };
    /** Move */
    Move: {
      /**
       * Overwrite
       * @description Replace what is there
       * @default false
       */
      overwrite: boolean;
      /**
       * Path
       * @description Absolute, or from the home
       * @example notes/today.md
       */
      path: string;
      /**
       * Target
       * @description Absolute, or from the home
       * @example notes/today.md
       */
      target: string;
    };
    /** NamedSnapshot */
    NamedSnapshot: {
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Name */
      name: string;
    };
    /**
     * NewCopy
     * @example {
     *       "name": "thesis-copy",
     *       "op_id": "7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01",
     *       "attempt": "0190c7a25b1e7c3d9f003a5d2c1b4e6f"
     *     }
     */
    NewCopy: {
      /**
       * Attempt
       * @description Of an archive, with `op_id`
       */
      attempt?: string | null;
      /** Name */
      name: string;
      /**
       * Op Id
       * @description Of an archive; null: the present home
       */
      op_id?: string | null;
      /**
       * Start
       * @description Start it at once (desired state RUNNING)
       * @default false
       */
      start: boolean;
    };
    /** NewDirectory */
    NewDirectory: {
      /**
       * Parents
       * @description Make those above it too; one that exists is no error
       * @default false
       */
      parents: boolean;
      /**
       * Path
       * @description Absolute, or from the home
       * @example notes/today.md
       */
      path: string;
    };
    /**
     * NewShare
     * @description Label and share level of a port. Replaces what was there.
     * @example {
     *       "level": "public",
     *       "label": "the demo",
     *       "lasts_seconds": 86400
     *     }
     */
    NewShare: {
      /**
       * Label
       * @default
       */
      label: string;
      /**
       * Lasts Seconds
       * @description From now on. Null: a public link lasts a day, signed-in people until it is taken back
       */
      lasts_seconds?: number | null;
      /** @description Who may open it besides the owner: nobody, signed-in people, the link */
      level: components["schemas"]["ShareLevel"];
      /**
       * New Link
       * @description Make a new public link: the earlier one is over
       * @default false
       */
      new_link: boolean;
    };
    /**
     * NewSnapshot
     * @example {
     *       "name": "before the upgrade"
     *     }
     */
    NewSnapshot: {
      /**
       * Attempt
       * @description Of an archive, with `op_id`
       */
      attempt?: string | null;
      /** Name */
      name: string;
      /**
       * Op Id
       * @description Of an archive; null: the present home
       */
      op_id?: string | null;
    };
    /**
     * NewSshKey
     * @example {
     *       "name": "laptop",
     *       "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII38LAmTqn7IksOkCKTigyQQ14kQ0F8LndRfe+nmkQ2S ann@laptop"
     *     }
     */
    NewSshKey: {
      /** Name */
      name: string;
      /**
       * Public Key
       * @description One line, as in a file that ends in .pub
       */
      public_key: string;
    };
    /**
     * NewToken
     * @example {
     *       "name": "laptop",
     *       "expires_in_days": 90
     *     }
     */
    NewToken: {
      /**
       * Expires In Days
       * @description null: never
       */
      expires_in_days?: number | null;
      /** Name */
      name: string;
    };
    /**
     * NewUser
     * @example {
     *       "username": "ann",
     *       "password": "correct horse",
     *       "role": "user"
     *     }
     */
    NewUser: {
      /** Password */
      password: string;
      /** @default user */
      role: components["schemas"]["Role"];
      /**
       * Username
       * @description Letters, digits and . _ @ -, beginning with a letter or digit
       */
      username: string;
    };
    /**
     * NewWorkspace
     * @example {
     *       "name": "thesis",
     *       "image_ref": "jupyterlab",
     *       "start": true
     *     }
     */
    NewWorkspace: {
      /**
       * Archive Ttl Seconds
       * @description Sleep before archiving; 0: never
       */
      archive_ttl_seconds?: number | null;
      /**
       * Description
       * @default
       */
      description: string;
      /**
       * Image Ref
       * @description One of GET /images; null: the default
       */
      image_ref?: string | null;
      /**
       * Memo
       * @default
       */
      memo: string;
      /** Name */
      name: string;
      /**
       * Queue
       * @description With `start`, at a limit: create it all the same, and wait for a place
       * @default false
       */
      queue: boolean;
      /**
       * Standby Ttl Seconds
       * @description Idle time before sleep; 0: never
       */
      standby_ttl_seconds?: number | null;
      /**
       * Start
       * @description Start it at once (desired state RUNNING)
       * @default false
       */
      start: boolean;
      /**
       * Tags
       * @description Up to 8 words of up to 32 characters
       * @default []
       */
      tags: string[];
    };
    /**
     * NextChange
     * @description The next automatic change, unless the workspace is used before.
     */
    NextChange: {
      /**
       * At
       * Format: date-time
       */
      at: string;
      to: components["schemas"]["DesiredState"];
      /** Why */
      why: string;
    };
    /**
     * ObservedStatus
     * @description The state the Observer last observed.
     *
     *     ERROR is a verdict (``HealthStatus``), not an observation.
     * @enum {string}
     */
    ObservedStatus: "PENDING" | "STANDBY" | "RUNNING" | "DELETED";
    /**
     * Operation
     * @description The one step in flight, or NONE.
     * @enum {string}
     */
    Operation: "NONE" | "PROVISIONING" | "RESTORING" | "STARTING" | "STOPPING" | "ARCHIVING" | "DELETING";
    /**
     * Orphan
     * @example {
     *       "kind": "archive",
     *       "name": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f/7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01/0190c7a25b1e7c3d9f003a5d2c1b4e6f/home.tar.zst",
     *       "first_seen_at": "2025-01-01T09:00:00+00:00",
     *       "bytes": null,
     *       "why": "expiring"
     *     }
     */
    Orphan: {
      /** Bytes */
      bytes: number | null;
      /** First Seen At */
      first_seen_at: string | null;
      /**
       * Kind
       * @enum {string}
       */
      kind: "container" | "volume" | "archive";
      /** Name */
      name: string;
      why: components["schemas"]["OrphanReason"];
    };
    /**
     * OrphanReason
     * @description Why an orphan is listed, and what happens to it.
     * @enum {string}
     */
    OrphanReason: "unknown_workspace" | "expiring" | "only_copy" | "retained";
    /**
     * Overview
     * @example {
     *       "counts": {
     *         "running": 3,
     *         "standby": 5,
     *         "archived": 40
     *       },
     *       "leaders": [
     *         {
     *           "name": "coordinator:wc",
     *           "holder_id": "host-1",
     *           "acquired_at": "2025-01-01T08:00:00+00:00",
     *           "epoch": 4,
     *           "last_tick_at": "2025-01-01T12:00:00+00:00"
     *         }
     *       ],
     *       "archive_bytes": 5368709120
     *     }
     */
    Overview: {
      /**
       * Archive Bytes
       * @description null: the archive store did not answer in time
       */
      archive_bytes: number | null;
      /**
       * Counts
       * @description Workspaces by status
       */
      counts: {
        [key: string]: number;
      };
      /** Leaders */
      leaders: components["schemas"]["Leader"][];
    };
    /** Page[ArchiveGeneration] */
    Page_ArchiveGeneration_: {
      /** Items */
      items: components["schemas"]["ArchiveGeneration"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[AuditEntry] */
    Page_AuditEntry_: {
      /** Items */
      items: components["schemas"]["AuditEntry"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[Finding] */
    Page_Finding_: {
      /** Items */
      items: components["schemas"]["Finding"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[HistoryEntry] */
    Page_HistoryEntry_: {
      /** Items */
      items: components["schemas"]["HistoryEntry"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[Orphan] */
    Page_Orphan_: {
      /** Items */
      items: components["schemas"]["Orphan"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[Setting] */
    Page_Setting_: {
      /** Items */
      items: components["schemas"]["Setting"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[Token] */
    Page_Token_: {
      /** Items */
      items: components["schemas"]["Token"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[User] */
    Page_User_: {
      /** Items */
      items: components["schemas"]["User"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /** Page[Workspace] */
    Page_Workspace_: {
      /** Items */
      items: components["schemas"]["Workspace"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /**
     * PasswordChange
     * @example {
     *       "current": "correct horse",
     *       "new": "battery staple"
     *     }
     */
    PasswordChange: {
      /** Current */
      current: string;
      /** New */
      new: string;
    };
    /**
     * Port
     * @description A TCP port on which something listens in the workspace.
     */
    Port: {
      /**
       * Addresses
       * @description What it is bound to
       */
      addresses: string[];
      /**
       * Is Ide
       * @description The IDE's own, which is the workspace's link
       */
      is_ide: boolean;
      /** Port */
      port: number;
      /**
       * Process
       * @description Null: the workspace's user may not see it
       */
      process: string | null;
      /**
       * Url
       * @description Where the owner's browser reaches it
       */
      url: string;
    };
    /**
     * Ports
     * @description What listens now, by port, and the home as the workspace itself names it.
     * @example {
     *       "ports": [
     *         {
     *           "port": 3000,
     *           "addresses": [
     *             "0.0.0.0"
     *           ],
     *           "process": "node",
     *           "is_ide": false,
     *           "url": "https://codehub.example.org/w/0191f3a2-0000-7000-8000-000000000001/port/3000/"
     *         }
     *       ],
     *       "truncated": false,
     *       "home": "/home/jovyan"
     *     }
     */
    Ports: {
      /** Home */
      home: string | null;
      /** Ports */
      ports: components["schemas"]["Port"][];
      /**
       * Truncated
       * @description There are more than are listed
       */
      truncated: boolean;
    };
    /**
     * Problem
     * @description Problem details (RFC 9457): ``code`` for programs, ``detail`` for people.
     */
    Problem: {
      /**
       * Allowed
       * @description With a limit: places allowed
       * @default null
       */
      allowed: number | null;
      /** Code */
      code: string;
      /** Detail */
      detail: string;
      /**
       * Errors
       * @description With 422: what is wrong with which field
       * @default null
       */
      errors: components["schemas"]["FieldError"][] | null;
      /**
       * Running
       * @description With a limit: your workspaces that hold places
       * @default null
       */
      running: components["schemas"]["RunningWorkspace"][] | null;
      /** Status */
      status: number;
      /** Title */
      title: string;
      /** Type */
      type: string;
      /**
       * Used
       * @description With a limit: places taken
       * @default null
       */
      used: number | null;
    };
    /**
     * Process
     * @description A detached process, which runs while ``ended_at`` is null. Killed ones: 128 and the signal's number.
     */
    Process: {
      /**
       * Command
       * @description Shortened
       * @example make train
       */
      command: string;
      /**
       * Ended At
       * @example null
       */
      ended_at: string | null;
      /**
       * Exit Code
       * @example null
       */
      exit_code: number | null;
      /**
       * Id
       * @example 5f0c2a9d1b7e
       */
      id: string;
      /**
       * Lost Bytes
       * @description Its beginning, which is not kept
       * @example 0
       */
      lost_bytes: number;
      /**
       * Output Bytes
       * @description Of both outputs, all of it
       * @example 1204
       */
      output_bytes: number;
      /**
       * Pid
       * @description In the workspace
       * @example 4711
       */
      pid: number;
      /**
       * Started At
       * Format: date-time
       * @example 2025-01-01T12:00:00Z
       */
      started_at: string;
      /**
       * Timed Out
       * @example false
       */
      timed_out: boolean;
    };
    /**
     * Processes
     * @description Detached processes in the order they were started, those that run and those that ended in the last day.
     */
    Processes: {
      /** Items */
      items: components["schemas"]["Process"][];
    };
    /**
     * PutBack
     * @description A file of an archive to write into the home.
     */
    PutBack: {
      /**
       * Overwrite
       * @description Replace what is there
       * @default false
       */
      overwrite: boolean;
      /**
       * Path
       * @description Absolute, or from the home
       * @example notes/today.md
       */
      path: string;
      /**
       * Target
       * @description Where to, if elsewhere
       * @example notes/today.old.md
       */
      target?: string | null;
    };
    /**
     * QueuePlace
     * @description Where a workspace stands among those that wait for a running place.
     */
    QueuePlace: {
      /**
       * Estimated Seconds
       * @description A rough estimate of the wait, by how long others have been running; null: none
       */
      estimated_seconds: number | null;
      /** @description limit_user: waits for one of its owner's own places; limit_global: for any place */
      limit: components["schemas"]["LimitKind"];
      /**
       * Place
       * @description 1: the next one
       */
      place: number;
      /**
       * Since
       * Format: date-time
       */
      since: string;
    };
    /**
     * Reason
     * @enum {string}
     */
    Reason: "Mismatch" | "Unreachable" | "ActionFailed" | "Timeout" | "RetryExceeded" | "DataLost";
    /**
     * RenamedSnapshot
     * @example {
     *       "name": "before the upgrade"
     *     }
     */
    RenamedSnapshot: {
      /** Name */
      name: string;
    };
    /**
     * Repair
     * @description What a person may ask for.
     * @enum {string}
     */
    Repair: "recover" | "return_to_newest" | "adopt";
    /**
     * RestoreArchive
     * @description The archive to return to: the parts of its `key` after the workspace.
     * @example {
     *       "op_id": "7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01",
     *       "attempt": "0190c7a25b1e7c3d9f003a5d2c1b4e6f",
     *       "start": true
     *     }
     */
    RestoreArchive: {
      /** Attempt */
      attempt: string;
      /**
       * Op Id
       * Format: uuid
       */
      op_id: string;
      /**
       * Start
       * @description Start it afterwards (desired state RUNNING)
       * @default false
       */
      start: boolean;
    };
    /** ReturnTarget */
    ReturnTarget: {
      /** Archive Key */
      archive_key: string;
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
    };
    /**
     * ReturnToArchive
     * @example {
     *       "archive_key": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f/7b0f5c1e-52c4-4f5e-9d0e-1f1d5b5f6a01/0190c7a25b1e7c3d9f003a5d2c1b4e6f/home.tar.zst"
     *     }
     */
    ReturnToArchive: {
      /**
       * Archive Key
       * @description The archive to go on from: the workspace's `archive_key`
       */
      archive_key: string;
    };
    /** RivalLeader */
    RivalLeader: {
      /** Holder Id */
      holder_id: string;
      /** Lock Name */
      lock_name: string;
    };
    /**
     * Role
     * @enum {string}
     */
    Role: "admin" | "user";
    /** RunningWorkspace */
    RunningWorkspace: {
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Name */
      name: string;
      status: components["schemas"]["Status"];
    };
    /**
     * Savings
     * @description What sleeping saved since the month began (UTC). Up to a minute old.
     * @example {
     *       "since": "2026-11-01T00:00:00Z",
     *       "hours_existed": 1224.5,
     *       "hours_ran": 96.25,
     *       "hours_saved": 1128.25,
     *       "gb_not_on_disk": 12.4,
     *       "gb_months_saved": 7.2,
     *       "money": 90.26,
     *       "currency": "EUR"
     *     }
     */
    Savings: {
      /**
       * Currency
       * @description Currency of the price, as it is configured
       */
      currency: string | null;
      /**
       * Gb Months Saved
       * @description Gigabytes times the months (730 h) they were on no disk since the month began
       */
      gb_months_saved: number;
      /**
       * Gb Not On Disk
       * @description Gigabytes of homes that are archived now, unpacked
       */
      gb_not_on_disk: number;
      /**
       * Hours Existed
       * @description Hours the workspaces existed, all added up; deleted ones until then
       */
      hours_existed: number;
      /**
       * Hours Ran
       * @description Hours they ran, from their timelines
       */
      hours_ran: number;
      /**
       * Hours Saved
       * @description Hours they would have run in addition if nothing were put to sleep
       */
      hours_saved: number;
      /**
       * Money
       * @description Price of the hours and the disk saved; null: no price is configured
       */
      money: number | null;
      /**
       * Since
       * Format: date-time
       */
      since: string;
    };
    /** SessionInfo */
    SessionInfo: {
      user: components["schemas"]["User"];
    };
    /**
     * Setting
     * @example {
     *       "name": "STANDBY_TTL",
     *       "value": "600",
     *       "default": "300",
     *       "meaning": "Idle seconds before a workspace sleeps",
     *       "secret": false,
     *       "changed": true
     *     }
     */
    Setting: {
      /**
       * Changed
       * @description It is not the default
       */
      changed: boolean;
      /** Default */
      default: string;
      /** Meaning */
      meaning: string;
      /**
       * Name
       * @description The environment variable
       */
      name: string;
      /** Secret */
      secret: boolean;
      /**
       * Value
       * @description null: not set, or a secret, which is never shown
       */
      value: string | null;
    };
    /**
     * Share
     * @example {
     *       "port": 5173,
     *       "label": "the demo",
     *       "level": "public",
     *       "level_now": "public",
     *       "expires_at": "2025-01-02T12:00:00Z",
     *       "url": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/",
     *       "link": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/_codehub/share?key=k3y"
     *     }
     */
    Share: {
      /** Expires At */
      expires_at: string | null;
      /** Label */
      label: string;
      level: components["schemas"]["ShareLevel"];
      /** @description `private` once it has expired, or while the installation allows less */
      level_now: components["schemas"]["ShareLevel"];
      /**
       * Link
       * @description The public link. Whoever has it gets in: treat it as a password
       */
      link: string | null;
      /** Port */
      port: number;
      /**
       * Url
       * @description Where it is opened
       */
      url: string;
    };
    /**
     * ShareLevel
     * @description Who may open a port besides the owner and admins, least first.
     * @enum {string}
     */
    ShareLevel: "private" | "signed_in" | "public";
    /**
     * Shares
     * @example {
     *       "shares": [
     *         {
     *           "port": 5173,
     *           "label": "the demo",
     *           "level": "public",
     *           "level_now": "public",
     *           "expires_at": "2025-01-02T12:00:00Z",
     *           "url": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/",
     *           "link": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/_codehub/share?key=k3y"
     *         }
     *       ],
     *       "highest": "public",
     *       "lower_because": null,
     *       "max_link_hours": 168
     *     }
     */
    Shares: {
      /** @description The highest level that can be shared here */
      highest: components["schemas"]["ShareLevel"];
      /**
       * Lower Because
       * @description Why not more; null: it is all
       */
      lower_because: ("no_base_domain" | "ceiling") | null;
      /**
       * Max Link Hours
       * @description How long a public link may last
       */
      max_link_hours: number;
      /** Shares */
      shares: components["schemas"]["Share"][];
    };
    /**
     * SshGateway
     * @example {
     *       "host": "codehub.example.org",
     *       "port": 2222,
     *       "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBJ9GfX85iiqotD+ELkt1S9yLMdTE1NVAU7ZjPktZN6q",
     *       "fingerprint": "SHA256:lTKuXpVfL4OT8vVB+h1O2gzOERv3g81TE/2UmlQZfY0"
     *     }
     */
    SshGateway: {
      /**
       * Fingerprint
       * @description Of the host key, as `ssh` shows it before the first connection
       */
      fingerprint: string;
      /** Host */
      host: string;
      /**
       * Host Key
       * @description As `known_hosts` has it, without a name
       */
      host_key: string;
      /** Port */
      port: number;
    };
    /**
     * SshHost
     * @description A workspace as an SSH client knows it.
     */
    SshHost: {
      /**
       * Host Key
       * @description As known_hosts has it
       * @example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDd
       */
      host_key: string;
    };
    /**
     * SshKey
     * @example {
     *       "id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *       "name": "laptop",
     *       "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII38LAmTqn7IksOkCKTigyQQ14kQ0F8LndRfe+nmkQ2S",
     *       "fingerprint": "SHA256:WxML8JEKqn6a2mQEje+Z7z+ElgmfAcZpeRAgOrZ11Qo",
     *       "added_at": "2025-01-01T10:00:00+00:00",
     *       "last_used_at": null
     *     }
     */
    SshKey: {
      /**
       * Added At
       * Format: date-time
       */
      added_at: string;
      /**
       * Fingerprint
       * @description As `ssh-keygen -l` shows it
       */
      fingerprint: string;
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Last Used At */
      last_used_at: string | null;
      /** Name */
      name: string;
      /**
       * Public Key
       * @description Type and key, without a comment
       */
      public_key: string;
    };
    /** SshKeys */
    SshKeys: {
      /** @description Where these keys are used; null: there is no SSH gateway */
      gateway: components["schemas"]["SshGateway"] | null;
      /** Items */
      items: components["schemas"]["SshKey"][];
      /**
       * Next Cursor
       * @example null
       */
      next_cursor: string | null;
    };
    /**
     * StartWorkspace
     * @example {
     *       "queue": true
     *     }
     */
    StartWorkspace: {
      /**
       * Instead Of
       * @description A running workspace of the same owner, to be stopped in the same transaction
       */
      instead_of?: string | null;
      /**
       * Queue
       * @description At a limit: wait for a running place
       * @default false
       */
      queue: boolean;
    };
    /**
     * Status
     * @enum {string}
     */
    Status:
      | "deleted"
      | "deleting"
      | "error"
      | "provisioning"
      | "restoring"
      | "starting"
      | "stopping"
      | "archiving"
      | "running"
      | "standby"
      | "archived"
      | "new";
    /**
     * Token
     * @example {
     *       "id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *       "name": "laptop",
     *       "created_at": "2025-01-01T10:00:00+00:00",
     *       "expires_at": "2025-04-01T10:00:00+00:00",
     *       "last_used_at": null
     *     }
     */
    Token: {
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
      /** Expires At */
      expires_at: string | null;
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Last Used At */
      last_used_at: string | null;
      /** Name */
      name: string;
    };
    /**
     * TokenShownOnce
     * @example {
     *       "id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *       "name": "laptop",
     *       "created_at": "2025-01-01T10:00:00+00:00",
     *       "expires_at": "2025-04-01T10:00:00+00:00",
     *       "last_used_at": null,
     *       "token": "chp_this-is-shown-once"
     *     }
     */
    TokenShownOnce: {
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
      /** Expires At */
      expires_at: string | null;
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Last Used At */
      last_used_at: string | null;
      /** Name */
      name: string;
      /** Token */
      token: string;
    };
    /** Usage */
    Usage: {
      /** Allowed */
      allowed: number;
      /** Used */
      used: number;
    };
    /**
     * User
     * @example {
     *       "id": "0190c7a0-0000-7000-8000-000000000001",
     *       "username": "ann",
     *       "role": "user",
     *       "created_at": "2025-01-01T10:00:00+00:00",
     *       "disabled_at": null
     *     }
     */
    User: {
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
      /** Disabled At */
      disabled_at: string | null;
      /**
       * Id
       * Format: uuid
       */
      id: string;
      role: components["schemas"]["Role"];
      /** Username */
      username: string;
    };
    /**
     * UserChange
     * @description Only fields that are sent change. A password or disabling ends all sessions.
     * @example {
     *       "disabled": true
     *     }
     */
    UserChange: {
      /** Disabled */
      disabled?: boolean | null;
      /** Password */
      password?: string | null;
      role?: components["schemas"]["Role"] | null;
    };
    /**
     * Work
     * @description What a workspace does by itself.
     */
    Work: {
      /**
       * Name
       * @description Of the job's program, or as the image says; may be empty
       */
      name: string;
      /**
       * Until
       * Format: date-time
       * @description When it stops counting, unless a person comes
       */
      until: string;
      /** @description kernel: a notebook executes; job: a program in the foreground of a terminal, or detached; cpu: its processes compute; ide: the image says so; unknown: it could not be asked */
      what: components["schemas"]["BusyWith"];
    };
    /**
     * Workspace
     * @example {
     *       "id": "0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f",
     *       "owner_id": "0190c7a0-0000-7000-8000-000000000001",
     *       "name": "thesis",
     *       "description": "",
     *       "memo": "",
     *       "tags": [
     *         "papers"
     *       ],
     *       "pinned": false,
     *       "image_ref": "jupyterlab",
     *       "desired_state": "RUNNING",
     *       "standby_ttl_seconds": 300,
     *       "archive_ttl_seconds": 86400,
     *       "last_access_at": "2025-01-01T12:00:00+00:00",
     *       "awake_until": null,
     *       "active_until": null,
     *       "queued_at": null,
     *       "deleted_at": null,
     *       "observed_status": "RUNNING",
     *       "health_status": "OK",
     *       "observed_at": "2025-01-01T12:00:05+00:00",
     *       "operation": "NONE",
     *       "op_id": null,
     *       "op_seq": 3,
     *       "op_started_at": null,
     *       "op_acted_at": null,
     *       "archive_key": null,
     *       "archived_at": null,
     *       "node_local_home": false,
     *       "restore_from": null,
     *       "snapshot_as": null,
     *       "copy_of": null,
     *       "return_given_up": null,
     *       "error_count": 0,
     *       "error_info": null,
     *       "last_retry_at": null,
     *       "previous_status": null,
     *       "version": 9,
     *       "created_at": "2025-01-01T11:00:00+00:00",
     *       "updated_at": "2025-01-01T12:00:05+00:00",
     *       "status": "running",
     *       "holds_place": true,
     *       "progress": null,
     *       "waiting_for": null,
     *       "url": "https://codehub.example.org/w/0190c7a2-5b1e-7c3d-9f00-3a5d2c1b4e6f/",
     *       "activity": {
     *         "connections": 0,
     *         "last_seen_at": "2025-01-01T12:00:00+00:00",
     *         "kind": "http",
     *         "awake": {
     *           "because": "used",
     *           "since": "2025-01-01T12:00:00+00:00",
     *           "work": null
     *         },
     *         "next": {
     *           "to": "STANDBY",
     *           "at": "2025-01-01T12:05:00+00:00",
     *           "why": "idle for 5 min"
     *         },
     *         "queue": null
     *       }
     *     }
     */
    Workspace: {
      /** Active Until */
      active_until: string | null;
      activity: components["schemas"]["Activity"];
      /** Archive Key */
      archive_key: string | null;
      /** Archive Ttl Seconds */
      archive_ttl_seconds: number;
      /**
       * Archived At
       * @description When that archive was committed; null: there is none, or an older release made it
       */
      archived_at: string | null;
      /** Awake Until */
      awake_until: string | null;
      /**
       * Copy Of
       * @description The workspace whose archive it began with; null: it is no copy
       */
      copy_of: string | null;
      /**
       * Created At
       * Format: date-time
       */
      created_at: string;
      /** Deleted At */
      deleted_at: string | null;
      /** Description */
      description: string;
      desired_state: components["schemas"]["DesiredState"];
      /** Error Count */
      error_count: number;
      error_info: components["schemas"]["ErrorInfo"] | null;
      health_status: components["schemas"]["HealthStatus"];
      /**
       * Holds Place
       * @description Whether it counts against the limits of running workspaces
       */
      holds_place: boolean;
      /**
       * Id
       * Format: uuid
       */
      id: string;
      /** Image Ref */
      image_ref: string;
      /**
       * Last Access At
       * Format: date-time
       */
      last_access_at: string;
      /** Last Retry At */
      last_retry_at: string | null;
      /** Memo */
      memo: string;
      /** Name */
      name: string;
      /**
       * Node Local Home
       * @description Its home is on one node of the cluster: if that node is lost, so is what was written since `archived_at`
       */
      node_local_home: boolean;
      /** Observed At */
      observed_at: string | null;
      observed_status: components["schemas"]["ObservedStatus"];
      /** Op Acted At */
      op_acted_at: string | null;
      /** Op Id */
      op_id: string | null;
      /** Op Seq */
      op_seq: number;
      /** Op Started At */
      op_started_at: string | null;
      operation: components["schemas"]["Operation"];
      /**
       * Owner Id
       * Format: uuid
       */
      owner_id: string;
      /**
       * Pinned
       * @description First in its owner's list
       */
      pinned: boolean;
      previous_status: components["schemas"]["ObservedStatus"] | null;
      /**
       * Progress
       * @description Percent of the running operation, if known
       */
      progress: number | null;
      /**
       * Queued At
       * @description Since when it waits for a running place (`activity.queue` tells where); null: it does not
       */
      queued_at: string | null;
      /** @description The earlier archive it is to return to, once its present home is archived */
      restore_from: components["schemas"]["ReturnTarget"] | null;
      /**
       * Return Given Up
       * @description Why the last return to an earlier archive was given up; null once the home is archived again
       */
      return_given_up: string | null;
      /** @description The snapshot that is wanted and not made yet */
      snapshot_as: components["schemas"]["NamedSnapshot"] | null;
      /** Standby Ttl Seconds */
      standby_ttl_seconds: number;
      /** @description Desired state, observation, health and operation in one word */
      status: components["schemas"]["Status"];
      /**
       * Tags
       * @description The owner's own words to find and group it by
       */
      tags: string[];
      /**
       * Updated At
       * Format: date-time
       */
      updated_at: string;
      /**
       * Url
       * @description URL that opens the workspace in a browser
       */
      url: string;
      /**
       * Version
       * @description Grows with every change people can see
       */
      version: number;
      /**
       * Waiting For
       * @description Why no node of the cluster takes it yet, in the scheduler's words; null: it does not wait
       */
      waiting_for: string | null;
    };
    /**
     * WorkspaceChange
     * @description Only fields that are sent change.
     * @example {
     *       "name": "thesis",
     *       "standby_ttl_seconds": 900
     *     }
     */
    WorkspaceChange: {
      /**
       * Archive Ttl Seconds
       * @default 0
       */
      archive_ttl_seconds: number;
      /**
       * Description
       * @default
       */
      description: string;
      /**
       * Memo
       * @default
       */
      memo: string;
      /**
       * Name
       * @default
       */
      name: string;
      /**
       * Pinned
       * @description First in the list
       * @default false
       */
      pinned: boolean;
      /**
       * Standby Ttl Seconds
       * @default 0
       */
      standby_ttl_seconds: number;
      /**
       * Tags
       * @description All of its tags
       * @default []
       */
      tags: string[];
    };
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: never;
  pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
