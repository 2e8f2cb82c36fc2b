import { messages } from "@/messages";

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

/** The time of day, in the reader's zone. */
export function clockTime(at: number): string {
  return clock.format(new Date(at * 1000));
}

/** A time as seen from another: "3 min. ago", "in 2 hr.". Both in seconds since 1970. */
export function relativeTime(at: number, now: number): string {
  const seconds = at - now;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return messages.parts.now;
}

/** A time in full, in the reader's zone. */
export function fullTime(at: number): string {
  return absolute.format(new Date(at * 1000));
}

/** A duration: "840 ms", "12.4 s", "3 min 20 s", "2 h 5 min", "4 d 3 h". */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400)
    return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

/** An amount of dollars; what nobody knows is unknown, never free. */
export function money(dollars: number | null | undefined): string {
  if (dollars === null || dollars === undefined) return messages.parts.unknown;
  const digits = dollars !== 0 && Math.abs(dollars) < 0.01 ? 5 : 2;
  return `$${dollars.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

/** A size in bytes. */
export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
