const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })
const minutes = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

/** Formats a day in UTC: `21 Nov 2026`. */
export function formatDay(moment: Date): string {
  return days.format(moment)
}

/** Formats a point in time to the minute: `21 Nov 2026, 03:25 UTC`. */
export function formatTime(moment: Date): string {
  return `${minutes.format(moment)} UTC`
}

/** Formats a number of bytes: `12 kB`, `3.4 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const isSmall = bytes < 999_500
  const [amount, unit] = isSmall ? [bytes / 1000, 'kB'] : [bytes / 1_000_000, 'MB']
  return `${amount.toFixed(amount < 10 ? 1 : 0)} ${unit}`
}
