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
