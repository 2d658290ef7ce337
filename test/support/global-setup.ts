import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { openDatabase } from '../../src/database/database.ts'
import { builtInMigrations, migrate } from '../../src/database/migrate.ts'
import { onServer, template } from './database.ts'
import { writePhpSettings } from './php.ts'
import { startTestPostgres } from './postgres.ts'

/** Runs once before all test files: starts their PostgreSQL and makes the migrated database that each clones. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startTestPostgres()
  await onServer(postgres.connection, `create database ${template}`)
  const db = openDatabase({ ...postgres.connection, database: template }, (error) => {
    throw error
  })
  await migrate(db, builtInMigrations)
  await db.end()
  project.provide('postgres', postgres.connection)
  const asPrograms = await mkdtemp(join(tmpdir(), 'svc-test-as-programs-'))
  project.provide('asPrograms', asPrograms)
  const phpSettings = await mkdtemp(join(tmpdir(), 'svc-test-php-'))
  await writePhpSettings(phpSettings)
  project.provide('phpSettings', phpSettings)
  return async () => {
    await rm(asPrograms, { recursive: true })
    await rm(phpSettings, { recursive: true })
    await postgres.stop()
  }
}
