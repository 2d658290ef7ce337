import type { TestProject } from 'vitest/node'
import { startTestPostgres } from './postgres.ts'

/** Runs once before all test files: starts their PostgreSQL; what it answers runs after them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startTestPostgres()
  project.provide('postgres', postgres.connection)
  return postgres.stop
}
