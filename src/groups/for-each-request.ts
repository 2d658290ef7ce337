import type { Queryable } from '../database/database.ts'
import { forEachCall } from '../database/shared-statements.ts'
import { type TokenKind, tokenKinds } from '../domain/secrets.ts'
import { accessJson, publisherAccessJson, type RegistryRequest, type WithAccess } from './access.ts'

/** SQL: one row, for a query that finds something for every request. */
export const oneRow = '(values (true)) as one (is_one)'

/** A query for many requests. */
interface RequestQuery {
  /** The name of its prepared statements. */
  name: string
  /** The number of values that are the same for all requests. They are `$1`, `$2` and so on. */
  commonValues?: number
  /** The types of the values that each request has. The query reads them as `call.<column>`. */
  columns: Record<string, string>
  /** Finds at most one row for a request. It reads the access of the request as `a`. */
  query: string
}

/** The values of a query for many requests. */
export interface RequestValues {
  targets: readonly RegistryRequest[]
  /** For each column an array with a value for each target. */
  columns?: readonly unknown[][]
  commonValues?: readonly unknown[]
}

/** What a request asks for, with the repository and the token of the request. */
export type ForRequest<Wanted> = Wanted & { target: RegistryRequest }

/** Runs a query for many requests. Returns a result for each target, in their order. */
type RunForRequests<Found> = (db: Queryable, values: RequestValues) => Promise<Found[]>

/**
 * Returns a function that runs a query for many requests in one statement. A result has the access of its request, and
 * the columns that the query found, or nulls.
 *
 * Most often all targets have the same repository and token, because Composer sends twelve requests at a time. Then the
 * statement checks one permission. There is such a statement for each kind of token, which leaves out the tables of the
 * other kinds. PostgreSQL needs time for every table of a statement, even for one that it does not read.
 */
export function forEachRequest<Found extends WithAccess>(about: RequestQuery): RunForRequests<Found> {
  const ofOneToken = new Map([null, ...tokenKinds].map((kind) => [kind, selectForOneToken(about, kind)]))
  const ofManyTokens = selectForManyTokens(about)

  return async (db, { targets, columns = [], commonValues = [] }) => {
    const places = targets.map((target) => targets.findIndex((other) => hasSameAccess(other, target)))
    const checked = targets.filter((_target, i) => places[i] === i)
    const [first, second] = checked
    const ofOne = first && !second && ofOneToken.get(first.token?.kind ?? null)
    const values = [...commonValues, ...columns, places]
    const { rows } = await db.query<Found>(
      ofOne
        ? { ...ofOne, values: [...values, ...valuesOfOneToken(first)] }
        : { ...ofManyTokens, values: [...values, ...valuesOfManyTokens(checked, places)] },
    )
    for (const [i, row] of rows.entries()) row.access = (rows[places[i] ?? i] ?? row).access
    return rows
  }
}

/** A prepared statement without its values. */
interface Statement {
  name: string
  text: string
}

/** Returns the columns of a query, and the place of the first request with the same repository and token, from 0. */
function columnsOf({ columns }: RequestQuery): Record<string, string> {
  return { ...columns, place: 'bigint' }
}

/** Only that first request has the access in its row. With all rows it would take a third of the statement's time. */
const accessOfFirst = (json: string) => `case when call.n = call.place + 1 then ${json} end as access`

/** The statement for requests with the same repository and a token of this kind, or without a token. */
function selectForOneToken(about: RequestQuery, kind: TokenKind | null): Statement {
  const { name, commonValues = 0, query } = about
  const columns = columnsOf(about)
  const last = commonValues + Object.keys(columns).length
  const check = `registry_access(group_name => $${last + 1}, repository_name => $${last + 2},
                                 presented_hash => ${kind ? `$${last + 3}` : 'null'}, place => null)`
  return {
    name: `${name}-${kind ?? 'no-token'}`,
    text: forEachCall(columns, query, {
      first: commonValues + 1,
      // The constant kind shows PostgreSQL which tables it does not need. `offset 0` makes it check only once.
      join: `left join (select * from ${check} ${kind ? `where token_kind = '${kind}'` : ''} offset 0) a on true`,
      select: accessOfFirst(kind === 'publisher' ? publisherAccessJson : accessJson),
    }),
  }
}

function valuesOfOneToken({ group, name, token }: RegistryRequest): unknown[] {
  return token ? [group, name, token.hash] : [group, name]
}

/** The statement for all other requests. Those of the same repository with the same token share a permission check. */
function selectForManyTokens(about: RequestQuery): Statement {
  const { name, commonValues = 0, query } = about
  const columns = columnsOf(about)
  const checks = forEachCall(
    { group_name: 'text', repository_name: 'text', token_hash: 'bytea', place: 'bigint' },
    `select call.place, a.* from registry_access(group_name => call.group_name, repository_name => call.repository_name,
                                                presented_hash => call.token_hash, place => null) a`,
    { first: commonValues + 1 + Object.keys(columns).length },
  )
  return {
    name,
    text: `with checked as materialized (${checks})
          ${forEachCall(columns, query, {
            first: commonValues + 1,
            join: 'join checked a on a.place = call.place',
            select: accessOfFirst(publisherAccessJson),
          })}`,
  }
}

function valuesOfManyTokens(
  checked: readonly RegistryRequest[],
  places: readonly number[],
): readonly unknown[][] {
  return [
    checked.map(({ group }) => group),
    checked.map(({ name }) => name),
    checked.map(({ token }) => token?.hash ?? null),
    [...new Set(places)],
  ]
}

function hasSameAccess(one: RegistryRequest, other: RegistryRequest): boolean {
  const [token, otherToken] = [one.token, other.token]
  return (
    one.group === other.group &&
    one.name === other.name &&
    (token === otherToken || (token !== null && otherToken !== null && token.hash.equals(otherToken.hash)))
  )
}
