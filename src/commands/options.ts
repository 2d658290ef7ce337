import { type Command, InvalidArgumentError, Option } from 'commander'
import { resourceScopes } from '../domain/permissions.ts'
import { isApplicationScope, isScope, openidScopes, scopeDefinitions } from '../domain/scopes.ts'
import { tokenAlgorithms } from '../domain/token-algorithm.ts'

/** Returns `--json`, an option of every command except `serve` and `completion`. */
export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object')
}

/** Returns `--scope` of a token. It can be repeated, and takes values separated by commas too. */
export function scopeOption(): Option {
  return optionOfScopes(isScope)
}

/** Returns `--scope` of an application, which also takes the scopes of OpenID Connect. */
export function applicationScopeOption(): Option {
  return optionOfScopes(isApplicationScope)
}

function optionOfScopes(isAllowed: (scope: string) => boolean): Option {
  return new Option('--scope <scopes...>', 'scopes, such as registry-package:rw')
    .argParser((text: string, before: string[] | undefined) => readScopes(text, before, isAllowed))
    .makeOptionMandatory()
}

/** Returns `--resource-scope`: which repositories an application or a token may access. */
export function resourceScopeOption(description: string): Option {
  return new Option('--resource-scope <extent>', description).choices(resourceScopes)
}

/** Returns `--id-token-alg`: the algorithm that signs the ID tokens of an application. */
export function tokenAlgorithmOption(): Option {
  return new Option('--id-token-alg <algorithm>', 'what signs its ID tokens').choices(tokenAlgorithms)
}

/** The options of every command that prints a result: `--json`. */
export interface JsonOptions {
  json?: boolean
}

/** The options of a list. */
export interface ListOptions extends JsonOptions {
  limit: number
  after?: string
}

/** The options of a list with a search. */
export interface SearchOptions extends ListOptions {
  search?: string
}

/** Returns `--search`. */
export function searchOption(words: string): Option {
  return new Option('--search <text>', words)
}

/** Adds `--limit` and `--after`, because lists are read in parts. */
export function withListOptions(command: Command): Command {
  return command
    .option('--limit <n>', 'how many to list', wholeNumber('items', 1, 1000), 100)
    .option('--after <key>', 'continue after this item: the value of "next" in the previous part')
    .addOption(jsonOption())
}

/** Returns a parser of whole numbers within bounds. `unit` is for the error message. */
export function wholeNumber(unit: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (number >= least && number <= most) return number
    throw new InvalidArgumentError(`It must be a whole number of ${unit} from ${least} to ${most}.`)
  }
}

/** Parses the lifetime of a token: a number of days, or `never`. */
export function daysOrNever(text: string): number | 'never' {
  if (text === 'never') return 'never'
  try {
    return wholeNumber('days', 1, 3650)(text)
  } catch {
    throw new InvalidArgumentError('It must be a whole number of days from 1 to 3650, or never.')
  }
}

/** All scopes of a token, for a command's help. */
export const scopesHelp = `
Scopes (:r reads, :rw reads and writes):
${scopeDefinitions.map(({ name, permissions }) => `  ${permissions.map((p) => `${name}:${p}`).join('  ')}`).join('\n')}
`

/** All scopes of an application, for a command's help. */
export const applicationScopesHelp = `${scopesHelp}
To sign people in (OpenID Connect): ${openidScopes.join('  ')}
`

function readScopes(
  text: string,
  before: string[] | undefined,
  isAllowed: (scope: string) => boolean,
): string[] {
  const scopes = text.split(',').filter((scope) => scope !== '')
  if (scopes.length === 0) throw new InvalidArgumentError('It is empty: --help lists the scopes.')
  const wrong = scopes.find((scope) => !isAllowed(scope))
  if (wrong !== undefined) throw new InvalidArgumentError(explainScope(wrong))
  return [...new Set([...(before ?? []), ...scopes])]
}

function explainScope(wrong: string): string {
  const [name] = wrong.split(':')
  const definition = scopeDefinitions.find((one) => one.name === name)
  if (!definition) return `There is no scope ${JSON.stringify(wrong)}: --help lists them.`
  return `Write ${definition.permissions.map((permission) => `${name}:${permission}`).join(' or ')}.`
}
