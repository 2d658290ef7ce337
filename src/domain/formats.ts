// Creating a formatter is slow, so each one is created at its first use.
let days: Intl.DateTimeFormat | undefined
let minutes: Intl.DateTimeFormat | undefined
let numbers: Intl.NumberFormat | undefined

/** Formats a day in UTC: `21 Nov 2026`. */
export function formatDay(moment: Date): string {
  days ??= new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })
  return days.format(moment)
}

/** Formats a point in time to the minute: `21 Nov 2026, 03:25 UTC`. */
export function formatTime(moment: Date): string {
  minutes ??= new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
  return `${minutes.format(moment)} UTC`
}

const sizeUnits = ['kB', 'MB', 'GB', 'TB', 'PB']

/** Formats a number of bytes: `12 kB`, `3.4 MB`, `271 GB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  let amount = bytes / 1000
  let unit = 0
  // 999.5 of a unit would be shown as 1000 of it.
  for (; amount >= 999.5 && unit < sizeUnits.length - 1; unit += 1) amount /= 1000
  return `${amount.toFixed(amount < 10 ? 1 : 0)} ${sizeUnits[unit]}`
}

/** Formats a number: `1,200`. */
export function formatNumber(number: number): string {
  numbers ??= new Intl.NumberFormat('en')
  return numbers.format(number)
}

/** Formats a number with its noun: `1 package`, `1,200 packages`. A plural that does not add an s is given. */
export function formatCount(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatNumber(count)} ${count === 1 ? noun : plural}`
}
