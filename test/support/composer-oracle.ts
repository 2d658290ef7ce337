import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('composer-oracle.php', import.meta.url))

/** A method of `composer-oracle.php` and its arguments. */
export type Question = [method: string, ...arguments_: unknown[]]

/** Whether PHP and Debian's Composer are installed. With CI=true they must be. */
export const hasComposer = process.env['CI'] !== undefined || canAsk()

/** Calls Composer's own classes, for all questions in one process. Null where Composer throws. */
export function askComposer(questions: Question[]): unknown[] {
  // SEMVER_AUTOLOAD is the path of another semver library, instead of Debian's.
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
