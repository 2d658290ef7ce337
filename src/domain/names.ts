/**
 * The names of accounts, groups, repositories and upstreams: lower-case letters and digits, with single separators between
 * them. The constraints of their tables decide, and have this expression too.
 */
export const nameShape = /^[a-z0-9](?:[._-]?[a-z0-9])*$/
