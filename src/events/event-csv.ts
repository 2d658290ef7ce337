const columns = [
  'id',
  'happened_at',
  'action',
  'account',
  'application',
  'client_id',
  'actor',
  'via',
  'ip',
  'user_agent',
  'request_id',
  'details',
  'group',
  'repository',
  'package',
  'version',
  'token',
]

/** The first line of a CSV file of events. */
export const eventCsvHead = `${columns.join(',')}\r\n`

/** Formats an event as a line of a CSV file (RFC 4180). It is the format of commands and exports (`describeEvent`). */
export function eventCsvLine(described: Record<string, unknown>): string {
  return `${columns.map((name) => csvField(described[name])).join(',')}\r\n`
}

/** Spreadsheets run text that begins like a formula. A leading quote prevents this. */
function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  const plain = typeof value === 'string' ? value : JSON.stringify(value)
  const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(plain) ? `'${plain}` : plain
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
