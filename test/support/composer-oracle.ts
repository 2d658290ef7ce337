import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('composer-oracle.php', import.meta.url))

/** A method of `composer-oracle.php` and its arguments. */
export type Question = [method: string, ...arguments_: unknown[]]

/** Whether PHP and Debian's Composer are here to be asked. Under CI they must be. */
export const hasComposer = process.env['CI'] !== undefined || canAsk()

/** Asks Composer's own classes, all questions in one process. Null where Composer throws. */
export function askComposer(questions: Question[]): unknown[] {
  // SEMVER_AUTOLOAD: another semver library to compare with than Debian's.
  const library = process.env['SEMVER_AUTOLOAD']
  const output = execFileSync('php', [script, ...(library === undefined ? [] : [library])], {
    input: JSON.stringify(questions),
    maxBuffer: 1 << 30,
  })
  return JSON.parse(output.toString()) as unknown[]
}

function canAsk(): boolean {
  try {
    return askComposer([]).length === 0
  } catch {
    return false
  }
}
