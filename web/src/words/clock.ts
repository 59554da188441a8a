/**
 * The server's time, as far as the browser can tell. Countdowns ("sleeps in 4 min") are promises of the server's
 * clock; a laptop whose clock is ten minutes off must not turn them into lies.
 */

let offsetMs = 0;
let precisionMs = Infinity;

/** Take note of a moment the server stated. A coarser source never overrides a finer one by a trifle. */
export function learnServerTime(serverMs: number, precision: number, localMs: number = Date.now()): void {
  if (!Number.isFinite(serverMs)) return;
  const seen = serverMs - localMs;
  if (precision > precisionMs && Math.abs(seen - offsetMs) <= precision * 2) return;
  offsetMs = Math.abs(seen) < 2000 ? 0 : seen; // below two seconds it is the network's delay, not a wrong clock
  precisionMs = precision;
}

export function serverNow(localMs: number = Date.now()): number {
  return localMs + offsetMs;
}
