import type { ChangedField } from '../compare-versions.ts'

/** The values of composer.json that can run code on a machine that installs or loads the package, the worst first. */
const runningCode = [
  /^bin$/,
  /^scripts(?:\.|$)/,
  /^autoload\.files$/,
  // Only a type that becomes one of a plugin is worth the reader's time.
  /^type$/,
  /^extra\.class$/,
]

/** The changes of composer.json, in the order in which a reviewer should read them. */
export interface ReviewedFields {
  /** Those that can run code: binaries, scripts, files that are always loaded, and a plugin of Composer. */
  code: ChangedField[]
  others: ChangedField[]
}

/** Puts the changed values first that can run code. Null when a composer.json cannot be read. */
export function orderFields(fields: readonly ChangedField[] | null): ReviewedFields | null {
  if (fields === null) return null
  const code = runningCode.flatMap((pattern) =>
    fields.filter((one) => pattern.test(one.field) && (one.field !== 'type' || isPlugin(one))),
  )
  return { code, others: fields.filter((one) => !code.includes(one)) }
}

function isPlugin({ after }: ChangedField): boolean {
  return after === '"composer-plugin"' || after === '"composer-installer"'
}
