import type { Queryable } from '../database/database.ts'
import type { Visibility } from '../domain/permissions.ts'
import { listAccessibleRepositories, listNamedRepositories, tokenReader } from './accessible-repositories.ts'

/** A repository in a picker. */
export interface RepositoryChoice {
  /** `acme/php`. */
  path: string
  visibility: Visibility
  description: string
  isChosen: boolean
}

/** The repositories in a picker. */
export interface RepositoryPicker {
  search: string
  /** Chosen repositories come first. */
  choices: RepositoryChoice[]
  /** True when there are more repositories than the picker shows. */
  hasMore: boolean
}

/**
 * The maximum number of repositories in a picker that are not chosen. A longer list is hard to read, so the form also
 * offers a search.
 */
const maxChoices = 50

/**
 * Reads the repositories of a picker. The account is a member of each of them. The chosen ones come first. After them
 * come at most 50 others with the text in path or description.
 */
export async function readPicker(
  db: Queryable,
  accountId: string,
  { search, chosen }: { search: string; chosen: readonly string[] },
): Promise<RepositoryPicker> {
  const ticked = await listNamedRepositories(db, accountId, chosen)
  const isTicked = new Set(ticked.map(({ path }) => path))
  const limit = maxChoices + ticked.length + 1
  const found = await listAccessibleRepositories(db, tokenReader(accountId), {
    search,
    after: null,
    limit,
  })
  const others = found.filter(({ path }) => !isTicked.has(path))
  const choices = [
    ...ticked.map((one) => ({ ...one, isChosen: true })),
    ...others.slice(0, maxChoices).map((one) => ({ ...one, isChosen: false })),
  ]
  return {
    search,
    choices: choices.map(({ path, visibility, description, isChosen }) => ({
      path,
      visibility,
      description,
      isChosen,
    })),
    hasMore: others.length > maxChoices,
  }
}
