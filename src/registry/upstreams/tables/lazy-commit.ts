/**
 * SQL: the first part of a statement whose loss in a crash of PostgreSQL does no harm, such as a note of a turn or of a
 * use. Its commit does not wait for the disk. Refer to it with `and exists (select from lazily)`.
 */
export const lazily = `lazily as materialized (select set_config('synchronous_commit', 'off', true))`
