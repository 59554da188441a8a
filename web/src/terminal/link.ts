/**
 * One terminal's connection. It comes back by itself to the same shell after a lost line, and never after anything that
 * was said to have ended. Neither side has more under way than a window: a browser keeps whatever it is sent.
 */
import { retryDelay } from "../live/connection";

export type Ending =
  | "stopped"
  | "signedOut"
  | "deleted"
  | "broken"
  | "notStarted"
  | "noTunnel"
  | "taken"
  | "exited"
  | "tooMany"
  | "noShell"
  | "notAvailable"
  | "busy"
  | "misused";

export type Phase =
  | { is: "connecting" }
  | { is: "open" }
  | { is: "lost" }
  | { is: "ended"; how: Ending; exitCode: number | null };

const ENDINGS: Record<number, Ending> = {
  1008: "misused",
  4001: "stopped",
  4002: "signedOut",
  4003: "deleted",
  4004: "broken",
  4005: "notStarted",
  4006: "noTunnel",
  4007: "taken",
  4008: "exited",
  4009: "tooMany",
  4010: "noShell",
  4011: "notAvailable",
  4012: "busy",
};
const ACK_EVERY = 32 * 1024;
const INPUT_PIECE = 8 * 1024;
const INPUT_WINDOW = 64 * 1024;
const MAX_PASTE = 4 * 1024 * 1024;

export interface Screen {
  columns: number;
  rows: number;
  /** Empties it: recent output is told again after every connection. */
  clear: () => void;
  show: (bytes: Uint8Array, done: () => void) => void;
  /** The shell is a new one although this page had another before. */
  onNewShell: () => void;
}

export interface LinkOptions {
  address: (query: URLSearchParams) => string;
  terminal: string;
  screen: Screen;
  onPhase: (phase: Phase) => void;
  /** Asked after a connection failed that was never open: false if the person is not signed in any more. */
  mayRetry: () => Promise<boolean>;
}

export class Link {
  private socket: WebSocket | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private closed = false;
  private attachedOnce = false;
  private replaying = true;
  private shown = 0;
  private waiting: Uint8Array[] = [];
  private waitingBytes = 0;
  private underWay = 0;
  private exitCode: number | null = null;
  private readonly client = crypto.getRandomValues(new Uint32Array(4)).join("-");

  constructor(private readonly options: LinkOptions) {}

  open(): void {
    clearTimeout(this.retry);
    if (this.closed || this.socket) return;
    if (this.failures === 0) this.options.onPhase({ is: "connecting" });
    const query = new URLSearchParams({
      id: this.options.terminal,
      client: this.client,
      columns: String(this.options.screen.columns),
      rows: String(this.options.screen.rows),
      resume: String(this.attachedOnce),
    });
    const socket = new WebSocket(this.options.address(query));
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.replaying = true;
    this.shown = this.underWay = this.waitingBytes = 0;
    this.waiting = [];
    socket.onmessage = (event) => {
      if (typeof event.data === "string") this.told(JSON.parse(event.data) as Record<string, unknown>);
      else this.output(socket, new Uint8Array(event.data as ArrayBuffer));
    };
    socket.onclose = (event) => void this.onClose(socket, event.code);
  }

  /** What the person types or pastes. What a terminal answers to questions that are only told again is no input. */
  input(text: string): void {
    if (this.replaying || this.socket?.readyState !== WebSocket.OPEN) return;
    const bytes = new TextEncoder().encode(text);
    if (this.waitingBytes + bytes.length > MAX_PASTE) return;
    for (let begin = 0; begin < bytes.length; begin += INPUT_PIECE)
      this.waiting.push(bytes.slice(begin, begin + INPUT_PIECE));
    this.waitingBytes += bytes.length;
    this.send();
  }

  resize(columns: number, rows: number): void {
    this.say({ resize: [columns, rows] });
  }

  /** A person asks for it: also for a terminal that was taken over, or whose shell has ended. */
  again(): void {
    this.attachedOnce = false;
    this.failures = 0;
    this.open();
  }

  hurry(): void {
    if (!this.socket && this.retry !== undefined) this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.socket?.close();
  }

  private told(message: Record<string, unknown>): void {
    if ("attached" in message) {
      const { new: isNew } = message.attached as { new: boolean };
      this.options.screen.clear();
      if (isNew && this.attachedOnce) this.options.screen.onNewShell();
      this.attachedOnce = true;
      this.failures = 0;
      this.exitCode = null;
      this.options.onPhase({ is: "open" });
    } else if ("live" in message) {
      // After everything before it was shown, so that no answer to an old question passes.
      this.options.screen.show(new Uint8Array(), () => (this.replaying = false));
    } else if ("took" in message) {
      this.underWay -= message.took as number;
      this.send();
    } else if ("exit" in message) this.exitCode = message.exit as number;
  }

  private output(socket: WebSocket, bytes: Uint8Array): void {
    this.options.screen.show(bytes, () => {
      if (this.socket !== socket) return;
      this.shown += bytes.length;
      if (this.shown < ACK_EVERY) return;
      this.say({ ack: this.shown });
      this.shown = 0;
    });
  }

  private send(): void {
    while (this.waiting.length > 0 && this.underWay < INPUT_WINDOW) {
      const piece = this.waiting.shift()!;
      this.waitingBytes -= piece.length;
      this.underWay += piece.length;
      this.socket?.send(piece as Uint8Array<ArrayBuffer>);
    }
  }

  private say(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private async onClose(socket: WebSocket, code: number): Promise<void> {
    if (this.socket !== socket) return;
    this.socket = null;
    if (this.closed) return;
    const how = ENDINGS[code];
    // A process of CodeHub that ends says "signed out", too: whoever still is comes back.
    if (how !== undefined && how !== "signedOut") {
      this.options.onPhase({ is: "ended", how, exitCode: this.exitCode });
      return;
    }
    this.failures += 1;
    this.options.onPhase({ is: "lost" });
    if (!(await this.options.mayRetry())) {
      this.options.onPhase({ is: "ended", how: "signedOut", exitCode: null });
      return;
    }
    if (!this.closed && !this.socket) this.retry = setTimeout(() => this.open(), retryDelay(this.failures));
  }
}
