/** Formats a Markdown table. The first column is text, the others are numbers. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => pad(cell, column, widths[column] ?? 0)).join(' | ')} |`
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`))
  return [line(head), line(rule), ...rows.map(line)].join('\n')
}

/** Formats a number with three significant digits, or as a whole number with commas: `0.123`, `12.3`, `12,345`. */
export function figure(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value.toPrecision(3)
}

/** Formats a ratio: `0.42 ×`. */
export function ratio(value: number): string {
  return `${value.toFixed(2)} ×`
}

function pad(cell: string, column: number, width: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width)
}
