import { enforcedScopes } from '../../domain/permissions.ts'
import { describeScopes, type ScopeGroup, scopeChoices } from '../../domain/scope-descriptions.ts'
import { openidScopes } from '../../domain/scopes.ts'

/** The scopes of a form, in groups: for views/partials/scope-groups.eta. */
export interface ScopeChoices {
  /** The scopes that this server checks. */
  choices: ScopeGroup[]
  /** The scopes that only other services check. */
  otherChoices: ScopeGroup[]
}

/** Returns all scopes of a token, for a form. */
export function allScopeChoices(): ScopeChoices {
  return {
    choices: scopeChoices((scope) => enforcedScopes.includes(scope)),
    otherChoices: scopeChoices((scope) => !enforcedScopes.includes(scope)),
  }
}

/** Returns all scopes of an application, for a form. */
export function applicationScopeChoices(): ScopeChoices {
  const { choices, otherChoices } = allScopeChoices()
  return { choices: [...describeScopes(openidScopes), ...choices], otherChoices }
}
