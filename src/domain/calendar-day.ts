/**
 * Returns whether a text in the format `2027-01-31` is a day of the calendar. JavaScript would read 31 February as a day
 * of March.
 */
export function isCalendarDay(text: string): boolean {
  const start = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(start.getTime()) && start.toISOString().slice(0, 10) === text
}
