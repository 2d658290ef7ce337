const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })
const minutes = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

/** A day as pages show it: `21 Nov 2026`. */
export function wordDay(moment: Date): string {
  return days.format(moment)
}

/** A point in time as pages show it, to the minute: `21 Nov 2026, 03:25 UTC`. */
export function wordMoment(moment: Date): string {
  return `${minutes.format(moment)} UTC`
}

/** A number of bytes as pages show it: `12 kB`, `3.4 MB`. */
export function wordSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const isSmall = bytes < 999_500
  const [amount, unit] = isSmall ? [bytes / 1000, 'kB'] : [bytes / 1_000_000, 'MB']
  return `${amount.toFixed(amount < 10 ? 1 : 0)} ${unit}`
}
